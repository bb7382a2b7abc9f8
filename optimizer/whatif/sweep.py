"""Sweeps: one question over a grid of values, solved in parallel, written down at once, resumed when interrupted."""

from __future__ import annotations

import itertools
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalogs.errors import CatalogError
from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.errors import QuestionError, ScenarioError
from optimizer.fleet.question import FleetScenario
from optimizer.names import check_names
from optimizer.owned_offers import with_owned
from optimizer.plan import AnswerPart
from optimizer.programs.layout import Settings
from optimizer.scenario import Scenario
from optimizer.solve import at_own_prices
from optimizer.version import __version__
from optimizer.whatif.chunks import Base, Chunk, Row, in_chunks, points_in_order, solve_values
from optimizer.whatif.engines import Engine
from optimizer.whatif.fields import Value
from optimizer.whatif.inputs import load_model_once, marks_of, model_names, offers_of
from optimizer.whatif.journal import Header, Journal
from optimizer.whatif.points import Grid
from optimizer.whatif.sweep_files import check_output, write_rows

if TYPE_CHECKING:
    import pandas as pd

MOST_TRIED = 1_000  # values of a field, and points at which one is tried before it is left to be found wrong at each
MOST_SAID = 5  # problems in one message
INPUT_FIELDS = ("model", "prices.as_of", "prices.offers_files", "performance.table")
_INPUTS_OF_A_MODEL = re.compile(r"models\.\d+\.model|(models\.\d+\.)?log\.file")  # of a fleet


class Varied(AnswerPart):
    """One varied field and its values, as rows have them.

    Attributes:
        field: its dotted name, as in a scenario.
        values: its values.
    """

    field: str
    values: tuple[Any, ...]


class Sweep(AnswerPart):
    """What a sweep found.

    Attributes:
        scenario: the question without what is varied.
        price_factors: what list prices of all points are multiplied by ({"price:PATTERN": factor}).
        counts: points by status: optimal, feasible, infeasible, invalid, failed.
        marks: what the answers rest on: version, prices, models, speed coefficients, each with its digest.
        kept: points that an earlier, interrupted run had solved.
        engine: what solved the others.
        columns: the columns of rows and file: the varied fields, then those of optimizer.whatif.point (of a fleet:
            optimizer.whatif.fleet_point).
        rows: a row a point, the last field varying fastest.
        file: where the rows are written; "" where they are not.
        varied: the fields that are varied.
        today: the day that ages of prices count to.
    """

    shardwise_version: str = __version__
    scenario: dict[str, Any]
    price_factors: dict[str, float]
    varied: tuple[Varied, ...]
    counts: dict[str, int]
    marks: dict[str, str]
    kept: int
    engine: str
    today: date
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    file: str

    def table(self) -> list[Row]:
        """Return the rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a table."""
        import pandas as pd  # noqa: PLC0415  answers are read without tables

        return pd.DataFrame(self.rows, columns=list(self.columns))


class SweepInterrupted(Exception):  # noqa: N818  not an error: what is solved is kept
    """The sweep was told to stop (Ctrl-C or SIGTERM); `journal` has what is solved.

    Attributes:
        signal_number: what stopped it.
    """

    def __init__(self, signal_number: int, done: int, total: int, journal: Path):
        self.signal_number, self.done, self.total, self.journal = signal_number, done, total, journal
        super().__init__(f"interrupted: {done:,} of {total:,} points are kept in {journal}")


@dataclass(frozen=True)
class Watch:
    """Whom a sweep tells how it goes: `say` gets a line for people, `solved` how many points are done of how many."""

    say: Callable[[str], None] = lambda _: None
    solved: Callable[[int, int], None] = lambda _, __: None


