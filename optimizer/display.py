"""How answers show themselves: as JSON, and in notebooks.

What draws them lies above the answers (optimizer.report), so it is imported when a notebook asks, and only here.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from typing import Self


class Shown(BaseModel):
    """An answer that can be looked at and kept."""

    def _repr_html_(self) -> str:
        """Return the answer as a notebook shows it."""
        from optimizer.report.notebook import html_of  # noqa: PLC0415

        return html_of(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the forms for notebooks: HTML, and in plain text the summary where there is one."""
        said = getattr(self, "summary", None)
        plain = f"{type(self).__name__}: {said}" if said else textwrap.shorten(repr(self), 200, placeholder=" ...")
        return {"text/plain": plain, "text/html": self._repr_html_()}

    def to_json(self) -> str:
        """Return what `--json` prints."""
        return self.model_dump_json(indent=2) + "\n"

    def save(self, path: Path | str) -> Path:
        """Write what `--json` prints to a file, whole or not at all; return its path.

        Raises:
            OSError: it cannot be written.
        """
        from optimizer.user_files import write_whole  # noqa: PLC0415

        write_whole(Path(path), self.to_json(), private=False)
        return Path(path)

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Read an answer of this kind that `save` or `--json` wrote.

        Raises:
            QuestionError: the file cannot be read, or holds no such answer.
        """
        from optimizer.answer_file import read_answer  # noqa: PLC0415

        return read_answer(cls, Path(path))


def flat(part: BaseModel, **more: Any) -> dict[str, Any]:
    """Return an answer's fields as columns of a row, those of its layout among them; long texts of lists left out."""
    row: dict[str, Any] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if name == "layout":
            row = (value.model_dump() if value is not None else {}) | row
        elif not isinstance(value, BaseModel):
            row[name] = value
    return row | more
