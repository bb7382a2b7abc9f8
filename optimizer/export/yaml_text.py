"""YAML as launch files hold it: typed objects in, block style out, every string read back as the string that it was.

Tools read YAML by different rules: PyYAML by 1.1, Docker Compose and Helm by 1.2, kubectl by a mixture. What any of
them takes for a number, a boolean or null is quoted.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

import yaml

_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", ""})
# Numbers to base 2, 8, 10, 16 and 60, with underscores and commas; dates and times.
_LIKE_A_NUMBER: Final = re.compile(r"[-+]?(\.?[0-9][0-9a-fxotz_.,:+\- ]*|\.(inf|nan))", re.IGNORECASE)
_WIDTH: Final = 118


class Script(str):
    """Text of several lines that people read: written as a block."""

    __slots__ = ()


class Flow(tuple[str, ...]):
    """A short list that people read on one line."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Without anchors (two equal objects are written twice), lists indented below their key."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if isinstance(value, Script) and "\n" in value:
        style = "|"
    elif value.strip().lower() in _WORDS or _LIKE_A_NUMBER.fullmatch(value):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style=style)


def _flow(dumper: yaml.SafeDumper, value: Flow) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", list(value), flow_style=True)


_Dumper.add_representer(str, _string)
_Dumper.add_representer(Script, _string)
_Dumper.add_representer(Flow, _flow)


def yaml_text(documents: Sequence[Any], header: Iterable[str] = ()) -> str:
    """Write objects as YAML documents, under comment lines; keys keep their order and long strings their line.

    Args:
        documents: mappings, lists, strings, numbers, booleans and null.
        header: a comment each; what could end a comment is taken out.
    """
    parts = [
        yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=10**9)
        for document in documents
    ]
    return comments(header) + "---\n".join(parts)


def comments(lines: Iterable[str]) -> str:
    """Return lines as comments of YAML, wrapped; what could end one is taken out."""
    said = (_printable(" ".join(line.split())) for line in lines)
    wrapped = (part for line in said for part in _wrap(line) or [""])
    return "".join(f"# {line}".rstrip() + "\n" for line in wrapped)


def _wrap(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in line)