def sweep(
    scenario: Scenario | FleetScenario,
    grid: Grid,
    out: Path,
    engine: Engine,
    watch: Watch | None = None,
    today: date | None = None,
    fixed: Mapping[str, Value] | None = None,
    settings: Settings | None = None,
) -> Sweep:
    """Solve every point of the grid and write the rows to a file; go on where an interrupted run of the same stopped.

    Args:
        scenario: the question, of one layout or of a fleet.
        grid: what is varied.
        out: the file: .csv or .parquet.
        engine: where points are solved.
        watch: whom to tell how it goes.
        today: the day that price ages count from; when not given, the day on which an interrupted sweep began, or the
            real one.
        fixed: fields, and factors on prices, to set at every point.
        settings: how the solver runs, of a fleet: the time limit is that of a point.

    Raises:
        QuestionError, CatalogError: the question, a value that is wrong at every point, or the file is not usable.
        SweepInterrupted: Ctrl-C or SIGTERM; run it again to go on.
    """
    watch = watch or Watch()
    check_output(out)
    base = _base(scenario, grid, fixed or {}, settings)
    journal = Journal(out, base.columns)
    day = today or _day(journal.today()) or date.today()
    check_values(base, grid, day)
    marks = marks_of(_by_inputs(base, grid), day)
    question: dict[str, Any] = {"scenario": base.scenario.model_dump(mode="json"), "prices": base.factors}
    if base.settings is not None:
        question["time_limit_s"] = base.settings.time_limit_s
    header = Header(question, tuple([axis.name, axis.values] for axis in grid.axes), marks, str(day))
    rows, said = journal.begin(header)
    try:
        if said:
            watch.say(said)
        kept = len(rows)
        watch.solved(kept, len(grid))
        if kept < len(grid):
            todo = set(range(len(grid))) - set(rows) if rows else None
            _run(engine, in_chunks(base, grid, todo, day, marks, engine.jobs), journal, rows, len(grid), watch)
        found = _found(base, grid, rows, kept, engine.name, header, out)
        write_rows(out, found.columns, found.rows)
        journal.remove()
    finally:
        journal.close()
    return found


def sweep_here(
    scenario: Scenario,
    grid: Grid,
    *,
    model: ModelSpec,
    catalog: OfferTable,
    today: date | None = None,
) -> Sweep:
    """Solve every point of a small grid in this process, and write nothing.

    Args:
        scenario: the question.
        grid: what is varied: neither models nor where prices and speed figures come from.
        model: the question's.
        catalog: offers at list prices.
        today: the day that price ages count from; the real one when not given.

    Raises:
        QuestionError: a field of INPUT_FIELDS is varied.
    """
    if inputs := [name for name in grid.names if name.startswith(INPUT_FIELDS)]:
        raise QuestionError(f"--vary {inputs[0]}: cannot be varied here; expected fields other than {INPUT_FIELDS}")
    base, day = Base(scenario), today or date.today()
    rows: dict[int, Row] = {}
    for point in points_in_order(grid):
        rows[point] = solve_values(base, grid.at(point), model, catalog, day)
    header = Header({}, (), {"version of shardwise": __version__}, str(day))
    return _found(base, grid, rows, 0, "one process", header, None)


