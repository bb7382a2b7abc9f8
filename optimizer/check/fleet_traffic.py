"""Rules on a fleet's traffic: it is the question's, all of it is served, and where and by what it may be."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np

from optimizer.check.audit import TOLERANCE, close
from optimizer.check.fleet_audit import LATENCIES, RATE_TOLERANCE, ClassKey, FleetAudit
from optimizer.errors import QuestionError
from optimizer.fleet.plan import ClassAnswer
from optimizer.fleet.question import ModelTraffic

ROUNDED = 0.5 + 1e-9  # tokens by which a whole number is off its mean
MOST_VARIATION = 4.0


def classes_asked(audit: FleetAudit) -> Iterator[str]:
    """The classes are the question's: lengths, rates in every period, targets and regions."""
    periods = _periods(audit)
    if periods is not None and len(audit.plan.hours) != periods:
        yield f"the cycle has {len(audit.plan.hours)} periods, the question's profiles have {periods}"
        return
    if any(length != 1.0 for length in audit.plan.hours):
        yield f"periods of {sorted(set(audit.plan.hours))} hours, where all are of one hour"
    for key, said in audit.classes.items():
        yield from (f"{said.name}: {message}" for message in _asked_of(audit, key, said))
    for label, model in audit.traffic.items():
        read = [one for (of, _), one in audit.classes.items() if of == label]
        if model.histogram is not None:
            yield from (f"{label}: {message}" for message in _as_histogram(audit, model, read))
        elif model.log is not None:
            yield from (f"{label}: {message}" for message in _as_log(model, read))
        else:
            known = {name for of, name in audit.asked if of == label}
            missing = sorted(known - {one.name for one in read})
            yield from (f"{label}: class {name} is left out" for name in missing)


def _periods(audit: FleetAudit) -> int | None:
    """Return the periods that the question's profiles make; None where a log's could make more."""
    lengths = [len(audit.scenario.profile)]
    for model in audit.scenario.traffic:
        if model.log is not None and model.log.profile != "none" and not (model.profile or audit.scenario.profile):
            lengths.append({"day": 24, "week": 168}[model.log.profile])
        lengths += [len(model.profile), *(len(one.profile) for one in model.classes)]
    return max(lengths) or 1


def _profile(audit: FleetAudit, key: ClassKey) -> tuple[float, ...] | None:
    """Return the factors of a class by period; None where they are a log's own."""
    model = audit.traffic[key[0]]
    factors = audit.asked[key].profile or model.profile or audit.scenario.profile
    if not factors and model.log is not None and model.log.profile != "none":
        return None
    factors = factors or (1.0,)
    return tuple(factors[period % len(factors)] for period in audit.periods)


def _asked_of(audit: FleetAudit, key: ClassKey, said: ClassAnswer) -> Iterator[str]:
    """Compare one class with the question."""
    model, one = audit.traffic[key[0]], audit.asked[key]
    for name in ("input_tokens", "output_tokens", "input_cv", "output_cv"):
        if not close(getattr(said, name), getattr(one, name)):
            yield f"{name} is {getattr(said, name)}, the question says {getattr(one, name)}"
    factors = _profile(audit, key)
    if factors is not None:
        rates = said.requests_per_second_by_period
        # Of a histogram or a log only the course of the rate is asked for here, its height by the totals.
        height = one.request_rate if model.classes else max(rates) / max(factors)
        wrong = [period for period in audit.periods if not close(rates[period], height * factors[period])]
        for period in wrong[:1]:
            yield f"{rates[period]:.6g} requests/s in period {period}, not {height * factors[period]:.6g}"
    targets = audit.targets_asked(key)
    for name in ("at", *LATENCIES):
        if said.targets.get(name) != getattr(targets, name):
            yield f"target {name} is {said.targets.get(name)}, the question says {getattr(targets, name)}"
    regions = audit.regions_asked(key)
    if set(said.regions) != set(regions):
        yield f"regions are {', '.join(said.regions) or 'any'}, the question says {', '.join(regions) or 'any'}"


def _as_histogram(audit: FleetAudit, model: ModelTraffic, read: list[ClassAnswer]) -> Iterator[str]:
    """Compare classes with the bins of a histogram, in all: rate, tokens in and out."""
    table = model.histogram
    if table is None:
        return
    total = sum(map(sum, table.shares))
    factors = model.profile or audit.scenario.profile or (1.0,)
    means = {}
    for name, edges in (("input_tokens", table.input_edges), ("output_tokens", table.output_edges)):
        starts = (0, *edges[:-1])
        middle = (
            (lambda low, high: (low + 1 + high) / 2) if table.lengths == "spread" else (lambda _, high: float(high))
        )
        means[name] = [middle(low, high) for low, high in zip(starts, edges, strict=True)]
    cells = [(row, column, share) for row, line in enumerate(table.shares) for column, share in enumerate(line)]
    expected = {
        "input_tokens": sum(share * means["input_tokens"][row] for row, _, share in cells) / total,
        "output_tokens": sum(share * means["output_tokens"][column] for _, column, share in cells) / total,
    }
    yield from _totals(read, table.request_rate * float(np.mean(factors)), expected, low=-ROUNDED, high=ROUNDED)


