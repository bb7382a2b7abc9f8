"""A user's own calibration: factors on the bundled coefficients from their own runs, as `shardwise calibrate` wrote it.

Reading only; the file is calibration.toml in the folder `calibration` of the user's data. Fitting and writing are in
calibration/overlay.py and optimizer/calibrate.py.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from optimizer.errors import QuestionError
from optimizer.user_files import user_data_folder

SWITCH = "SHARDWISE_CALIBRATION"


@dataclass(frozen=True, eq=False)
class OwnCalibration:
    """What the file says; two are equal only when they are the same object.

    Attributes:
        path: the file.
        day: when it was fitted.
        runs: how many of the user's runs it rests on.
        gpus: GPU types of those runs.
        bundled: digest of the bundled coefficients that the factors are on top of.
        factors: {level: {coefficient: factor on the bundled one}}.
        own: {"own GPU ENGINE ARCHITECTURE": (era, release) of the newest such runs}.
    """

    path: Path
    day: date
    runs: int
    gpus: tuple[str, ...]
    bundled: str
    factors: Mapping[str, Mapping[str, float]]
    own: Mapping[str, tuple[str, str]]


def calibration_folder() -> Path:
    """Return where a user's calibration and the runs behind it are kept; it need not exist."""
    return user_data_folder() / "calibration"


def calibration_file() -> Path:
    """Return the file of the user's own calibration; it need not exist."""
    return calibration_folder() / "calibration.toml"


def is_switched_off() -> bool:
    """Return whether SHARDWISE_CALIBRATION says that only the bundled coefficients count."""
    return os.environ.get(SWITCH, "").strip().lower() in {"off", "0", "no", "false"}


def own_calibration() -> OwnCalibration | None:
    """Return the user's own calibration; None where there is none or it is switched off.

    Raises:
        QuestionError: the file is there and is not what `shardwise calibrate` writes.
    """
    if is_switched_off():
        return None
    path = calibration_file()
    try:
        state = path.stat()
    except OSError:
        return None
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=4)
def _read(path: Path, *_state: int) -> OwnCalibration:
    try:
        with path.open("rb") as stream:
            return _parse(path, tomllib.load(stream))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise QuestionError(
            f"{path}: is not a calibration that `shardwise calibrate` wrote ({type(error).__name__}: {error}); "
            f"`shardwise calibrate --refit` writes it anew from the runs that are kept, {SWITCH}=off does without it"
        ) from None


def _parse(path: Path, raw: Mapping[str, Any]) -> OwnCalibration:
    head = raw["calibration"]
    if not isinstance(head["date"], date):
        raise TypeError("date is none")
    factors = {
        str(level): {str(name): _positive(value) for name, value in row.items()}
        for level, row in raw["factors"].items()
    }
    return OwnCalibration(
        path=path,
        day=head["date"],
        runs=int(head["runs"]),
        gpus=tuple(map(str, head["gpus"])),
        bundled=str(head["bundled_sha256"]),
        factors=factors,
        own={str(name): (str(row["era"]), str(row["release"])) for name, row in raw["own"].items()},
    )


def _positive(value: Any) -> float:
    if not 0.0 < float(value) < float("inf"):
        raise ValueError(f"a factor of {value}")
    return float(value)