def _run(
    engine: Engine, chunks: Iterable[Chunk], journal: Journal, rows: dict[int, Row], total: int, watch: Watch
) -> None:
    with _stopped_by_signals() as stopped:
        try:
            with closing(engine.run(chunks)) as found:
                for solved in found:
                    journal.add(solved)
                    rows.update(solved)
                    watch.solved(len(rows), total)
        except KeyboardInterrupt:
            raise SweepInterrupted(stopped[-1] if stopped else signal.SIGINT, len(rows), total, journal.path) from None


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """Turn SIGTERM into a KeyboardInterrupt, as SIGINT is one; the list says which came. A second one is not heeded."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def stop(number: int, _: Any) -> None:
        came.append(number)
        if len(came) == 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _base(
    scenario: Scenario | FleetScenario, grid: Grid, fixed: Mapping[str, Value], settings: Settings | None
) -> Base:
    if both := [name for name in grid.names if name in fixed]:
        raise QuestionError(f"{both[0]} is both set and varied; do one of the two")
    try:
        return Base(scenario, settings=settings).changed(fixed)
    except ScenarioError as error:
        raise ScenarioError("--set", error.problems) from None


def _found(
    base: Base, grid: Grid, rows: dict[int, Row], kept: int, engine: str, header: Header, out: Path | None
) -> Sweep:
    table = tuple(
        (*map(plain, grid.at(point).values()), *(rows[point][name] for name in base.columns))
        for point in range(len(grid))
    )
    statuses = [rows[point]["status"] for point in range(len(grid))]
    return Sweep(
        scenario=base.scenario.model_dump(mode="json"),
        price_factors=base.factors,
        varied=tuple(Varied(field=axis.name, values=tuple(map(plain, axis.values))) for axis in grid.axes),
        counts={status: statuses.count(status) for status in sorted(set(statuses))},
        marks=dict(header.marks),
        kept=kept,
        engine=engine,
        today=date.fromisoformat(header.today),
        columns=(*grid.names, *base.columns),
        rows=table,
        file="" if out is None else str(out),
    )


def plain(value: Value) -> Any:
    """Return a value as a cell of a table: several joined by "+", days as text."""
    if isinstance(value, tuple):
        return "+".join(str(plain(one)) for one in value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def check_values(base: Base, grid: Grid, today: date) -> None:
    """Refuse values that are wrong at every point; those that only some combinations refuse make invalid points.

    Raises:
        QuestionError: naming every such value and why.
    """
    problems = []
    for place, axis in enumerate(grid.axes):
        for number in range(0, len(axis.values), -(-len(axis.values) // MOST_TRIED)):
            error = _refused_everywhere(base, grid, place, number, today)
            if error is not None:
                problems.append(f"--vary {axis.name}={plain(axis.values[number])}: {error}")
    if problems:
        more = f"\n... and {len(problems) - MOST_SAID} more" if len(problems) > MOST_SAID else ""
        raise QuestionError("\n".join(problems[:MOST_SAID]) + more)


def _refused_everywhere(base: Base, grid: Grid, axis: int, place: int, today: date) -> str | None:
    name, first = grid.axes[axis].name, None
    named = any(not one.is_numeric for one in grid.axes)
    for point in itertools.islice(grid.with_value(axis, place), MOST_TRIED):
        try:
            _check_point(base.changed(grid.at(point)), today, named)
        except (QuestionError, CatalogError) as error:
            own = [text for text in error.problems if text.startswith(name)] if isinstance(error, ScenarioError) else []
            if own:
                return "; ".join(text.partition(": ")[2] for text in own)
            first = first or str(error).removeprefix("the changed scenario:\n  - ")
        else:
            return None
    return first


def _check_point(base: Base, today: date, named: bool) -> None:
    """Check the question of a point against all but the solver; names of providers and places where some are varied."""
    for name in model_names(base.scenario):
        load_model_once(name)
    offers = with_owned(offers_of(base.scenario, today, base.factors), base.scenario.prices.owned, today)
    if named:
        question = base.scenario if isinstance(base.scenario, Scenario) else base.scenario.any_class()
        check_names(question, at_own_prices(question, offers).frame)


def _by_inputs(base: Base, grid: Grid) -> list[Scenario | FleetScenario]:
    """Return a scenario for each set of models, price days and files that points are answered from."""
    axes = [axis for axis in grid.axes if axis.name in INPUT_FIELDS or _INPUTS_OF_A_MODEL.fullmatch(axis.name)]
    found = []
    for values in itertools.product(*(axis.values for axis in axes)):
        try:
            one = base.changed(dict(zip((axis.name for axis in axes), values, strict=True))).scenario
            for name in model_names(one):
                load_model_once(name)
        except (QuestionError, CatalogError):
            continue
        found.append(one)
    return found


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        return None
