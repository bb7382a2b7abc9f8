"""Questions written down as short YAML: what is as it is by default is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import yaml
from pydantic import BaseModel


class _Dumper(yaml.SafeDumper):
    """Writes lists of plain values on one line."""


def _list(dumper: _Dumper, values: list[Any]) -> yaml.Node:
    plain = not any(isinstance(one, (list, Mapping)) for one in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=plain)


_Dumper.add_representer(list, _list)


def yaml_of(fields: Mapping[str, Any]) -> str:
    """Return fields of plain values as YAML, in their order."""
    return str(yaml.dump(dict(fields), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def without_defaults(kind: type[BaseModel], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a question that are not what they are when not given, parts within parts.

    Args:
        kind: the question's class.
        fields: as `model_dump(mode="json")` gives them.
    """
    kept = {}
    for name, value in fields.items():
        field = kind.model_fields.get(name)
        if field is None or value is None:
            continue
        default = None if field.is_required() else _plain(field.get_default(call_default_factory=True))
        said = _lean(_part_of(field.annotation), value)
        if field.is_required() or (_plain(value) != default and said not in ({}, [], "")):
            kept[name] = said
    return kept


def _lean(part: type[BaseModel] | None, value: Any) -> Any:
    if part is not None and isinstance(value, Mapping):
        return without_defaults(part, value)
    if isinstance(value, (list, tuple)):
        return [_lean(part, one) for one in value]
    return value


def _part_of(annotation: Any) -> type[BaseModel] | None:
    """Return the part of a question that a field holds, one or many of it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _part_of(one)) is not None), None)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
