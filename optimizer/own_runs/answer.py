"""What `shardwise calibrate` answers: files, runs and what became of them, errors before and after."""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class SourceUse(_Part):
    """A benchmark file, and how many of its runs are used."""

    name: str
    sha256: str
    format: str
    added: date
    runs: int
    used: int


class Figures(_Part):
    """One quantity of a run: measured, and predicted before and after; null where it was not measured."""

    measured: float | None
    before: float | None
    after: float | None


class RunUse(_Part):
    """One run and what became of it.

    Attributes:
        source, where: its file, and the place in it.
        layout, load, tokens: in words: "fp8 TP4", "16 at once", "1,000 + 500".
        used: whether the fit saw it; `why` says why not, `notes` what else there is to say.
        tpot_ms, ttft_ms, output_tok_s_total: what was measured, and what was and is predicted.
    """

    source: str
    where: str
    model: str
    engine: str
    gpu: str
    layout: str
    load: str
    tokens: str
    used: bool
    why: str
    notes: tuple[str, ...]
    tpot_ms: Figures
    ttft_ms: Figures
    output_tok_s_total: Figures


class ErrorChange(_Part):
    """How far off one quantity is over the runs used, in percent of what was measured.

    Attributes:
        before: by the bundled coefficients. after: with the calibration, which has seen these runs.
        left_out: each run by a fit that had not seen it; null for fewer than 4 runs.
    """

    quantity: str
    runs: int
    before_mean_percent: float
    before_median_percent: float
    after_mean_percent: float
    after_median_percent: float
    left_out_mean_percent: float | None
    left_out_median_percent: float | None


class CalibrationReport(_Part):
    """What `shardwise calibrate --json` prints.

    Attributes:
        file: of the calibration.
        written: whether it was; not on a dry run, nor when nothing is left.
        date: of the fit.
        runs_used: how many runs it rests on; the others are in `runs` with the reason.
        factors: {level: {coefficient: factor on the bundled one}}.
    """

    file: str
    written: bool
    date: date
    sources: tuple[SourceUse, ...]
    runs_used: int
    runs: tuple[RunUse, ...]
    errors: tuple[ErrorChange, ...]
    factors: dict[str, dict[str, float]]
    notes: tuple[str, ...]
