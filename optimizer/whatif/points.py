"""The points of a sweep: what --vary says, and the grid that all of it spans.

    --vary FIELD=a,b,c           these values
    --vary FIELD=1:8:2           from 1 by steps of 2: 1, 3, 5, 7
    --vary FIELD=1:64:x2         from 1, doubled each time, to 64
    --vary FIELD=0.5:2:n4        four values, evenly spaced, both ends included

A range includes its end where it falls on it. Values of a field that takes whole numbers are rounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from optimizer.errors import QuestionError
from optimizer.fields import shown
from optimizer.scenario import Scenario
from optimizer.whatif.fields import Value, get_field, read_value, refuse_two_kinds_of_traffic
from optimizer.whatif.price_factors import PREFIX, read_factor

MOST_POINTS = 1_000_000
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER}):([xn]?)({_NUMBER})")
_FORMS = "values joined by commas, or a range: START:STOP:STEP, START:STOP:xFACTOR or START:STOP:nCOUNT"
_DIGITS = 12  # steps of 0.1 add up to 0.30000000000000004, and mean 0.3


@dataclass(frozen=True)
class Axis:
    """One varied field and its values."""

    name: str
    values: tuple[Value, ...]

    @property
    def is_numeric(self) -> bool:
        """Whether every value is a number."""
        return all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in self.values)


@dataclass(frozen=True)
class Grid:
    """The product of some axes, as points counted from 0; the last axis varies fastest."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The varied fields."""
        return tuple(axis.name for axis in self.axes)

    def at(self, point: int) -> dict[str, Value]:
        """Return the value of each varied field at a point."""
        found: dict[str, Value] = {}
        for axis in reversed(self.axes):
            point, place = divmod(point, len(axis.values))
            found[axis.name] = axis.values[place]
        return {name: found[name] for name in self.names}

    def with_value(self, axis: int, place: int) -> Iterator[int]:
        """Return the points at which an axis has one of its values, in order."""
        after = math.prod(len(one.values) for one in self.axes[axis + 1 :])
        each = after * len(self.axes[axis].values)
        for start in range(0, len(self), each):
            yield from range(start + place * after, start + (place + 1) * after)


def read_grid(texts: Sequence[str], of: type[BaseModel] = Scenario) -> Grid:
    """Read the --vary flags of a sweep of questions of one layout, or of fleets.

    Raises:
        QuestionError: one cannot be read, a field is varied twice, or there are too many points.
    """
    axes = tuple(read_axis(text, of) for text in texts)
    if not axes:
        raise QuestionError("a sweep needs a field to vary, as in --vary workload.request_rate=1:64:x2")
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise QuestionError(f"--vary {name} is given twice; join its values by commas")
    refuse_two_kinds_of_traffic(dict.fromkeys(names))
    grid = Grid(axes)
    if len(grid) > MOST_POINTS:
        each = " x ".join(f"{len(axis.values):,}" for axis in axes)
        raise QuestionError(f"the grid has {each} = {len(grid):,} points; at most {MOST_POINTS:,} are solved at once")
    return grid


def read_axis(text: str, of: type[BaseModel] = Scenario) -> Axis:
    """Read "FIELD=SPEC".

    Raises:
        QuestionError: there is no such field, or the values are none.
    """
    name, equals, spec = text.partition("=")
    name, spec = name.strip(), spec.strip()
    if not equals or not name or not spec:
        raise QuestionError(f"--vary {shown(text)}: expected FIELD=VALUES, as in --vary workload.request_rate=1:64:x2")
    field = get_field(name, of)
    if (found := _RANGE.fullmatch(spec)) is not None:
        values = _range(name, spec, *found.groups())
        if field.is_whole:
            values = [float(round(value)) for value in values]
        if name.startswith(PREFIX):
            values = [read_factor(name, f"{value:.12g}") for value in values]
        return Axis(name, tuple(dict.fromkeys(map(_short, values))))
    parts = _split(spec)
    if not all(part.strip() for part in parts):
        raise QuestionError(f"--vary {name}={shown(spec)}: expected {_FORMS}")
    given = [read_value(name, part.strip(), of) for part in parts]
    return Axis(name, tuple(one for place, one in enumerate(given) if one not in given[:place]))


def _range(name: str, spec: str, start_text: str, stop_text: str, how: str, by_text: str) -> list[float]:
    start, stop, by = float(start_text), float(stop_text), float(by_text)
    where = f"--vary {name}={spec}"
    if not all(map(math.isfinite, (start, stop, by))):
        raise QuestionError(f"{where}: expected finite numbers")
    if how == "n":
        return _spaced(where, start, stop, by)
    if how == "x":
        return _geometric(where, start, stop, by)
    if by == 0 or (stop - start) * by < 0:
        raise QuestionError(f"{where}: steps of {by:g} never get from {start:g} to {stop:g}")
    steps = math.floor((stop - start) / by * (1 + 1e-12) + 1e-9)
    _refuse_too_many(where, steps + 1)
    return [start + step * by for step in range(steps + 1)]


def _spaced(where: str, start: float, stop: float, by: float) -> list[float]:
    if by != int(by) or by < 2:
        raise QuestionError(f"{where}: expected a whole number of at least 2 values after n")
    _refuse_too_many(where, by)
    count = int(by)
    return [start + (stop - start) * place / (count - 1) for place in range(count)]


def _geometric(where: str, start: float, stop: float, by: float) -> list[float]:
    if start == 0 or stop == 0 or (start < 0) != (stop < 0):
        raise QuestionError(f"{where}: a range by a factor needs a start and a stop above 0")
    way = math.log(stop / start)
    if by <= 0 or by == 1 or way * math.log(by) < 0:
        raise QuestionError(f"{where}: a factor of {by:g} never gets from {start:g} to {stop:g}")
    steps = math.floor(way / math.log(by) + 1e-9)
    _refuse_too_many(where, steps + 1)
    return [start * by**step for step in range(steps + 1)]


def _refuse_too_many(where: str, count: float) -> None:
    if count > MOST_POINTS:
        raise QuestionError(f"{where}: are {count:,.0f} values; at most {MOST_POINTS:,} points are solved at once")


def _short(value: float) -> int | float:
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded


def _split(spec: str) -> list[str]:
    """Split at commas that lie in no bracket and no quotes."""
    parts, depth, quote, current = [], 0, "", ""
    for letter in spec:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        if letter == "," and depth == 0 and not quote:
            parts.append(current)
            current = ""
        else:
            current += letter
    return [*parts, current]
