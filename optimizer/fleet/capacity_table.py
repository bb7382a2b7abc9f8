"""A user's own capacity table: kinds of replica, what each costs, and what it can serve. Question and answer.

Two forms, both JSON. One model, by classes of traffic:

    {"kinds": {"A10G": {"usd_per_hour": 1.01, "requests_per_second": [[5, 2], [1, 0.5]]}, ...},
     "class_shares": [[0.5, 0.2], [0.2, 0.1]], "request_rate": 30, "slices_per_class": 4}

Rows and columns are classes (of input and output lengths, say); a rate is what one replica serves if it serves that
class alone, and 0 where it cannot. Several models, on accelerators of which there are only so many:

    {"capacity_units": {"A100": 196, ...},
     "models": [{"name": "chat", "requests_per_second": 2.0,
                 "kinds": [{"name": "2xA100", "gpu": "A100", "units_per_replica": 2, "usd_per_hour_per_replica": 0.8,
                            "requests_per_second_per_replica": 0.07}, ...]}, ...]}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from optimizer.errors import QuestionError, ScenarioError
from optimizer.fields import Count, Dollars, Name, Part, PositiveRate, number, problem, shown, whole
from optimizer.plan import AnswerPart
from optimizer.user_files import read_bounded

MOST_BYTES = 20_000_000
SHARES_TOLERANCE = 1e-6

_not_negative = number("a number from 0 to 1,000,000,000", lambda x: 0 <= x <= 1e9)
Rates = tuple[tuple[Annotated[float, _not_negative], ...], ...]
Shares = tuple[tuple[Annotated[float, number("a share from 0 to 1", lambda x: 0 <= x <= 1)], ...], ...]
Units = Annotated[int, whole(0, 1_000_000_000)]


class KindRates(Part):
    """What a replica of a kind costs, and the requests per second of each class that it serves alone."""

    usd_per_hour: Dollars
    requests_per_second: Rates


class ClassTable(Part):
    """One model: kinds of replica, by classes of traffic.

    Attributes:
        name, source: what it is and where it comes from; only repeated.
        kinds: by name.
        class_shares: the share of the requests that each class is; they add up to 1.
        request_rate: requests per second in all.
        slices_per_class: into how many equal parts a class is cut where each part goes to one kind as a whole.
        expected: not read.
    """

    name: str = ""
    source: str = ""
    kinds: Annotated[dict[Name, KindRates], Field(min_length=1)]
    class_shares: Shares
    request_rate: PositiveRate
    slices_per_class: Annotated[int, whole(1, 1000)] = 1
    expected: Mapping[str, Any] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> ClassTable:
        total = math.fsum(share for row in self.class_shares for share in row)
        if abs(total - 1) > SHARES_TOLERANCE:
            raise ValueError(f"class_shares add up to {total:.9g}; expected 1")
        wanted = [len(row) for row in self.class_shares]
        for name, kind in self.kinds.items():
            if [len(row) for row in kind.requests_per_second] != wanted:
                raise ValueError(
                    f"kinds.{name}.requests_per_second: expected {_shape(self.class_shares)} as in class_shares; "
                    f"got {_shape(kind.requests_per_second)}"
                )
        return self


def _shape(rows: tuple[tuple[float, ...], ...]) -> str:
    widths = sorted({len(row) for row in rows})
    return f"{len(rows)} rows of {' and '.join(map(str, widths))}"


class AcceleratorKind(Part):
    """A way to run one model: a replica takes so many units of an accelerator.

    Attributes:
        replicas_needed_alone: replicas of this kind that carry the model alone; checked where given.
    """

    name: Name
    gpu: Name
    units_per_replica: Count
    usd_per_hour_per_replica: Dollars
    requests_per_second_per_replica: PositiveRate
    replicas_needed_alone: Count | None = None


class ModelDemand(Part):
    """One of several models.

    Attributes:
        priority: not read: all demand is served.
    """

    name: Name
    requests_per_second: PositiveRate
    kinds: Annotated[tuple[AcceleratorKind, ...], Field(min_length=1)]
    priority: int | None = None

    @model_validator(mode="after")
    def _consistent(self) -> ModelDemand:
        names = [kind.name for kind in self.kinds]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"kinds of {self.name}: {', '.join(repeated)} is there more than once")
        for kind in self.kinds:
            alone = replicas_alone(self.requests_per_second, kind.requests_per_second_per_replica)
            if kind.replicas_needed_alone is not None and kind.replicas_needed_alone != alone:
                raise ValueError(
                    f"replicas_needed_alone of {self.name} on {kind.name} is {kind.replicas_needed_alone}, but "
                    f"{self.requests_per_second:g} requests/s need {alone} replicas of "
                    f"{kind.requests_per_second_per_replica:g} requests/s; correct one of them or leave it out"
                )
        return self


def replicas_alone(rate: float, of_one: float) -> int:
    """Return how many replicas a rate needs; what misses a whole number by a rounding error only is that number."""
    return math.ceil(rate / of_one * (1 - 1e-12) - 1e-12)


class AcceleratorTable(Part):
    """Several models on accelerators of which there are only so many.

    Attributes:
        capacity_units: units of each accelerator that there are.
        expected_usd_per_hour: not read.
    """

    name: str = ""
    source: str = ""
    capacity_units: Mapping[Name, Units]
    models: Annotated[tuple[ModelDemand, ...], Field(min_length=1)]
    expected_usd_per_hour: Mapping[str, Any] = {}

    @model_validator(mode="after")
    def _known_accelerators(self) -> AcceleratorTable:
        names = [model.name for model in self.models]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"models: {', '.join(repeated)} is there more than once")
        for model in self.models:
            for kind in model.kinds:
                if kind.gpu not in self.capacity_units:
                    raise ValueError(
                        f"{model.name} on {kind.name}: gpu {kind.gpu!r} is not in capacity_units "
                        f"({', '.join(self.capacity_units)})"
                    )
        return self


CapacityTable = ClassTable | AcceleratorTable


def load_capacity_table(path: Path) -> CapacityTable:
    """Read a table from a JSON file; which form it is, its fields say.

    Raises:
        QuestionError: it cannot be read or is not JSON.
        ScenarioError: fields of it are wrong; each is named with its value and what would be accepted.
    """
    data = read_bounded(path, MOST_BYTES, "a capacity table in JSON")
    try:
        content = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"{path}: is not valid JSON: {error}") from None
    if not isinstance(content, Mapping):
        raise QuestionError(f"{path}: expected a mapping with kinds and class_shares, or models; got {shown(content)}")
    form: type[ClassTable] | type[AcceleratorTable] = AcceleratorTable if "models" in content else ClassTable
    try:
        return form.model_validate(content)
    except ValidationError as error:
        problems = [problem(item, form) for item in error.errors(include_url=False)]
        raise ScenarioError(str(path), problems) from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice in one mapping")
    return dict(pairs)


class KindUse(AnswerPart):
    """Replicas of one kind.

    Attributes:
        model: whose; empty in a table of one model.
        gpu, units: the accelerator and how many units of it they take; empty and 0 where units are not counted.
        busy_replicas: how many of the replicas the load keeps busy.
    """

    model: str
    kind: str
    replicas: int
    usd_per_hour: float
    busy_replicas: float
    gpu: str = ""
    units: int = 0


class ShareUse(AnswerPart):
    """How much of a class goes to a kind.

    Attributes:
        model: whose traffic; empty in a table of one model.
        row, column: of class_shares, from 0; 0 and 0 where a model is one class.
        share: of the class.
        slices: how many of its slices that is, where slices are whole.
    """

    model: str
    row: int
    column: int
    kind: str
    share: float
    requests_per_second: float
    slices: int | None = None


class CapacityAnswer(AnswerPart):
    """The cheapest replicas that carry a table's traffic.

    Attributes:
        shares_are: "continuous" (any share of a class to a kind), "slices" (each slice to one kind), or "one kind"
            (each model on one kind).
        usd_per_hour: None unless there is a solution.
        bound_usd_per_hour: no choice of replicas costs less; None where nothing is proved.
        gap: how far the cost is above the bound, as a part of the cost.
        kinds, shares: the solution; empty without one.
        conflict: where it is infeasible, what cannot hold together: capacity:NAME, one_kind, traffic, or the class or
            model that no kind can serve.
    """

    schema_version: Literal["1"] = "1"
    name: str
    shares_are: Literal["continuous", "slices", "one kind"]
    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    usd_per_hour: float | None = None
    bound_usd_per_hour: float | None = None
    gap: float | None = None
    seconds: float
    kinds: tuple[KindUse, ...] = ()
    shares: tuple[ShareUse, ...] = ()
    conflict: tuple[str, ...] = ()
