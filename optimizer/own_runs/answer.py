"""What `shardwise calibrate` answers: files, runs and what became of them, errors before and after."""

from __future__ import annotations

from datetime import date

from optimizer.plan import AnswerPart


class SourceUse(AnswerPart):
    """A benchmark file, and how many of its runs are used.

    Attributes:
        sha256: of the file.
        format: vllm-bench, genai-perf, aiperf or csv.
        added: the day it was read.
        used: runs of it that the fit saw.
    """

    name: str
    sha256: str
    format: str
    added: date
    runs: int
    used: int


class Figures(AnswerPart):
    """One quantity of a run: measured, and predicted before and after; null where it was not measured.

    Attributes:
        measured: in the benchmark.
        before: predicted by the bundled coefficients.
        after: predicted with the calibration.
    """

    measured: float | None
    before: float | None
    after: float | None


class RunUse(AnswerPart):
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


class ErrorChange(AnswerPart):
    """How far off one quantity is over the runs used, in percent of what was measured.

    Attributes:
        quantity: TTFT, TPOT or throughput.
        before_mean_percent, before_median_percent: by the bundled coefficients.
        after_mean_percent, after_median_percent: with the calibration, which has seen these runs.
        left_out_mean_percent, left_out_median_percent: each run by a fit that had not seen it; null for fewer than
            4 runs.
    """

    quantity: str
    runs: int
    before_mean_percent: float
    before_median_percent: float
    after_mean_percent: float
    after_median_percent: float
    left_out_mean_percent: float | None
    left_out_median_percent: float | None


class CalibrationReport(AnswerPart):
    """What `shardwise calibrate --json` prints.

    Attributes:
        file: of the calibration.
        written: whether it was; not on a dry run, nor when nothing is left.
        date: of the fit.
        runs_used: how many runs it rests on; the others are in `runs` with the reason.
        factors: {level: {coefficient: factor on the bundled one}}.
        sources: files whose runs are kept.
        errors: how far off predictions are before and after, by quantity.
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
