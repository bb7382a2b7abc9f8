"""Reading a YAML file of the user's: bounded in size and depth, without aliases or repeated keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from optimizer.errors import ScenarioError

MAX_BYTES = 1_000_000
MAX_DEPTH = 20
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml's where there is one
    """A safe loader that leaves days as text, so that a wrong one is reported with its field."""


_Loader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0] != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_mapping(path: Path) -> dict[Any, Any]:
    """Return the mapping that a YAML file holds.

    Raises:
        ScenarioError: the file cannot be read, is not text, is not YAML, or is not a mapping.
    """
    problem, content = _checked(_read_text(path))
    if problem is None and not isinstance(content, Mapping):
        got = "nothing" if content is None else f"a {type(content).__name__}"
        problem = f"expected a mapping of fields (model, workload, ...); the file holds {got}"
    if problem is not None:
        raise ScenarioError(str(path), [problem])
    return dict(content)


def read_value(text: str) -> Any:
    """Return the value that a YAML text spells, as a field of a file would hold it.

    Raises:
        ValueError: it is not YAML; the message says what it is.
    """
    problem, content = _checked(text)
    if problem is not None:
        raise ValueError(problem)
    return content


def _checked(text: str) -> tuple[str | None, Any]:
    """Return what is wrong with a text (None when nothing is), and what it holds."""
    try:
        return _load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return f"is not valid YAML: {' '.join(str(error).split())[:300]}", None


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # bounded: it may be a device or a pipe
    except (OSError, ValueError) as error:
        raise ScenarioError(str(path), [f"cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
    if len(data) > MAX_BYTES:
        raise ScenarioError(str(path), [f"is larger than {MAX_BYTES:,} bytes; expected a short YAML file"])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScenarioError(str(path), ["is not a text file in UTF-8; expected YAML"]) from None


def _load(text: str) -> tuple[str | None, Any]:
    """Return what is wrong with the text (None when nothing is), and what it holds."""
    problem = _unbounded(text)
    if problem is not None:
        return problem, None
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        problem = _repeated_key(node)
        return problem, loader.construct_document(node) if node is not None and problem is None else None
    finally:
        loader.dispose()


def _unbounded(text: str) -> str | None:
    """Refuse aliases, since a short file of them unfolds to gigabytes, and depth, since reading it recurses."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            return f"line {line}: an alias (*{str(event.anchor)[:40]}) is not accepted; write the value out"
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            return f"line {line}: is nested deeper than {MAX_DEPTH} levels"
    return None


def _repeated_key(node: yaml.Node | None) -> str | None:
    """Refuse a key given twice, of which YAML would quietly drop the first."""
    if isinstance(node, yaml.SequenceNode):
        return next(filter(None, map(_repeated_key, node.value)), None)
    if not isinstance(node, yaml.MappingNode):
        return None
    seen: set[str] = set()
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen:
                return f"line {key.start_mark.line + 1}: {key.value[:80]!r} is given twice; give it once"
            seen.add(key.value)
        problem = _repeated_key(value)
        if problem is not None:
            return problem
    return None
