"""The audit of an answer to a capacity table: everything is added up anew from the table and the stated shares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from optimizer.check.audit import Violation
from optimizer.fleet.capacity_table import AcceleratorTable, CapacityAnswer, CapacityTable, ClassTable

LOAD_TOLERANCE = 1e-8  # relative
MONEY_TOLERANCE_USD = 1e-6

Cell = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the table says, by model and kind.

    Attributes:
        demand: class -> requests/s.
        rates: ((model, kind), class) -> requests/s of one replica.
        price: (model, kind) -> dollars per hour of one replica.
        units: (model, kind) -> accelerator, units of one replica.
    """

    demand: Mapping[Cell, float]
    rates: Mapping[tuple[tuple[str, str], Cell], float]
    price: Mapping[tuple[str, str], float]
    units: Mapping[tuple[str, str], tuple[str, int]]


def check_capacity_answer(table: CapacityTable, answer: CapacityAnswer) -> tuple[Violation, ...]:
    """Return what is wrong with an answer; empty where all is served, nothing is overfull, and sums are right."""
    if answer.status in ("infeasible", "unknown"):
        empty = not answer.kinds and not answer.shares and answer.usd_per_hour is None
        return () if empty else (Violation("status", f"{answer.status}, yet there are values"),)
    known = _read_classes(table) if isinstance(table, ClassTable) else _read_models(table)
    named = [(use.model, use.kind) for use in answer.kinds] + [(use.model, use.kind) for use in answer.shares]
    if unknown := {name for name in named if name not in known.price}:
        return (Violation("kinds", f"{sorted(unknown)} are not in the table"),)
    return tuple(
        Violation(rule, message)
        for rule, found in (
            ("traffic", _traffic(known, answer)),
            ("capacity", _capacity(known, answer)),
            ("units", _units(table, known, answer)),
            ("cost", _cost(known, answer)),
            ("whole", _whole(table, answer)),
        )
        for message in found
    )


def _read_classes(table: ClassTable) -> _Known:
    cells = {
        ("", row, column): share * table.request_rate
        for row, shares in enumerate(table.class_shares)
        for column, share in enumerate(shares)
        if share > 0
    }
    rates = {
        (("", name), cell): kind.requests_per_second[cell[1]][cell[2]]
        for name, kind in table.kinds.items()
        for cell in cells
    }
    return _Known(cells, rates, {("", name): kind.usd_per_hour for name, kind in table.kinds.items()}, {})


def _read_models(table: AcceleratorTable) -> _Known:
    kinds = [(model, kind) for model in table.models for kind in model.kinds]
    return _Known(
        demand={(model.name, 0, 0): model.requests_per_second for model in table.models},
        rates={((m.name, k.name), (m.name, 0, 0)): k.requests_per_second_per_replica for m, k in kinds},
        price={(m.name, k.name): k.usd_per_hour_per_replica for m, k in kinds},
        units={(m.name, k.name): (k.gpu, k.units_per_replica) for m, k in kinds},
    )


def _traffic(known: _Known, answer: CapacityAnswer) -> Iterator[str]:
    served: dict[Cell, float] = {}
    for use in answer.shares:
        cell = (use.model, use.row, use.column)
        if cell not in known.demand:
            yield f"class {cell} is served and has no traffic"
            continue
        served[cell] = served.get(cell, 0.0) + use.requests_per_second
        if not math.isclose(use.share * known.demand[cell], use.requests_per_second, rel_tol=LOAD_TOLERANCE):
            yield f"class {cell}: share {use.share} is not {use.requests_per_second} requests/s"
    for cell, rate in known.demand.items():
        if not math.isclose(served.get(cell, 0.0), rate, rel_tol=LOAD_TOLERANCE):
            yield f"class {cell} has {rate} requests/s, of which {served.get(cell, 0.0)} are served"


