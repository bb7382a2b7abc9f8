"""Errors of predictions against reports, by column."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from pydantic import BaseModel, ConfigDict

from optimizer.validate.cases import Row, answer, number, observed_kv_tokens
from optimizer.validate.predict import Prediction


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowOutcome(_Record):
    """One report beside what was predicted; an error is predicted / observed - 1."""

    case_id: str
    kind: str
    engine: str
    model: str
    gpu: str
    predicted_weights_gib_per_gpu: float | None
    predicted_kv_tokens: int | None
    predicted_max_concurrency: float | None
    predicted_fits: str
    observed_weights_gib_per_gpu: float | None
    observed_kv_tokens: float | None
    observed_max_concurrency: float | None
    observed_fits: str
    weights_error: float | None
    kv_tokens_error: float | None
    max_concurrency_error: float | None
    fits_right: bool | None
    rule: str
    reason: str
    not_judged: tuple[str, ...]


class ColumnSummary(_Record):
    """Errors of one column over the rows that could be judged; shares are of 1, None without rows."""

    column: str
    observed: int
    judged: int
    median_error: float | None
    p90_error: float | None
    largest_error: float | None
    within_2_percent: float | None
    within_5_percent: float | None
    within_12_percent: float | None


class FitsSummary(_Record):
    """How often "does it fit" was predicted as reported."""

    observed: int
    judged: int
    right: int
    agreement: float | None
    wrong: tuple[str, ...]


def outcome(row: Row, predicted: Prediction) -> RowOutcome:
    """Put a report beside its prediction."""
    weights, tokens = number(row, "weights_gib_per_gpu"), observed_kv_tokens(row)
    concurrency, fits = number(row, "max_concurrency"), answer(row.get("fits", ""))
    decided = predicted.fits if fits in ("yes", "no") else ""
    return RowOutcome(
        case_id=row.get("case_id", ""),
        kind=row.get("kind", ""),
        engine=row.get("engine", ""),
        model=row.get("model", ""),
        gpu=row.get("gpu", ""),
        predicted_weights_gib_per_gpu=predicted.weights_gib,
        predicted_kv_tokens=predicted.kv_tokens,
        predicted_max_concurrency=predicted.max_concurrency,
        predicted_fits=predicted.fits,
        observed_weights_gib_per_gpu=weights,
        observed_kv_tokens=tokens,
        observed_max_concurrency=concurrency,
        observed_fits=fits,
        weights_error=_error(predicted.weights_gib, weights),
        kv_tokens_error=_error(predicted.kv_tokens, tokens),
        max_concurrency_error=_error(predicted.max_concurrency, concurrency),
        fits_right=decided == fits if decided else None,
        rule=predicted.rule,
        reason=predicted.reason,
        not_judged=predicted.not_judged,
    )


def summarize(rows: Sequence[RowOutcome]) -> tuple[ColumnSummary, ...]:
    """Return the errors by column."""
    return (
        _column(
            "weights_gib_per_gpu",
            [row.observed_weights_gib_per_gpu for row in rows],
            [row.weights_error for row in rows],
        ),
        _column("kv_tokens", [row.observed_kv_tokens for row in rows], [row.kv_tokens_error for row in rows]),
        _column(
            "max_concurrency",
            [row.observed_max_concurrency for row in rows],
            [row.max_concurrency_error for row in rows],
        ),
    )


def summarize_fits(rows: Sequence[RowOutcome]) -> FitsSummary:
    """Return how often fits was right."""
    judged = [row for row in rows if row.fits_right is not None]
    right = sum(bool(row.fits_right) for row in judged)
    return FitsSummary(
        observed=sum(row.observed_fits in ("yes", "no") for row in rows),
        judged=len(judged),
        right=right,
        agreement=right / len(judged) if judged else None,
        wrong=tuple(row.case_id for row in judged if not row.fits_right),
    )


def _error(predicted: float | None, observed: float | None) -> float | None:
    return None if predicted is None or observed is None else predicted / observed - 1


def _column(name: str, observed: Sequence[float | None], errors: Sequence[float | None]) -> ColumnSummary:
    sizes = sorted(abs(error) for error in errors if error is not None)

    def within(limit: float) -> float | None:
        return sum(size <= limit for size in sizes) / len(sizes) if sizes else None

    return ColumnSummary(
        column=name,
        observed=sum(value is not None for value in observed),
        judged=len(sizes),
        median_error=_quantile(sizes, 0.5),
        p90_error=_quantile(sizes, 0.9),
        largest_error=sizes[-1] if sizes else None,
        within_2_percent=within(0.02),
        within_5_percent=within(0.05),
        within_12_percent=within(0.12),
    )


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not exceed; the mean of the middle two for a half."""
    if not ordered:
        return None
    if share == 0.5 and len(ordered) % 2 == 0:
        middle = len(ordered) // 2
        return (ordered[middle - 1] + ordered[middle]) / 2
    return ordered[max(0, ceil(share * len(ordered)) - 1)]