def _as_log(model: ModelTraffic, read: list[ClassAnswer]) -> Iterator[str]:
    """Compare classes with the log, where it is still there, in all: rate, tokens in and out."""
    from optimizer.trace import read_trace  # noqa: PLC0415  only a log needs it

    log = model.log
    if log is None:
        return
    if len(read) > log.classes:
        yield f"{len(read)} classes, {log.classes} are asked for at the most"
    try:
        trace = read_trace(log.file, arrivals=log.request_rate is None)
    except (QuestionError, OSError):
        return  # gone, or changed: what the plan has read of it is all there is
    rate = log.request_rate
    if rate is None:
        rate = (len(trace.arrival_s) - 1) / float(trace.arrival_s[-1])
    expected = {name: float(getattr(trace, name).mean()) for name in ("input_tokens", "output_tokens")}
    factors = model.profile
    yield from _totals(read, rate * (float(np.mean(factors)) if factors else 1.0), expected, low=-1e-9, high=1.0)


def _totals(
    read: list[ClassAnswer], rate: float, tokens: dict[str, float], *, low: float, high: float
) -> Iterator[str]:
    """Compare the sums over classes: requests/s on average over the cycle, and mean tokens, off by rounding at most."""
    rates = [float(np.mean(one.requests_per_second_by_period)) for one in read]
    if not close(sum(rates), rate, 1e-5):
        yield f"{sum(rates):.6g} requests/s in all, not {rate:.6g}"
        return
    for name, expected in tokens.items():
        found = sum(at * getattr(one, name) for at, one in zip(rates, read, strict=True)) / sum(rates)
        if not low - 1e-6 * expected <= found - expected <= high + 1e-6 * expected:
            yield f"{name} are {found:.6g} on average, not {expected:.6g}"


def load_covered(audit: FleetAudit) -> Iterator[str]:
    """Every class is served in full in every period, and shares say how much of it where."""
    if audit.plan.status in ("infeasible", "unknown"):
        return
    for key, one in audit.classes.items():
        pools = [
            (pool.id, served)
            for pool in audit.plan.pools
            for served in pool.serves
            if (pool.model, served.class_name) == key
        ]
        for period, arrives in enumerate(one.requests_per_second_by_period):
            dealt = sum(served.requests_per_second_by_period[period] for _, served in pools)
            if abs(dealt - arrives) > RATE_TOLERANCE * max(arrives, 1.0) * 2 or dealt < arrives * (1 - RATE_TOLERANCE):
                yield f"{one.name}: {dealt:.6g} of {arrives:.6g} requests/s are served in period {period}"
                break
        whole = _requests(audit, one.requests_per_second_by_period)
        for name, served in pools:
            part = _requests(audit, served.requests_per_second_by_period) / whole
            if abs(part - served.share) > TOLERANCE or abs(part - one.pools.get(name, 0.0)) > TOLERANCE:
                yield (
                    f"{one.name}: {name} serves {part:.4%} of it, and is said to serve {served.share:.4%} "
                    f"and {one.pools.get(name, 0.0):.4%}"
                )
        for name in sorted(one.pools.keys() - {name for name, _ in pools}):
            if one.pools[name] > TOLERANCE:
                yield f"{one.name}: {name} is said to serve {one.pools[name]:.4%} of it, and does not"


def _requests(audit: FleetAudit, rates: tuple[float, ...]) -> float:
    return sum(rate * hours for rate, hours in zip(rates, audit.plan.hours, strict=True))


def class_regions(audit: FleetAudit) -> Iterator[str]:
    """A class is served only in regions where it may be."""
    for pool in audit.plan.pools:
        region = audit.sites[pool.site].region
        for served in pool.serves:
            key = (pool.model, served.class_name)
            allowed = audit.regions_asked(key)
            if allowed and region not in allowed and max(served.requests_per_second_by_period) > 0:
                yield f"{served.class_name} is served in {region} by {pool.id}; {', '.join(allowed)} are allowed"


def own_model(audit: FleetAudit) -> Iterator[str]:
    """A pool runs the model that the question means by its name."""
    for pool in audit.plan.pools:
        asked = audit.traffic[pool.model].model
        if pool.model_id != asked:
            yield f"{pool.id} runs {pool.model_id}, {pool.model} is {asked}"


def variations(audit: FleetAudit) -> Iterator[str]:
    """A class that was read off a histogram or a log varies no more than lengths can."""
    for key, one in audit.classes.items():
        table = audit.traffic[key[0]].histogram
        for name in ("input_cv", "output_cv"):
            value = getattr(one, name)
            if value > MOST_VARIATION:
                yield f"{one.name}: {name} is {value:g}"
            # Whole numbers spread evenly from 1 vary by less than 1 / sqrt(3) of their mean.
            if table is not None and value > 1 / sqrt(3):
                yield f"{one.name}: {name} is {value:g}, more than lengths within a bin can vary"
