"""Whether answers rest on the user's own calibration, and a warning where there is one that they cannot rest on."""

from __future__ import annotations

from optimizer.performance.efficiency import used_calibration
from optimizer.performance.own_calibration import own_calibration
from optimizer.plan import Calibration


def calibration_used() -> Calibration | None:
    """Return what speeds rest on besides the bundled coefficients; None where it is those alone.

    Raises:
        QuestionError: the calibration's file is damaged.
    """
    own = used_calibration()
    return None if own is None else Calibration(date=own.day, runs=own.runs, gpus=own.gpus)


def calibration_warnings() -> tuple[str, ...]:
    """Return what to say where the user's calibration was fitted on top of other coefficients than are bundled now."""
    own = own_calibration()
    if own is None or used_calibration() is not None:
        return ()
    return (
        f"your own calibration of {own.day} is not used: the bundled coefficients have changed since; "
        "`shardwise calibrate --refit` fits your runs anew",
    )
