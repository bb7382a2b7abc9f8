"""What is wrong with a question, field by field, in a form that crosses processes unharmed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from catalogs.errors import CatalogError, DataFileError, UnknownNameError
from optimizer.errors import QuestionError, ScenarioError
from optimizer.fields import problem

# Words of the command line in messages that it shares with requests: --max-price-age is max_price_age here.
_FLAG = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")
_FIELD = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
MOST_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One thing that is wrong.

    Attributes:
        field: its dotted name in the request; empty where no single field is to blame.
        detail: what is wrong with it, and what is accepted.
    """

    field: str
    detail: str


class Refusal(QuestionError):  # noqa: N818  what it is called in the field: a question is refused
    """A question that cannot be answered as it was asked.

    Attributes:
        problems: every problem found, not only the first.
    """

    def __init__(self, problems: Sequence[FieldProblem]):
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{one.field}: {one.detail}" if one.field else one.detail for one in self.problems))

    def __reduce__(self) -> tuple[type[Refusal], tuple[tuple[FieldProblem, ...]]]:
        """Keep the problems when it is sent to another process."""
        return type(self), (self.problems,)


def refusal(error: Exception, part: str = "") -> Refusal:
    """Return an error of the library's as a refusal.

    Args:
        error: a QuestionError or CatalogError.
        part: the field of the request that the error's own fields are inside of.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, (ScenarioError, DataFileError)):
        return Refusal([_read(_plain(text), part) for text in error.problems[:MOST_PROBLEMS]])
    field = f"{part}.model" if isinstance(error, UnknownNameError) and error.kind == "model" else ""
    return Refusal([FieldProblem(field.removeprefix("."), _plain(str(error)))])


def invalid(error: ValidationError, root: type[BaseModel]) -> Refusal:
    """Return what pydantic found wrong with a request as a refusal.

    Args:
        error: what it raised.
        root: the model that was validated.
    """
    return invalid_items(error.errors(include_url=False), root)


def invalid_items(items: Sequence[Any], root: type[BaseModel]) -> Refusal:
    """Return entries of ValidationError.errors() as a refusal (see `invalid`)."""
    return Refusal([_problem(item, root) for item in items[:MOST_PROBLEMS]])


def _problem(item: Any, root: type[BaseModel]) -> FieldProblem:
    """Return one entry, without what pydantic calls the kind of a scenario or plan: in its place that is no field."""
    place = tuple(item["loc"])
    kinds = getattr(root, "kinds_of", {}).get(place[0], {}) if len(place) > 1 else {}
    if place[1:2] and place[1] in kinds:
        return _read(problem({**item, "loc": place[2:]}, kinds[place[1]]), str(place[0]))
    return _read(problem(item, root), "")


def is_ours(error: Exception) -> bool:
    """Say whether an error is about what was asked, and not a fault of the program."""
    return isinstance(error, (QuestionError, CatalogError))


def _read(text: str, part: str) -> FieldProblem:
    place, colon, said = text.removeprefix("the whole: ").partition(": ")
    if not colon or _FIELD.fullmatch(place) is None:
        return FieldProblem(part, text.removeprefix("the whole: "))
    return FieldProblem(f"{part}.{place}" if part else place, said)


def _plain(text: str) -> str:
    return _FLAG.sub(lambda found: found[1].replace("-", "_"), text)
