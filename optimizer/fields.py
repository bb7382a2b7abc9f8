"""Field types of the user's files: each says what it accepts, and a bad value is answered in the user's words."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from numbers import Real
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from catalogs.errors import near_matches
from optimizer.described import Described
from optimizer.engines import engine_version

A_DAY = "a day such as 2026-08-14"
_EXPECTED = {  # pydantic's error type -> what the field accepts
    "string_type": "text",
    "string_too_short": "a name that is not empty",
    "tuple_type": "a list",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "path_type": "a file name",
}
_short = reprlib.Repr()
_short.maxlevel, _short.maxdict, _short.maxlist, _short.maxtuple, _short.maxset = 2, 4, 4, 4, 4
_short.maxstring = _short.maxother = _short.maxlong = 80


def _read_number(value: Any) -> float | int | None:
    """Return the number that a value is or spells, or None; true and false are no numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) <= 40:
        for read in (int, float):  # YAML 1.1 reads 1e6 as text
            try:
                return read(value)
            except ValueError:
                continue
    return value if isinstance(value, Real) else None  # type: ignore[return-value]  # int, float and numpy's


@dataclass(frozen=True, slots=True)
class Checked(BeforeValidator):
    """A check of a value, with what a JSON schema says of it: keyword and value."""

    schema: tuple[tuple[str, Any], ...] = ()

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Return the schema of the field with what is known of its values."""
        found: dict[str, Any] = handler(core_schema)
        return {**found, **dict(self.schema)}


def whole(low: int, high: int) -> BeforeValidator:
    """Accept a whole number from low to high."""

    def check(value: Any) -> int:
        number = _read_number(value)
        if number is None or not low <= number <= high or number != int(number):
            raise ValueError(f"expected a whole number from {low:,} to {high:,}")
        return int(number)

    return Checked(check, schema=(("minimum", low), ("maximum", high)))


def number(accepted: str, holds: Callable[[float], bool]) -> BeforeValidator:
    """Accept a number for which `holds`; `accepted` says in words which those are."""

    def check(value: Any) -> float:
        number = _read_number(value)
        if number is None or not holds(number):
            raise ValueError(f"expected {accepted}")
        return float(number)

    return Checked(check, schema=(("description", f"{accepted[:1].upper()}{accepted[1:]}."),))


def as_list(value: Any) -> Any:
    """Accept one value, or values joined by commas, where a list is meant."""
    if value is None:
        return ()
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, (list, tuple)):
        return list(value)
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else [value]


class _OneOrMore:
    """Says in a JSON schema that one value may stand where a list is meant, as `as_list` has it."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        many = handler(core)
        return {"anyOf": [many["items"], many]} if "items" in many else many


LISTED = BeforeValidator(as_list)
ONE_OR_MORE = _OneOrMore()


def _as_day(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and len(value.strip()) == 10:
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            pass
    raise ValueError(f"expected {A_DAY}")


_positive = number("a number from 0.000001 to 1,000,000,000", lambda x: 1e-6 <= x <= 1e9)

Tokens = Annotated[int, whole(1, 10_000_000)]
Count = Annotated[int, whole(1, 1_000_000)]
Cap = Annotated[int, whole(1, 1_000_000_000)]
ParallelSize = Annotated[int, whole(1, 1024)]
Days = Annotated[int, whole(0, 36_500)]
Milliseconds = Annotated[float, _positive]
PositiveRate = Annotated[float, _positive]
Dollars = Annotated[float, _positive]
Share = Annotated[float, number("a share from 0 to 0.95 (15% is 0.15)", lambda x: 0 <= x <= 0.95)]
Confidence = Annotated[float, number("a probability from 0.5 to 0.99 (90% is 0.9)", lambda x: 0.5 <= x <= 0.99)]
PositiveShare = Annotated[float, number("a share from 0.01 to 1 (90% is 0.9)", lambda x: 0.01 <= x <= 1)]
Variation = Annotated[float, number("a number from 0 to 4", lambda x: 0 <= x <= 4)]
Dispersion = Annotated[float, number("a number from 0 to 100", lambda x: 0 <= x <= 100)]
# A price that a discount brings to nothing would win every comparison.
Percent = Annotated[float, number("a percentage above 0 and at most 99", lambda x: 0 < x <= 99)]


_HOURS_OF = {"m": 1 / 60, "h": 1.0, "d": 24.0, "w": 168.0}
_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,6})?)\s*([mhdw])")


