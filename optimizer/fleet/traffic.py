"""From the traffic of a question to classes with demand by the hour: lists, histograms and request logs alike."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from optimizer.errors import QuestionError
from optimizer.fleet.question import FleetScenario, Histogram, ModelTraffic, RequestLog, TrafficClass
from optimizer.scenario import Targets

if TYPE_CHECKING:
    from optimizer.trace import Trace

HOUR, DAY, WEEK = 3600.0, 86_400.0, 604_800.0
MOST_CLASSES = 400  # in all; a histogram of more bins asks for a coarser one

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Demand:
    """One class of one model, as it enters the program.

    Attributes:
        model: position of its model in the question's traffic.
        traffic: lengths and rate; always with a name.
        targets: what has to hold for it.
        regions: where it may be served; everywhere when empty.
        rates: requests per second in each period of the cycle.
    """

    model: int
    traffic: TrafficClass
    targets: Targets
    regions: tuple[str, ...]
    rates: tuple[float, ...]

    @property
    def name(self) -> str:
        """How the answer calls it."""
        return str(self.traffic.name)

    @property
    def peak(self) -> float:
        """Requests per second in its busiest period."""
        return max(self.rates)


@dataclass(frozen=True, slots=True)
class Traffic:
    """All demand of a question.

    Attributes:
        demands: every class of every model that has any traffic.
        hours: the length of each period of the cycle.
        notes: what people should know of how the classes came about.
    """

    demands: tuple[Demand, ...]
    hours: tuple[float, ...]
    notes: tuple[str, ...] = ()


def read_traffic(scenario: FleetScenario) -> Traffic:
    """Return the demand of every class in every period.

    Raises:
        QuestionError: a log cannot be used, or there are more classes than can be worked with.
    """
    found: list[tuple[int, ModelTraffic, TrafficClass, tuple[float, ...]]] = []
    notes: list[str] = []
    for position, model in enumerate(scenario.traffic):
        logged: tuple[float, ...] = ()
        if model.log is not None:
            classes, logged, said = _of_log(model.log)
            notes += [f"{model.label}: {one}" for one in said]
        elif model.histogram is not None:
            classes = _of_histogram(model.histogram)
        else:
            classes = list(model.classes)
        for number, one in enumerate(classes, start=1):
            named = one if one.name is not None else one.model_copy(update={"name": f"class {number}"})
            found.append((position, model, named, scenario.profile_of(model, one) or logged))
    if len(found) > MOST_CLASSES:
        raise QuestionError(f"the traffic has {len(found):,} classes; at most {MOST_CLASSES} are accepted")
    periods = max((len(profile) for *_, profile in found), default=0) or 1
    demands = [
        Demand(
            model=position,
            traffic=one,
            targets=scenario.targets_of(model, one),
            regions=one.regions or model.regions,
            rates=tuple(one.request_rate * factor for factor in _over(profile, periods)),
        )
        for position, model, one, profile in found
    ]
    return Traffic(tuple(demands), (1.0,) * periods, tuple(notes))


def _over(profile: tuple[float, ...], periods: int) -> tuple[float, ...]:
    """Return a profile over so many hours: a day's is the same on every day of a week."""
    return profile * (periods // len(profile)) if profile else (1.0,) * periods


def _of_histogram(table: Histogram) -> list[TrafficClass]:
    """Return a class for each bin with traffic; lengths spread evenly over a bin have its middle as their mean."""
    total = sum(map(sum, table.shares))
    classes = []
    for high_in, low_in, row in zip(table.input_edges, (0, *table.input_edges), table.shares, strict=False):
        for high_out, low_out, share in zip(table.output_edges, (0, *table.output_edges), row, strict=False):
            if share <= 0:
                continue
            mean_in, input_cv = _spread(low_in, high_in, table)
            mean_out, output_cv = _spread(low_out, high_out, table)
            classes.append(
                TrafficClass(
                    name=f"{low_in + 1:,}-{high_in:,} in, {low_out + 1:,}-{high_out:,} out",
                    input_tokens=mean_in,
                    output_tokens=mean_out,
                    request_rate=table.request_rate * share / total,
                    input_cv=input_cv,
                    output_cv=output_cv,
                )
            )
    return classes


def _spread(low: int, high: int, table: Histogram) -> tuple[int, float]:
    """Return mean and variation of a whole number from low + 1 to high."""
    if table.lengths == "upper":
        return high, 0.0
    mean = (low + 1 + high) / 2
    return round(mean), sqrt((high - low) ** 2 - 1) / sqrt(12) / mean


def _of_log(log: RequestLog) -> tuple[list[TrafficClass], tuple[float, ...], list[str]]:
    """Return the classes of a log, its profile (empty when none is asked for), and what to say of it."""
    from optimizer.trace import read_trace  # noqa: PLC0415  only a log needs pandas

    return classes_of(log, read_trace(log.file, arrivals=log.request_rate is None or log.profile != "none"))


def classes_of(log: RequestLog, trace: Trace) -> tuple[list[TrafficClass], tuple[float, ...], list[str]]:
    """Return the classes of the requests of a log, its profile (empty when none is asked for), and what to say of it.

    Raises:
        QuestionError: there is no rate in its arrivals, or they span too little for the profile.
    """
    span = float(trace.arrival_s[-1]) if len(trace.arrival_s) else 0.0
    rate = log.request_rate
    if rate is None:
        if span <= 0.0:
            raise QuestionError(
                f"{log.file}: arrivals span no time, so there is no rate in them; give log.request_rate"
            )
        rate = (len(trace.arrival_s) - 1) / span
    profile = _profile(log, trace, span)
    cells = bin_lengths(trace.input_tokens, trace.output_tokens, log.classes)
    count = len(trace.input_tokens)
    classes = [_class_of(log, trace, cell, rate * len(cell) / count) for cell in cells]
    share = max(len(cell) for cell in cells) / count
    notes = [
        f"{count:,} requests of {log.file.name} in {len(cells)} classes, {rate:.4g} requests/s on average; the largest "
        f"class has {share:.0%} of them"
    ]
    return classes, profile, notes


def _class_of(log: RequestLog, trace: Trace, cell: npt.NDArray[np.int64], rate: float) -> TrafficClass:
    inputs, outputs = trace.input_tokens[cell], trace.output_tokens[cell]
    return TrafficClass(
        name=f"{_short(inputs)} in, {_short(outputs)} out",
        # Rounded up: a class must not ask for less than its requests do.
        input_tokens=int(np.ceil(inputs.mean())),
        output_tokens=int(np.ceil(outputs.mean())),
        request_rate=max(rate, 1e-6),
        burstiness=log.burstiness,
        input_cv=min(float(inputs.std() / inputs.mean()), 4.0),
        output_cv=min(float(outputs.std() / outputs.mean()), 4.0),
    )


def _short(tokens: npt.NDArray[np.int64]) -> str:
    low, high = int(tokens.min()), int(tokens.max())
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _profile(log: RequestLog, trace: Trace, span: float) -> tuple[float, ...]:
    """Return the hourly rate over the mean rate, by hour of the day or week counted from the log's first arrival."""
    if log.profile == "none":
        return ()
    cycle = DAY if log.profile == "day" else WEEK
    if span < cycle - HOUR:
        raise QuestionError(
            f"{log.file}: arrivals span {span / HOUR:.1f} hours; a profile of a {log.profile} needs {cycle / HOUR:.0f}"
        )
    hours = int(cycle / HOUR)
    hour = np.floor(trace.arrival_s / HOUR).astype(np.int64)
    seen = np.bincount(np.arange(int(hour.max()) + 1) % hours, minlength=hours)
    each = np.bincount(hour % hours, minlength=hours) / np.maximum(seen, 1)
    return tuple((each / each.mean()).tolist())


def bin_lengths(
    input_tokens: npt.NDArray[np.int64], output_tokens: npt.NDArray[np.int64], most: int
) -> list[npt.NDArray[np.int64]]:
    """Group requests into at most so many classes of similar lengths; return the row numbers of each.

    The group with the largest sum of squared deviations of log lengths is cut at its mean, along the length that varies
    most, until there are enough (variance-based cutting, as in colour quantization: Wan, Wong and Prusinkiewicz 1988).
    Every request is in exactly one group, so that rates and tokens add up to those of the log.
    """
    logs = np.column_stack([np.log(input_tokens), np.log(output_tokens)])
    groups: list[npt.NDArray[np.int64]] = [np.arange(len(logs))]
    while len(groups) < most:
        spread = [float(logs[group].var(axis=0).max()) * len(group) for group in groups]
        widest = int(np.argmax(spread))
        if spread[widest] <= 1e-12:
            break
        rows = groups.pop(widest)
        along = int(np.argmax(logs[rows].var(axis=0)))
        low = logs[rows, along] <= logs[rows, along].mean()
        groups += [rows[low], rows[~low]]
    return sorted(groups, key=lambda rows: _mean_lengths(rows, input_tokens, output_tokens))


def _mean_lengths(rows: npt.NDArray[np.int64], *lengths: npt.NDArray[np.int64]) -> tuple[float, ...]:
    return tuple(float(one[rows].mean()) for one in lengths)
