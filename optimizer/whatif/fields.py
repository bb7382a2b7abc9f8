"""Fields of a scenario by their dotted names: which there are, how a value of one is written, and setting some.

A name is the path inside a scenario file ("workload.request_rate", "limits.quotas.0.max_gpus"), or "price:PATTERN" for
a factor on list prices (see optimizer.whatif.price_factors).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from catalogs.errors import near_matches
from optimizer import yaml_file
from optimizer.errors import QuestionError
from optimizer.fields import shown
from optimizer.flags import TRAFFIC
from optimizer.scenario import Scenario, build_scenario
from optimizer.whatif.price_factors import PREFIX, read_factor

Value = None | bool | int | float | str | tuple[Any, ...] | dict[str, Any]
TRAFFIC_FIELDS = tuple(f"workload.{kind}" for kind in TRAFFIC)
TIMES = "traffic"  # of a fleet: what the rates of all classes are multiplied by
LENGTH_FIELDS = ("workload.input_tokens", "workload.output_tokens")


@dataclass(frozen=True, slots=True)
class ScenarioField:
    """One field of a scenario.

    Attributes:
        name: its dotted name.
        is_list: whether it takes several values.
        is_whole: whether it takes whole numbers, one or several.
    """

    name: str
    is_list: bool
    is_whole: bool


def get_field(name: str, of: type[BaseModel] = Scenario) -> ScenarioField:
    """Return the field of this dotted name, or the factor on prices that "price:PATTERN" is.

    Of a fleet, "traffic" is a factor on the rates of all classes.

    Raises:
        QuestionError: there is no such field; near matches are offered.
    """
    if name.startswith(PREFIX):
        return ScenarioField(name, is_list=False, is_whole=False)
    if name == TIMES and of is not Scenario:
        return ScenarioField(name, is_list=False, is_whole=False)
    part: Any = of
    steps = name.split(".")
    annotation: Any = of
    for step in steps:
        if step.isdecimal() and _list_item(annotation) is not None:
            annotation = _list_item(annotation)
        else:
            part = _model(annotation)
            if part is None or step not in part.model_fields:
                raise QuestionError(_unknown(name, of))
            annotation = part.model_fields[step].annotation
    if _model(annotation) is not None:
        inside = ", ".join(f"{name}.{field}" for field in _model(annotation).model_fields)
        raise QuestionError(f"{name} is a part of a scenario, not one field; its fields: {inside}")
    item = _list_item(annotation)
    return ScenarioField(name, is_list=item is not None, is_whole=int in _plain_types(item or annotation))


def read_value(name: str, text: str, of: type[BaseModel] = Scenario) -> Value:
    """Read a value as YAML would; "a+b" is two values where the field takes several.

    Raises:
        QuestionError: it is not YAML, or the factor on prices is none.
    """
    if name.startswith(PREFIX):
        return read_factor(name, text)
    try:
        value = yaml_file.read_value(text)
        if isinstance(value, str) and "+" in value and get_field(name, of).is_list:
            value = [yaml_file.read_value(part) for part in value.split("+")]
    except ValueError as error:
        raise QuestionError(f"{name}: expected a value as in YAML; {shown(text)} {error}") from None
    return tuple(value) if isinstance(value, list) else value


def read_setting(text: str, of: type[BaseModel] = Scenario) -> tuple[str, Value]:
    """Read "FIELD=VALUE", as --set takes it.

    Raises:
        QuestionError: it has another form, or there is no such field.
    """
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise QuestionError(f"--set {shown(text)}: expected FIELD=VALUE, as in --set targets.tpot_ms=40")
    get_field(name, of)
    return name, read_value(name, value.strip(), of)


def read_settings(texts: list[str] | None, of: type[BaseModel] = Scenario) -> dict[str, Value]:
    """Read the --set flags of a command.

    Raises:
        QuestionError: as `read_setting`, or two set the same field or the traffic twice.
    """
    found: dict[str, Value] = {}
    for text in texts or ():
        name, value = read_setting(text, of)
        if name in found:
            raise QuestionError(f"--set {name} is given twice")
        found[name] = value
    refuse_two_kinds_of_traffic(found)
    return found


def with_settings(scenario: Scenario, texts: list[str] | None) -> Scenario:
    """Return the scenario as the --set flags of a command change it, where prices are not among what it can change.

    Raises:
        QuestionError: a flag is none, sets a price, or sets a value that its field does not accept.
    """
    changes = read_settings(texts)
    if prices := [name for name in changes if name.startswith(PREFIX)]:
        raise QuestionError(f"--set {prices[0]}: prices are changed by `shardwise whatif shock` and `whatif sweep`")
    return apply(scenario, changes)


def refuse_two_kinds_of_traffic(names: Mapping[str, Any]) -> None:
    """Raise QuestionError where these names say the amount of traffic in two ways."""
    if len(kinds := [name for name in TRAFFIC_FIELDS if name in names]) > 1:
        raise QuestionError(f"{' and '.join(kinds)} say the traffic twice; give one of them")


def apply(scenario: Scenario, changes: Mapping[str, Value]) -> Scenario:
    """Return the scenario with fields set, checked anew; factors on prices among the changes are left to the caller.

    Traffic of one kind replaces what the scenario says in another, and request lengths without a context of their own
    free the scenario's, as the flags of `shardwise solve` do.

    Raises:
        QuestionError: a value is none that its field accepts, or does not go with the others.
    """
    own = {name: value for name, value in changes.items() if not name.startswith(PREFIX)}
    if not own:
        return scenario
    fields = scenario.model_dump()
    if any(name in own for name in TRAFFIC_FIELDS):
        fields["workload"] |= dict.fromkeys(TRAFFIC)
    if any(name in own for name in LENGTH_FIELDS) and "workload.context_tokens" not in own:
        fields["workload"]["context_tokens"] = None
    for name, value in own.items():
        set_field(fields, name, list(value) if isinstance(value, tuple) else value)
    return build_scenario(fields, "the changed scenario")


def set_field(fields: dict[str, Any], name: str, value: Any) -> None:
    """Set a field of a question that was dumped, by its dotted name.

    Raises:
        QuestionError: it is inside a list that has no such item.
    """
    *path, last = name.split(".")
    inside: Any = fields
    for step in path:
        if isinstance(inside, (list, tuple)):
            inside = _item(inside, step, name)
        else:
            if isinstance(inside[step], tuple):
                inside[step] = list(inside[step])
            inside = inside[step]
    if isinstance(inside, list):
        _item(inside, last, name)
        inside[int(last)] = value
    else:
        inside[last] = value


def _item(items: list[Any] | tuple[Any, ...], step: str, name: str) -> Any:
    if int(step) >= len(items):
        raise QuestionError(f"{name}: the scenario has {len(items)} of them, counted from 0")
    return items[int(step)]


@lru_cache(maxsize=2)
def known_fields(of: type[BaseModel] = Scenario) -> tuple[str, ...]:
    """Return the dotted names of all fields, without those inside lists."""
    return (*_names(of, ""), *((TIMES,) if of is not Scenario else ()))


def _names(part: type[BaseModel], before: str) -> list[str]:
    found = []
    for name, field in part.model_fields.items():
        inner = _model(field.annotation)
        found += _names(inner, f"{before}{name}.") if inner is not None else [before + name]
    return found


def _unknown(name: str, of: type[BaseModel]) -> str:
    known = known_fields(of)
    if of is not Scenario and name.startswith("workload."):
        where = "a fleet's traffic stands in its classes"
        return f"{name[:80]!r} is of one layout; {where}: {TIMES} is a factor on all of it"
    same_end = [field for field in known if field.rpartition(".")[2] == name.rpartition(".")[2]]
    near = same_end or near_matches(name[:80], known, limit=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else f" (known: {', '.join(known)}, price:PATTERN)"
    return f"{name[:80]!r} is not a field of a scenario{hint}"


def _model(annotation: Any) -> Any:
    """Return the model that a field holds, where it holds one; lists of models are no model."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _list_item(annotation: Any) -> Any:
    """Return what a list field holds; None where it is no list."""
    for option in (annotation, *get_args(annotation)):
        if get_origin(option) is tuple:
            return get_args(option)[0]
    return None


def _plain_types(annotation: Any) -> set[Any]:
    """Return the types that an annotation allows, without what checks them."""
    inner = get_args(annotation)
    return {annotation} | {one for part in inner for one in ({part} | set(get_args(part)))}