def _as_hours(value: Any) -> float:
    """Return the hours of "90m", "24h", "7d" or "2w"."""
    found = _DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if found is None or not 0 <= (hours := float(found[1]) * _HOURS_OF[found[2]]) <= 876_000:
        raise ValueError("expected a duration such as 90m, 24h, 7d or 2w, at most 100 years")
    return hours


def _as_percentage(value: Any) -> float:
    """Return the share that "5%" or 0.05 says."""
    text = str(value).strip()
    share = _read_number(text.removesuffix("%").strip())
    if share is None or isinstance(value, bool) or not 0 <= (share := share / (100 if text.endswith("%") else 1)) <= 1:
        raise ValueError("expected a percentage or share such as 5% or 0.05")
    return float(share)


Hours = Annotated[float, BeforeValidator(_as_hours)]
Percentage = Annotated[float, BeforeValidator(_as_percentage)]


def _as_engine(value: Any) -> str:
    try:
        engine_version(str(value))
    except ValueError:
        raise ValueError("expected vllm, sglang or trtllm, with or without a version as in vllm@0.19") from None
    return str(value)


EngineName = Annotated[str, BeforeValidator(_as_engine)]
Day = Annotated[date, BeforeValidator(_as_day)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], LISTED, ONE_OR_MORE]
Sizes = Annotated[tuple[ParallelSize, ...], LISTED, ONE_OR_MORE]
# More replicas than any catalog has nodes for.
ReplicaCounts = Annotated[tuple[Annotated[int, whole(1, 100_000)], ...], LISTED, ONE_OR_MORE]


class Part(Described):
    """A part of a question: it cannot change and refuses what it does not know; an empty field counts as not given."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_what_is_empty(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in fields.items() if value is not None or name not in optional}


def problem(item: Any, root: type[BaseModel]) -> str:
    """Say one pydantic problem in the user's words: field, value, what is accepted.

    Args:
        item: an entry of ValidationError.errors().
        root: the model that was validated; its fields give the near matches of an unknown one.
    """
    field = ".".join(_plain(part) for part in item["loc"]) or "the whole"
    kind = item["type"]
    if kind == "missing":
        return f"{field}: is missing; it must be given"
    if kind in {"extra_forbidden", "invalid_key"}:
        return f"{field}: is not a field{_near_field(item['loc'], root)}"
    message = str(item["msg"]).removeprefix("Value error, ")
    if kind == "literal_error":
        message = f"expected {item['ctx']['expected']}"
    elif kind == "string_too_long":
        message = f"expected at most {item['ctx']['max_length']:,} characters"
    elif kind in {"model_type", "model_attributes_type"}:
        message = f"expected a mapping of fields ({', '.join(_fields_at(item['loc'], root))})"
    elif kind in _EXPECTED:
        message = f"expected {_EXPECTED[kind]}"
    elif kind == "value_error" and not message.startswith("expected"):
        return f"{field}: {message}"  # it names what is wrong already
    return f"{field}: {message}; got {shown(item.get('input'))}"


def shown(value: Any) -> str:
    """Show a value as the user wrote it, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"  # Python refuses to print one of 4,300
    text = _short.repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


def _plain(part: int | str) -> str:
    text = str(part)
    return text if text.isprintable() and 0 < len(text) <= 80 else _short.repr(text)


def _near_field(location: tuple[int | str, ...], root: type[BaseModel]) -> str:
    known = _fields_at(location[:-1], root)
    near = near_matches(str(location[-1])[:80], known, limit=1)
    return f"; did you mean {near[0]}?" if near else f" (known: {', '.join(known)})" if known else ""


def _fields_at(location: tuple[int | str, ...], root: type[BaseModel]) -> list[str]:
    """Return the names of the fields that a mapping at this place may hold."""
    part: Any = root
    for step in location:
        if isinstance(step, str):
            field = getattr(part, "model_fields", {}).get(step)
            part = _model_in(field.annotation) if field is not None else None
    return list(getattr(part, "model_fields", {}))


def _model_in(annotation: Any) -> Any:
    """Return the model that an annotation is or is a list of."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
