"""From what a user wants to a backend over a table of replicas, and what covered how many of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.gpus import Gpu
from catalogs.model_spec import ModelSpec
from optimizer.performance.backends.measured import MEASURED, MeasuredTable, read_measured
from optimizer.performance.backends.protocol import ROOFLINE, SpeedBackend
from optimizer.performance.backends.tabled import NONE, TabledSpeed
from optimizer.performance.efficiency import (
    DEFAULT_ENGINE,
    Efficiencies,
    Setting,
    architecture_key,
    load_efficiencies,
    newest_era,
    tpot_error,
)
from optimizer.performance.speed import SpeedModel
from optimizer.scenario import SpeedSource

Ints = npt.NDArray[np.int64]
AICONFIGURATOR = "aiconfigurator"
# Of aiconfigurator's TPOT on average over 653 closed loops; 0.18 over the 907 that its error bands are from.
TPOT_ERROR = 0.21
CALIBRATED = "measured in our own calibration"


@dataclass(frozen=True, eq=False)
class Speeds:
    """A backend over a table of replicas, and which source covers each of them.

    Attributes:
        backend: answers for all rows.
        source: name of the source with figures of each row's setting; the roofline where no other has any.
        reasons: why aiconfigurator, where it was asked for, has no figures of a row; empty where it has.
    """

    backend: SpeedBackend
    source: npt.NDArray[np.object_]
    reasons: npt.NDArray[np.object_]

    def coverage(self, of_candidate: Ints) -> Coverage:
        """Count candidates by source, and those not covered by reason; given the row of each candidate."""
        times = np.bincount(of_candidate, minlength=len(self.source))
        by_source, by_reason = (_sums(texts, times) for texts in (self.source, self.reasons))
        return Coverage(by_source, {reason: count for reason, count in by_reason.items() if reason})


def _sums(texts: npt.NDArray[np.object_], times: Ints) -> dict[str, int]:
    """Return how often each text occurs, given how often each row does; the most frequent first."""
    code, distinct = pd.factorize(texts)
    sums = np.bincount(code, weights=times, minlength=len(distinct)).astype(np.int64).tolist()
    found = [(str(text), count) for text, count in zip(distinct, sums, strict=True) if count]
    return dict(sorted(found, key=lambda one: (-one[1], one[0])))


@dataclass(frozen=True)
class Coverage:
    """Candidates by the source of their speed, and {why aiconfigurator does not cover: candidates}."""

    candidates: Mapping[str, int]
    not_covered: Mapping[str, int] = field(default_factory=dict)


def measured_table(asked: SpeedSource) -> MeasuredTable | None:
    """Return the user's measured table; the same object as long as its file is the same.

    Raises:
        QuestionError: the file cannot be read, or a row of it is wrong.
    """
    return None if asked.table is None else read_measured(asked.table)


def speeds(
    model: ModelSpec,
    replicas: pd.DataFrame,
    asked: SpeedSource | None = None,
    table: MeasuredTable | None = None,
    *,
    efficiencies: Efficiencies | None = None,
) -> Speeds:
    """Return the backend that a user asks for over a table of replicas.

    Args:
        model: the language model.
        replicas: one candidate replica a row, as for SpeedModel.
        asked: what the user wants; the roofline when not given.
        table: the user's measured table (see `measured_table`), which comes before anything else.
        efficiencies: coefficients of the roofline to use instead of those that all predictions use.

    Raises:
        QuestionError: aiconfigurator is asked for and not installed.
    """
    backend: SpeedBackend = SpeedModel(model, replicas, efficiencies=efficiencies)
    source = np.full(len(replicas), ROOFLINE, dtype=object)
    reasons = np.full(len(replicas), "", dtype=object)
    wanted = asked.backend if asked is not None else ROOFLINE
    if wanted != ROOFLINE:
        # Only this choice loads what depends on the package.
        from optimizer.performance.backends.aiconfigurator import installed  # noqa: PLC0415

        rows = np.ones(len(replicas), dtype=np.bool_) if wanted == AICONFIGURATOR else unmeasured(model, replicas)
        found = installed().tables(backend, model, replicas, rows)
        backend = TabledSpeed(backend, found.tables, found.setting, found.ranks, moe=model.is_moe)
        source[found.setting != NONE] = AICONFIGURATOR
        reasons = np.where(rows, found.reasons, CALIBRATED)
    if table is not None:
        setting = table.setting_of(model, replicas)
        backend = TabledSpeed(backend, table.tables, setting, np.ones(len(replicas)), moe=model.is_moe)
        source[setting != NONE] = MEASURED
        reasons[setting != NONE] = ""
    return Speeds(backend, source, reasons)


def speed_backend(
    model: ModelSpec,
    replicas: pd.DataFrame,
    asked: SpeedSource,
    table: MeasuredTable | None = None,
    *,
    efficiencies: Efficiencies | None = None,
) -> SpeedBackend:
    """Return `speeds`' backend alone, with the user's table read where it is not given.

    Raises:
        QuestionError: the table cannot be read, or aiconfigurator is asked for and not installed.
    """
    return speeds(model, replicas, asked, table or measured_table(asked), efficiencies=efficiencies).backend


def tpot_basis(gpu: Gpu, kind: str, decode_from: str) -> tuple[str, float | None]:
    """Return what TPOT stands on and by what share it is off on average (None where that is not known).

    Args:
        gpu: its GPU type.
        kind: what the roofline knows of its family, "fitted" or "borrowed".
        decode_from: the backend that decode steps come from.
    """
    if decode_from == ROOFLINE:
        return kind, tpot_error(gpu)
    return decode_from, TPOT_ERROR if decode_from == AICONFIGURATOR else None


def unmeasured(
    model: ModelSpec, replicas: pd.DataFrame, efficiencies: Efficiencies | None = None
) -> npt.NDArray[np.bool_]:
    """Say of each replica whether the runs of our own calibration had none on its GPU, engine or model."""
    known, architecture = efficiencies or load_efficiencies(), architecture_key(model)
    gpus = replicas["gpu"].astype(str).tolist()
    engines = replicas["engine"].astype(str).tolist() if "engine" in replicas else [DEFAULT_ENGINE] * len(gpus)
    pairs = list(zip(gpus, engines, strict=True))
    found = {
        (gpu, engine): bool(known.unmeasured(Setting(gpu, engine, newest_era(engine), architecture, "")))
        for gpu, engine in set(pairs)
    }
    return np.array([found[pair] for pair in pairs], dtype=np.bool_)
