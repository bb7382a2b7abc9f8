"""Advice that a button follows: the flags that an answer names ("--ttft-ms 642 --budget-usd-per-hour 96") as fields."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from optimizer.fields import as_list
from optimizer.flags import FIELDS
from optimizer.scenario import Limits
from optimizer.web.page.fields import TRAFFIC, Question, get, put, with_traffic

_WITHOUT = re.compile(r"without --exclude-(gpu|provider) (\S+)")
_NO_ADVICE = frozenset({"discount", "offers_file", "performance_table"})  # no answer advises these
_LISTS = frozenset(name for name, field in Limits.model_fields.items() if "tuple" in str(field.annotation))


def follow(question: Mapping[str, Any], advice: str) -> Question | None:
    """Return the question with the flags of an advice set; None where it says something that is no flag.

    Args:
        question: the fields that the user said.
        advice: flags as on the command line; "without --exclude-gpu NAME" takes a name off the question's own list.
    """
    changed: Question = dict(question)
    dropped = _WITHOUT.findall(advice)
    for what, name in dropped:
        path = f"limits.exclude_{what}s"
        changed = put(changed, path, [one for one in as_list(get(changed, path)) if one != name])
    flags = _flags(_WITHOUT.sub("", advice))
    if flags is None or not (flags or dropped):
        return None
    for flag, value in flags:
        section, field = FIELDS[flag]
        if field in TRAFFIC:
            changed = with_traffic(changed, field, value)
        elif section == "limits" and field in _LISTS:
            changed = put(changed, f"{section}.{field}", [part.strip() for part in str(value).split(",")])
        else:
            changed = put(changed, f"{section}.{field}", value)
    return changed


def _flags(text: str) -> list[tuple[str, Any]] | None:
    """Return flags with their values, True for one without; None where a part is no flag of `shardwise solve`."""
    try:
        parts = shlex.split(text)
    except ValueError:
        return None
    pairs = list(_pairs(parts))
    known = all(flag in FIELDS and flag not in _NO_ADVICE for flag, _ in pairs)
    return pairs if known else None


def _pairs(parts: Sequence[str]) -> Iterator[tuple[str, Any]]:
    at = 0
    while at < len(parts):
        name = parts[at].removeprefix("--").replace("-", "_") if parts[at].startswith("--") else ""
        has_value = at + 1 < len(parts) and not parts[at + 1].startswith("--")
        yield name, parts[at + 1] if has_value else True
        at += 2 if has_value else 1
