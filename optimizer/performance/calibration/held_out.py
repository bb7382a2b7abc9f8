"""Which runs the fit may not see: fresh cells set aside, and folds of the rest for choosing how to fit.

A cell is a model, precision, GPU, engine and pair of lengths, always kept or left out whole. Fresh cells are an eighth,
chosen by a hash of their names; the figures quoted for them come from a fit without them. Terms and spreads have been
chosen with their errors in view by now, as with the folds', so that neither is blind. The data file itself is fitted to
all rows.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pandas as pd

FOLDS = 4
FRESH_ONE_IN = 8


def cell_names(rows: pd.DataFrame) -> pd.Series:
    """Return the name of each row's cell: model|weights|GPU|engine|input tokens|output tokens (means)."""
    names = rows["model"] + "|" + rows["weights"] + "|" + rows["gpu"] + "|" + rows["engine"]
    lengths = [f"|{i:g}|{o:g}" for i, o in zip(rows["input_tokens"], rows["output_tokens"], strict=True)]
    return names + pd.Series(lengths, index=rows.index)


def is_fresh(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows belong to fresh cells."""
    return np.array([_number(name) % FRESH_ONE_IN == 0 for name in cell_names(rows)], dtype=np.bool_)


def fold_of(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the fold of each row, whole cells together."""
    return np.array([(_number(name) // FRESH_ONE_IN) % FOLDS for name in cell_names(rows)], dtype=np.int64)


def _number(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)
