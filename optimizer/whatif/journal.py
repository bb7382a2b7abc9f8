"""The journal of a sweep: what is solved is written down at once, so that an interruption loses nothing.

A file of JSON lines beside the output: first what was asked and what it rests on, then the rows of each chunk. A line
that an interruption left half-written is ignored. Only a sweep of the same question on the same prices goes on from it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from optimizer.errors import QuestionError
from optimizer.whatif.chunks import Row

SUFFIX, OLD_SUFFIX = ".partial", ".partial.old"
FORMAT = 1


@dataclass(frozen=True)
class Header:
    """What a sweep is of.

    Attributes:
        question: the scenario without what is varied.
        varied: [field, values] of each axis, in order.
        marks: what its answers rest on (see optimizer.whatif.inputs).
        today: the day that price ages count from; a sweep that goes on keeps the day on which it began.
    """

    question: Mapping[str, Any]
    varied: tuple[Any, ...]
    marks: Mapping[str, str]
    today: str

    def line(self) -> str:
        """Return the first line of a journal."""
        fields = {"shardwise_sweep": FORMAT, "question": self.question, "varied": self.varied, "marks": self.marks}
        return json.dumps({**fields, "today": self.today}, default=str)

    def differs_from(self, kept: Mapping[str, Any]) -> list[str]:
        """Say in what a journal's header differs from this one."""
        mine: dict[str, Any] = json.loads(self.line())
        if kept.get("shardwise_sweep") != FORMAT:
            return ["another format"]
        said = {"question": "another question", "varied": "other values"}
        found = [words for key, words in said.items() if mine[key] != kept.get(key)]
        marks, old = mine["marks"], kept.get("marks") or {}
        return found + [f"other {what}" for what in marks if old.get(what) != marks[what]]


class Journal:
    """A journal that is being written; one process at a time may."""

    def __init__(self, output: Path, columns: tuple[str, ...]):
        self.path = output.with_name(output.name + SUFFIX)
        self._columns = columns
        self._file: IO[str] | None = None

    def begin(self, header: Header) -> tuple[dict[int, Row], str]:
        """Open the journal for a sweep; return the rows that it holds already, and what to say of them.

        Raises:
            QuestionError: the file cannot be written, or another process is writing it.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+", encoding="utf-8", newline="\n")
        except OSError as error:
            raise QuestionError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        self._lock()
        lines, whole_bytes = self._whole_lines()
        kept = _parsed(lines[0]) if lines else None
        if kept is not None and not (differs := header.differs_from(kept)):
            rows = self._rows(lines[1:])
            self._file.truncate(whole_bytes)
            return rows, f"going on from {self.path.name}: {len(rows):,} points are kept" if rows else ""
        said = ""
        if len(lines) > 1:
            old = self._set_aside(lines)
            why = "its first line is damaged" if kept is None else ", ".join(differs)
            said = f"{self.path.name} is of another sweep ({why}): starting anew, and keeping it as {old.name}"
        self._file.seek(0)
        self._file.truncate()
        self._write(header.line())
        return {}, said

    def today(self) -> str | None:
        """Return the day on which the sweep in the journal began; None where there is none."""
        try:
            with self.path.open(encoding="utf-8") as file:
                kept = _parsed(file.readline())
        except (OSError, UnicodeDecodeError):
            return None
        day = (kept or {}).get("today")
        return day if isinstance(day, str) else None

    def add(self, rows: Iterable[tuple[int, Row]]) -> None:
        """Write down solved points; they are the system's to keep when this returns."""
        self._write(json.dumps([[point, [row[name] for name in self._columns]] for point, row in rows], default=str))

    def close(self) -> None:
        """Close the file and leave it."""
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        """Close the file and remove it: the output is written."""
        self.path.unlink(missing_ok=True)
        self.close()

    def _write(self, line: str) -> None:
        if self._file is None:
            raise RuntimeError("the journal is not open")
        self._file.write(line + "\n")
        self._file.flush()

    def _lock(self) -> None:
        if self._file is None or os.name != "posix":
            return
        import fcntl  # noqa: PLC0415  not on every system

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise QuestionError(f"{self.path}: another sweep is writing it; give another --out, or wait") from None

    def _whole_lines(self) -> tuple[list[str], int]:
        """Return the lines that are whole, and how many bytes they are."""
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        return data[:end].decode("utf-8", errors="replace").splitlines(), end

    def _rows(self, lines: list[str]) -> dict[int, Row]:
        found: dict[int, Row] = {}
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                for point, values in json.loads(line):
                    found[int(point)] = dict(zip(self._columns, values, strict=True))
        return found

    def _set_aside(self, lines: list[str]) -> Path:
        old = self.path.with_name(self.path.name.removesuffix(SUFFIX) + OLD_SUFFIX)
        old.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return old


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
