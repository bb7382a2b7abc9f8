"""Reading JSON answers: fields that may be null, numbers that may be text, and a clear word when the shape changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from fetchers.bodies import load_json
from fetchers.errors import ContentError
from fetchers.pulls import RawPart, RawPull

Entry = dict[str, Any]

_DO = "The provider has changed its interface; its rows are not read until fetchers/sources is brought up to date."


def document(source: str, part: RawPart) -> Any:
    """Return the JSON of a part. Raises ContentError when it is not JSON."""
    try:
        return load_json(part.body)
    except ValueError:
        raise ContentError(
            source, f"the kept answer {part.label!r} is not JSON", "Pull it again.", url=part.url
        ) from None


def entries(source: str, value: Any, *path: str, keys: Sequence[str] = ()) -> list[Entry]:
    """Return the list of objects that lies under `path`.

    Args:
        source: short name of the source, for messages.
        value: the answer, or the part of it where `path` starts.
        path: names of the fields that lead to the list.
        keys: fields that at least one entry must have; when none has, the interface has changed.

    Raises:
        ContentError: there is no such list, or no entry has one of the keys.
    """
    shown = ".".join(path) or "the answer"
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, list):
        raise ContentError(source, f"{shown} is not a list", _DO)
    found = [entry for entry in value if isinstance(entry, dict)]
    lost = [key for key in keys if value and not any(key in entry for entry in found)]
    if lost:
        raise ContentError(source, f"no entry of {shown} has the field {', '.join(lost)}", _DO)
    return found


def entries_of_parts(pull: RawPull, *path: str, keys: Sequence[str] = ()) -> Iterable[Entry]:
    """Yield the entries of every part of a pull (its pages)."""
    for part in pull.parts:
        yield from entries(pull.source, document(pull.source, part), *path, keys=keys)


def number(value: Any) -> float | None:
    """Return a finite number, also one written as text; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """Return a whole number from 0 up; None for everything else, also for a part of one."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found == int(found) else None


def text(value: Any) -> str:
    """Return stripped text, "" for everything else; numbers are written out."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


def mapping(value: Any) -> Entry:
    """Return an object, an empty one for everything else."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """Return a list, an empty one for everything else (null in place of an empty list)."""
    return value if isinstance(value, list) else []


def unchanged(source: str, value: Any, *path: str) -> Entry:
    """Return the object that lies under `path`. Raises ContentError when there is none, or it is empty."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not value:
        raise ContentError(source, f"{'.'.join(path) or 'the answer'} is not an object with entries", _DO)
    return value


def shortfall(pull: RawPull, listed_under: str, *total_under: str) -> str:
    """Return what a list of pages lacks of the total that its first page states; "" when it has nearly all.

    A few may come or go while the pages are read.
    """
    pages = [mapping(document(pull.source, part)) for part in pull.parts]
    stated: Any = pages[0] if pages else {}
    for name in total_under:
        stated = mapping(stated).get(name)
    total = whole(stated)
    came = sum(len(listed(page.get(listed_under))) for page in pages)
    return "" if total is None or came >= 0.98 * total - 1 else f"{came} of the {total} entries that it states came"