def _capacity(known: _Known, answer: CapacityAnswer) -> Iterator[str]:
    replicas = {(use.model, use.kind): use.replicas for use in answer.kinds}
    stated = {(use.model, use.kind): use.busy_replicas for use in answer.kinds}
    load: dict[tuple[str, str], float] = {}
    for use in answer.shares:
        kind, cell = (use.model, use.kind), (use.model, use.row, use.column)
        rate = known.rates.get((kind, cell), 0.0)
        if rate <= 0:
            yield f"{kind} cannot serve class {cell}"
            continue
        load[kind] = load.get(kind, 0.0) + use.requests_per_second / rate
    for kind, busy in load.items():
        if busy > replicas.get(kind, 0) * (1 + LOAD_TOLERANCE):
            yield f"{kind}: {busy} replicas are kept busy, of {replicas.get(kind, 0)}"
    for kind, busy in stated.items():
        if not math.isclose(busy, load.get(kind, 0.0), rel_tol=LOAD_TOLERANCE, abs_tol=LOAD_TOLERANCE):
            yield f"{kind}: busy_replicas {busy} is {load.get(kind, 0.0)}"


def _units(table: CapacityTable, known: _Known, answer: CapacityAnswer) -> Iterator[str]:
    if isinstance(table, ClassTable):
        return
    used: dict[str, int] = {}
    for use in answer.kinds:
        gpu, units = known.units[use.model, use.kind]
        used[gpu] = used.get(gpu, 0) + units * use.replicas
        if (use.gpu, use.units) != (gpu, units * use.replicas):
            yield f"{use.model} on {use.kind}: {use.units} units of {use.gpu!r} are {units * use.replicas} of {gpu!r}"
    for gpu, count in used.items():
        if count > table.capacity_units[gpu]:
            yield f"{count} units of {gpu} are used, of {table.capacity_units[gpu]}"


def _cost(known: _Known, answer: CapacityAnswer) -> Iterator[str]:
    total = 0.0
    for use in answer.kinds:
        price = known.price[use.model, use.kind] * use.replicas
        total += price
        if abs(price - use.usd_per_hour) > MONEY_TOLERANCE_USD * max(1, use.replicas):
            yield f"{use.kind}: {use.replicas} replicas cost {price}, not {use.usd_per_hour}"
    cost, bound = answer.usd_per_hour, answer.bound_usd_per_hour
    if cost is None:
        yield "there is no cost"
        return
    if abs(total - cost) > MONEY_TOLERANCE_USD * max(1, sum(use.replicas for use in answer.kinds)):
        yield f"the replicas cost {total}, not {cost}"
    if bound is not None and bound > cost:
        yield f"the bound {bound} is above the cost {cost}"
    if answer.status == "optimal" and bound != cost:
        yield f"optimal, yet the bound {bound} is not the cost {cost}"
    if cost < _floor(known) * (1 - LOAD_TOLERANCE):
        yield f"{cost} is less than {_floor(known)}, what the load costs on the kind that is best for each class"


def _floor(known: _Known) -> float:
    """Cost of each class on the kind that serves it at least cost, with parts of replicas."""
    best: dict[Cell, float] = {}
    for (kind, cell), rate in known.rates.items():
        if rate > 0:
            best[cell] = min(best.get(cell, math.inf), known.price[kind] * known.demand[cell] / rate)
    return math.fsum(best.values())


def _whole(table: CapacityTable, answer: CapacityAnswer) -> Iterator[str]:
    if answer.shares_are == "slices":
        parts = table.slices_per_class if isinstance(table, ClassTable) else 1
        for use in answer.shares:
            if use.slices is None or not math.isclose(use.share * parts, use.slices, rel_tol=LOAD_TOLERANCE):
                yield f"share {use.share} of class {(use.row, use.column)} is not {use.slices} of {parts} slices"
    if answer.shares_are == "one kind":
        kinds: dict[str, set[str]] = {}
        for replicas in answer.kinds:
            kinds.setdefault(replicas.model, set()).add(replicas.kind)
        for model, names in kinds.items():
            if len(names) > 1:
                yield f"{model} runs on {len(names)} kinds: {', '.join(sorted(names))}"
