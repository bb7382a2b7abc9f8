"""A trace: a CSV file of requests, each with its arrival and its tokens in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.errors import near_matches
from optimizer.errors import QuestionError
from optimizer.fields import shown

Array = npt.NDArray[np.float64]

MAX_BYTES = 1_000_000_000
MOST_TOKENS = 10_000_000
MOST_PROBLEMS = 5
# What each column may be called, ours first; those of the Azure LLM inference traces are TIMESTAMP, ContextTokens and
# GeneratedTokens (Patel et al., "Splitwise", ISCA 2024).
NAMES: dict[str, tuple[str, ...]] = {
    "arrival_s": ("arrival_s", "timestamp", "arrival", "arrival_time", "time"),
    "input_tokens": ("input_tokens", "contexttokens", "prompt_tokens", "isl"),
    "output_tokens": ("output_tokens", "generatedtokens", "completion_tokens", "osl"),
}


@dataclass(frozen=True)
class Trace:
    """Requests in the order of arrival; `arrival_s` counts from the first."""

    arrival_s: Array
    input_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]


class TraceError(QuestionError):
    """A trace file is not usable; carries what is wrong with it."""

    def __init__(self, path: Path, problems: list[str]):
        self.problems = tuple(problems)
        super().__init__(f"{path}:\n" + "\n".join(f"  - {problem}" for problem in problems))


def read_trace(path: Path, *, speedup: float = 1.0, limit: int | None = None, arrivals: bool = True) -> Trace:
    """Read a trace.

    Args:
        path: a CSV file with a header; columns by any of NAMES, upper or lower case. Arrivals are seconds or moments
            ("2023-11-16 18:17:03.97"); rows need not be in their order.
        speedup: arrivals come so many times as fast.
        limit: use only the first so many rows.
        arrivals: whether arrivals are needed; without, all are at 0 where the file has none.

    Raises:
        TraceError: the file cannot be read, lacks a column, holds no request, or holds a bad value; names the line.
    """
    table = _read_csv(path, limit)
    columns = _columns(path, [str(name) for name in table.columns], arrivals)
    problems: list[str] = []
    arrival = _arrivals(table[columns["arrival_s"]], problems) if "arrival_s" in columns else np.zeros(len(table))
    inputs, outputs = (_tokens(table[columns[name]], problems) for name in ("input_tokens", "output_tokens"))
    if problems:
        raise TraceError(path, problems[:MOST_PROBLEMS])
    order = np.argsort(arrival, kind="stable")
    since = (arrival[order] - arrival[order[0]]) / speedup
    return Trace(since, inputs[order], outputs[order])


def trace_of(requests: Sequence[tuple[float, int, int]]) -> Trace:
    """Return requests that were checked already, each its arrival in seconds, tokens in and tokens out, as a trace."""
    rows = np.asarray(requests, dtype=np.float64)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return Trace(rows[:, 0] - rows[0, 0], rows[:, 1].astype(np.int64), rows[:, 2].astype(np.int64))


def _read_csv(path: Path, limit: int | None) -> pd.DataFrame:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TraceError(path, [f"is larger than {MAX_BYTES:,} bytes; --limit does not help: cut it first"])
        table = pd.read_csv(path, dtype=str, nrows=limit, keep_default_na=False, skipinitialspace=True)
    except OSError as error:
        raise TraceError(path, [f"cannot be read: {error.strerror or error}"]) from None
    except UnicodeDecodeError:
        raise TraceError(path, ["is not a text file in UTF-8; expected CSV"]) from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise TraceError(path, [f"is not CSV: {' '.join(str(error).split())[:200]}"]) from None
    if table.empty:
        raise TraceError(path, ["holds no request; expected a header and a line for each request"])
    return table


def _columns(path: Path, found: list[str], arrivals: bool) -> dict[str, str]:
    """Return which column of the file is which."""
    spelled = {name.strip().lower(): name for name in found}
    chosen, problems = {}, []
    for ours, accepted in NAMES.items():
        known = [name for name in accepted if name in spelled]
        if known:
            chosen[ours] = spelled[known[0]]
            continue
        if ours == "arrival_s" and not arrivals:
            continue
        near = near_matches(ours, list(spelled), limit=1)
        hint = f"; did you mean {spelled[near[0]]}?" if near else ""
        columns = shown(", ".join(found))
        problems.append(f"has no column {ours} (also accepted: {', '.join(accepted[1:])}); it has {columns}{hint}")
    if problems:
        raise TraceError(path, problems)
    return chosen


def _arrivals(text: pd.Series[str], problems: list[str]) -> Array:
    seconds = pd.to_numeric(text, errors="coerce")
    if seconds.isna().all():
        moments = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True)
        seconds = (moments - moments.min()).dt.total_seconds()
    values = np.asarray(seconds, dtype=np.float64)
    _complain(text, np.isfinite(values), "seconds, or a moment such as 2023-11-16 18:17:03.97", problems)
    return values


def _tokens(text: pd.Series[str], problems: list[str]) -> npt.NDArray[np.int64]:
    values = np.asarray(pd.to_numeric(text, errors="coerce"), dtype=np.float64)
    with np.errstate(invalid="ignore"):
        good = (values >= 1) & (values <= MOST_TOKENS) & (values == np.floor(values))
    _complain(text, good, f"a whole number from 1 to {MOST_TOKENS:,}", problems)
    return np.where(good, values, 1.0).astype(np.int64)


def _complain(text: pd.Series[str], good: npt.NDArray[np.bool_], expected: str, problems: list[str]) -> None:
    """Add the first bad value of a column, with its line, and how many more there are."""
    bad = np.nonzero(~good)[0]
    if len(bad):
        more = f" (and {len(bad) - 1:,} more lines)" if len(bad) > 1 else ""
        value = shown(text.iloc[int(bad[0])])
        problems.append(f"line {bad[0] + 2}, {text.name}: expected {expected}; got {value}{more}")
