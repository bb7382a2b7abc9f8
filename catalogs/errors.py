"""What can be wrong with catalog data or with a name looked up in it.

CatalogError
|-- DataFileError       a data file, model config or price file is not what it should be
`-- UnknownNameError    a GPU, model, provider or node that the catalog does not hold
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path


class CatalogError(ValueError):
    """Base of every error that a person can mend by changing a file or a name."""


class DataFileError(CatalogError):
    """A file does not hold what its loader needs; carries every problem found, not only the first."""

    def __init__(self, path: str | Path, problems: Sequence[str]):
        self.path = str(path)
        self.problems = tuple(problems)
        shown = "\n".join(f"  - {problem}" for problem in self.problems[:20])
        more = f"\n  ... and {len(self.problems) - 20} more" if len(self.problems) > 20 else ""
        super().__init__(f"{self.path}:\n{shown}{more}")


class UnknownNameError(CatalogError):
    """A name that the catalog does not hold; offers near matches."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = ""):
        self.kind = kind
        self.name = name
        self.near = near_matches(name, known)
        near = f" Did you mean {' or '.join(self.near)}?" if self.near else ""
        super().__init__(f"Unknown {kind} {name!r}.{near}{' ' + hint if hint else ''}")


def near_matches(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return up to `limit` of the known names that look most like `name`, case-insensitively."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=limit, cutoff=0.5)
    if len(close) < limit:
        close += [low for low in by_lower if name.lower() in low and low not in close][: limit - len(close)]
    return [by_lower[low] for low in close]
