"""A capacity table solved: turned into a fleet of replicas that cost what the table says, and the answer audited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from optimizer.check.capacity_table import check_capacity_answer
from optimizer.errors import AuditError, QuestionError
from optimizer.fleet.capacity_table import (
    AcceleratorTable,
    CapacityAnswer,
    CapacityTable,
    ClassTable,
    KindUse,
    ShareUse,
)
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_conflict import conflicting_rules
from optimizer.programs.fleet_instance import FleetAnswer, FleetInstance, Kind, NodeLimit, Option, Site
from optimizer.programs.layout import Settings

MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class _Names:
    """What positions of the instance stand for.

    Attributes:
        kinds: (model, kind, accelerator, units of one replica).
        classes: (model, row, column).
    """

    kinds: tuple[tuple[str, str, str, int], ...]
    classes: tuple[tuple[str, int, int], ...]


def solve_capacity(
    table: CapacityTable, *, slices: bool = False, one_kind: bool = False, settings: Settings | None = None
) -> CapacityAnswer:
    """Find the cheapest replicas for a table's traffic, and audit them.

    Args:
        table: the table.
        slices: each slice of a class goes to one kind as a whole (Griggs et al. 2024, "Melange": the load that a slice
            puts on a kind is its rate over the kind's rate; loads add up, and are rounded up to whole replicas).
        one_kind: each model runs on one kind.
        settings: how the solver runs.

    Raises:
        QuestionError: `slices` or `one_kind` do not go with this form of table.
        AuditError: the answer did not pass its audit.
    """
    if isinstance(table, ClassTable):
        if one_kind:
            raise QuestionError("--one-kind is for a table of several models; this one has classes of one model")
        instance, names = _of_classes(table, slices)
    else:
        if slices:
            raise QuestionError("--slices is for a table with class_shares; this one has several models")
        instance, names = _of_models(table, one_kind)
    found = cheapest_fleet(instance, settings)
    answer = _answer(table, instance, names, found, "slices" if slices else "one kind" if one_kind else "continuous")
    if found.status == "infeasible":
        core = conflicting_rules(instance, settings)
        return answer.model_copy(update={"conflict": tuple(_said(name, names) for name in core)})
    if violations := check_capacity_answer(table, answer):
        raise AuditError(violations)
    return answer


def _of_classes(table: ClassTable, slices: bool) -> tuple[FleetInstance, _Names]:
    parts = table.slices_per_class if slices else 1
    cells = [
        (row, column) for row, shares in enumerate(table.class_shares) for column, share in enumerate(shares) if share
    ]
    classes = [cell for cell in cells for _ in range(parts)]
    sites, kinds = [], []
    for position, kind in enumerate(table.kinds.values()):
        sites.append(Site(1, (Option(round(kind.usd_per_hour * MICRO)),)))
        kinds.append(Kind(position, 1, tuple(kind.requests_per_second[row][column] for row, column in classes)))
    demand = tuple(table.class_shares[row][column] * table.request_rate / parts for row, column in classes)
    names = _Names(
        tuple(("", name, "", 0) for name in table.kinds), tuple(("", row, column) for row, column in classes)
    )
    return FleetInstance(tuple(sites), tuple(kinds), (demand,), whole_classes=slices), names


def _of_models(table: AcceleratorTable, one_kind: bool) -> tuple[FleetInstance, _Names]:
    sites: list[Site] = []
    kinds: list[Kind] = []
    named: list[tuple[str, str, str, int]] = []
    weights: dict[str, dict[int, int]] = {name: {} for name in table.capacity_units}
    for index, model in enumerate(table.models):
        for kind in model.kinds:
            weights[kind.gpu][len(sites)] = kind.units_per_replica
            rates = tuple(
                kind.requests_per_second_per_replica if other == index else 0.0 for other in range(len(table.models))
            )
            kinds.append(Kind(len(sites), 1, rates))
            sites.append(Site(1, (Option(round(kind.usd_per_hour_per_replica * MICRO)),)))
            named.append((model.name, kind.name, kind.gpu, kind.units_per_replica))
    limits = tuple(
        NodeLimit(f"capacity:{name}", weights[name], most)
        for name, most in table.capacity_units.items()
        if weights[name]
    )
    instance = FleetInstance(
        tuple(sites),
        tuple(kinds),
        (tuple(model.requests_per_second for model in table.models),),
        groups=tuple(range(len(table.models))),
        limits=limits,
        max_kinds_per_group=1 if one_kind else None,
    )
    return instance, _Names(tuple(named), tuple((model.name, 0, 0) for model in table.models))


def _answer(
    table: CapacityTable,
    instance: FleetInstance,
    names: _Names,
    found: FleetAnswer,
    shares_are: Literal["continuous", "slices", "one kind"],
) -> CapacityAnswer:
    cost, bound = found.cost_micro_usd, found.bound_micro_usd
    return CapacityAnswer(
        name=table.name,
        shares_are=shares_are,
        status=found.status,
        usd_per_hour=None if cost is None else cost / MICRO,
        bound_usd_per_hour=None if bound is None else bound / MICRO,
        gap=None if cost is None or bound is None else (cost - bound) / cost if cost else 0.0,
        seconds=found.seconds,
        kinds=_kinds(instance, names, found),
        shares=_shares(instance, names, found, whole=shares_are == "slices"),
    )


def _kinds(instance: FleetInstance, names: _Names, found: FleetAnswer) -> tuple[KindUse, ...]:
    busy: dict[int, float] = {}
    for (kind, index, _), rate in found.rates.items():
        busy[kind] = busy.get(kind, 0.0) + rate / instance.kinds[kind].rates[index]
    uses = []
    for (kind, _), count in sorted(found.replicas.items()):
        model, name, gpu, units = names.kinds[kind]
        price = instance.sites[kind].options[0].price_micro_usd
        uses.append(
            KindUse(
                model=model,
                kind=name,
                replicas=count,
                usd_per_hour=count * price / MICRO,
                busy_replicas=busy.get(kind, 0.0),
                gpu=gpu,
                units=units * count,
            )
        )
    return tuple(uses)


def _shares(instance: FleetInstance, names: _Names, found: FleetAnswer, *, whole: bool) -> tuple[ShareUse, ...]:
    rates: dict[tuple[tuple[str, int, int], int], float] = {}
    parts: dict[tuple[tuple[str, int, int], int], int] = {}
    demand: dict[tuple[str, int, int], float] = {}
    for index, cell in enumerate(names.classes):
        demand[cell] = demand.get(cell, 0.0) + instance.demand[0][index]
    for (kind, index, _), rate in found.rates.items():
        key = (names.classes[index], kind)
        rates[key] = rates.get(key, 0.0) + rate
        parts[key] = parts.get(key, 0) + 1
    return tuple(
        ShareUse(
            model=cell[0],
            row=cell[1],
            column=cell[2],
            kind=names.kinds[kind][1],
            share=rate / demand[cell],
            requests_per_second=rate,
            slices=parts[cell, kind] if whole else None,
        )
        for (cell, kind), rate in sorted(rates.items())
    )


def _said(rule: str, names: _Names) -> str:
    if rule == "max_kinds_per_group":
        return "one_kind"
    if not rule.startswith("traffic:"):
        return rule
    model, row, column = names.classes[int(rule.removeprefix("traffic:"))]
    return f"traffic of {model}" if model else f"traffic of class row {row}, column {column}"
