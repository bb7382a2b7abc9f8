"""A sweep's points in the order in which they are solved: those that share a table of candidates are neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from catalogs.errors import CatalogError
from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.candidates import GRID_LIMITS
from optimizer.errors import QuestionError
from optimizer.fleet.question import FleetScenario
from optimizer.programs.layout import Settings
from optimizer.scenario import Scenario
from optimizer.whatif.fields import LENGTH_FIELDS, TRAFFIC_FIELDS, Value, apply
from optimizer.whatif.fleet_fields import apply_to_fleet
from optimizer.whatif.fleet_point import FLEET_COLUMNS, solve_fleet_point
from optimizer.whatif.inputs import check_marks, load_model_once, model_names, offers_of
from optimizer.whatif.point import RESULT_COLUMNS, refused_row, solve_point
from optimizer.whatif.points import Grid
from optimizer.whatif.price_factors import PREFIX, factors_among, with_factors

MOST_IN_A_CHUNK = 16  # points: what an interruption may cost each process, about a second's work
LEAST_CHUNKS_A_JOB = 4

Row = dict[str, Any]


@dataclass(frozen=True)
class Base:
    """A question, of one layout or of a fleet, and what list prices are multiplied by: {"price:PATTERN": factor}.

    Attributes:
        settings: how the solver runs, of a fleet.
    """

    scenario: Scenario | FleetScenario
    factors: Mapping[str, float] = field(default_factory=dict)
    settings: Settings | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows of its points."""
        return tuple(RESULT_COLUMNS if isinstance(self.scenario, Scenario) else FLEET_COLUMNS)

    def changed(self, values: Mapping[str, Value]) -> Base:
        """Return it with fields, and factors on prices, set.

        Raises:
            QuestionError: a value is refused.
        """
        factors = factors_among(values)
        if isinstance(self.scenario, Scenario):
            return Base(apply(self.scenario, values), {**self.factors, **factors})
        return Base(apply_to_fleet(self.scenario, values), {**self.factors, **factors}, self.settings)


@dataclass(frozen=True)
class Chunk:
    """Some points for one process to solve.

    Attributes:
        base: the question without what is varied.
        points: (number of the point, values of the varied fields).
        today: the day that price ages count from.
        marks: what the answers have to rest on (see optimizer.whatif.inputs).
    """

    base: Base
    points: tuple[tuple[int, dict[str, Value]], ...]
    today: date
    marks: Mapping[str, str]


def solve_chunk(chunk: Chunk) -> list[tuple[int, Row]]:
    """Solve the points of a chunk, in this process."""
    return [(point, _solve(chunk, values)) for point, values in chunk.points]


def _solve(chunk: Chunk, values: Mapping[str, Value]) -> Row:
    try:
        one = chunk.base.changed(values)
        scenario = one.scenario
        models = {name: load_model_once(name) for name in model_names(scenario)}
        catalog = offers_of(scenario, chunk.today, one.factors)
    except (QuestionError, CatalogError) as error:
        return refused_row("invalid", error, chunk.base.columns)
    check_marks(scenario, chunk.today, chunk.marks)
    try:
        if isinstance(scenario, Scenario):
            return solve_point(scenario, model=models[scenario.model], catalog=catalog, today=chunk.today)
        return solve_fleet_point(scenario, models=models, catalog=catalog, today=chunk.today, settings=one.settings)
    except (QuestionError, CatalogError) as error:
        return refused_row("invalid", error, chunk.base.columns)
    except RuntimeError as error:  # an audit that did not pass is a fault of ours at one point, not of the others
        return refused_row("failed", error, chunk.base.columns)


def solve_values(base: Base, values: Mapping[str, Value], model: ModelSpec, catalog: OfferTable, today: date) -> Row:
    """Solve one point of a sweep of one layout on a model and offers at list prices that the caller has."""
    try:
        one = base.changed(values)
        if not isinstance(one.scenario, Scenario):
            raise TypeError("a fleet is solved in chunks")
        table = with_factors(catalog, dict(one.factors)) if one.factors else catalog
        return solve_point(one.scenario, model=model, catalog=table, today=today)
    except (QuestionError, CatalogError) as error:
        return refused_row("invalid", error)
    except RuntimeError as error:
        return refused_row("failed", error)


def points_in_order(grid: Grid) -> Iterator[int]:
    """Return the points so that those that share a table of candidates are neighbours."""
    return (point for _, point in _in_order(grid))


def in_chunks(
    base: Base, grid: Grid, todo: set[int] | None, today: date, marks: Mapping[str, str], jobs: int
) -> Iterator[Chunk]:
    """Return the points that are to be solved (all where `todo` is None) in chunks.

    A chunk never mixes points that differ in what shapes the table of candidates.
    """
    amount = len(grid) if todo is None else len(todo)
    most = MOST_IN_A_CHUNK if isinstance(base.scenario, Scenario) else 1  # a fleet takes seconds
    size = min(max(amount // (jobs * LEAST_CHUNKS_A_JOB), 1), most)
    for _, same in itertools.groupby(_in_order(grid), key=lambda one: one[0]):
        wanted = (point for _, point in same if todo is None or point in todo)
        while points := tuple(itertools.islice(wanted, size)):
            yield Chunk(base, tuple((point, grid.at(point)) for point in points), today, marks)


def _in_order(grid: Grid) -> Iterator[tuple[tuple[int, ...], int]]:
    """Return (places on the axes that shape the table of candidates, point) so that equal ones are neighbours."""
    after = [math.prod(len(one.values) for one in grid.axes[place + 1 :]) for place in range(len(grid.axes))]
    order = sorted(range(len(grid.axes)), key=lambda place: weight(grid.axes[place].name))
    shaping = sum(1 for place in order if weight(grid.axes[place].name) == 0)
    for places in itertools.product(*(range(len(grid.axes[place].values)) for place in order)):
        point = sum(position * after[place] for position, place in zip(places, order, strict=True))
        yield places[:shaping], point


def weight(name: str) -> int:
    """Say how much a field's change lets stand: 0 nothing, 1 the table of candidates, 2 also what each carries.

    The amount of traffic, budgets, quotas, names of what is rented and factors on prices change neither.
    """
    section, _, rest = name.partition(".")
    if section == "targets" or name in (
        "workload.burstiness",
        "workload.input_cv",
        "workload.output_cv",
        "limits.max_concurrency_per_replica",
        "limits.max_utilization",
    ):
        return 1
    light = name in TRAFFIC_FIELDS or name.startswith((PREFIX, "prices.discounts")) or name == "description"
    light |= section == "limits" and rest.partition(".")[0] not in GRID_LIMITS
    light |= name in ("prices.stale_after_days", "prices.max_age_days")
    return 2 if light and name not in LENGTH_FIELDS else 0
