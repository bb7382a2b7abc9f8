"""A Markdown page taken apart: its fenced blocks, the commands in them, and what is said above each block.

A block's comment lines say what holds for it:

    <!-- skip: WHY -->            it is not run
    <!-- tested by: FILE -->      another test runs it
    <!-- file: NAME -->           it is the text of that file of the repository, leading comment lines left out
    <!-- fields of: NAME.yaml --> its fields, put over those of that scenario, are a question
    <!-- write: NAME -->          the reader saves it under that name (and Python is run by a command later on)
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ELIDED = "..."
DIRECTIVES = ("skip", "tested by", "file", "fields of", "write")
# What a line of a command begins with: a table may have a column of "$ per million tokens".
PROGRAMS = ("shardwise", "python", "pip", "make", "mkdir", "cat", "head", "tail", "grep", "sed", "ls", "echo")
_COMMAND = re.compile(rf"\$ (?:{'|'.join(PROGRAMS)}) ")
_DIRECTIVE = re.compile(r"<!-- ([a-z ]+): (.+) -->")


@dataclass(frozen=True)
class Command:
    """A command, what the page prints under it, and where in the page that stands: lines first to last, excluded."""

    text: str
    output: list[str]
    first: int
    last: int


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its lines, the line of the page they begin at, and what is said of it."""

    language: str
    lines: list[str]
    first: int
    said: dict[str, str]

    @property
    def text(self) -> str:
        """The block as one text."""
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def last(self) -> int:
        """The line of the page after the block's own."""
        return self.first + len(self.lines)

    def commands(self) -> list[Command]:
        """The commands of a block, each with its output: "$ " and a program, and what a backslash continues."""
        found: list[Command] = []
        at = 0
        while at < len(self.lines):
            if not _COMMAND.match(self.lines[at]):
                raise ValueError(f"line {self.first + at + 1}: output without a command above it")
            text = self.lines[at][2:]
            at += 1
            while text.endswith("\\"):
                text = text[:-1].rstrip() + " " + self.lines[at].strip()
                at += 1
            first = at
            while at < len(self.lines) and not _COMMAND.match(self.lines[at]):
                at += 1
            found.append(Command(text, self.lines[first:at], self.first + first, self.first + at))
        return found


def blocks(lines: list[str]) -> list[Block]:
    """Take a page's lines apart; raises ValueError at a comment that is none of ours above a block."""
    found: list[Block] = []
    said: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if directive := _DIRECTIVE.fullmatch(line):
            name, value = directive.groups()
            if name not in DIRECTIVES:
                raise ValueError(f"line {at + 1}: {name!r} is none of {', '.join(DIRECTIVES)}")
            said[name] = value
        elif line.startswith("```"):
            end = next(n for n in range(at + 1, len(lines)) if lines[n] == "```")
            found.append(Block(line[3:].strip(), lines[at + 1 : end], at + 1, said))
            said, at = {}, end
        elif line.strip():
            said = {}
        at += 1
    return found


def prose(lines: list[str]) -> list[str]:
    """The page without its fenced blocks."""
    inside = {n for block in blocks(lines) for n in range(block.first - 1, block.last + 1)}
    return [line for n, line in enumerate(lines) if n not in inside]


def inline_commands(lines: list[str]) -> list[list[str]]:
    """The words of each `shardwise ...` in the text of a page, of whatever lines it runs over."""
    text = re.sub(r"\s+", " ", " ".join(prose(lines)))
    return [shlex.split(one, comments=False) for one in re.findall(r"`shardwise ([^`]+)`", text)]


def links(lines: list[str], page: Path) -> list[tuple[Path, str]]:
    """The files that a page points to, each with the heading in it, if any."""
    targets = re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", "\n".join(prose(lines)))
    return [(page.parent / one if one else page, heading) for one, heading in targets if "://" not in one]


def anchors(lines: list[str]) -> set[str]:
    """What links to the headings of a page are called, as GitHub makes them."""
    headings = [line.lstrip("#").strip() for line in prose(lines) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether a page shows what was printed, where a line of three dots stands for any lines (also for none)."""
    parts = _parts(shown)
    if len(parts) == 1:
        return shown == printed
    at = 0
    for number, part in enumerate(parts):
        if number == len(parts) - 1:
            return len(printed) - len(part) >= at and printed[len(printed) - len(part) :] == part
        starts = [0] if number == 0 else range(at, len(printed) - len(part) + 1)
        start = next((n for n in starts if printed[n : n + len(part)] == part), None)
        if start is None:
            return False
        at = start + len(part)
    raise AssertionError


def refreshed(shown: list[str], printed: list[str]) -> list[str]:
    """What a page is to show of what is printed now: as many lines of each part, found by the part's first line."""
    if not shown or matches(shown, printed):
        return shown
    parts = _parts(shown)
    if len(parts) == 1:
        return printed
    kept: list[str] = []
    at = 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if last:
            start = max(at, len(printed) - len(part))
        else:
            start = at if number == 0 or not part else _closest(part[0], printed, at)
        kept += printed[start : start + len(part)] + ([] if last else [ELIDED])
        at = start + len(part)
    return kept


def _parts(shown: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == ELIDED:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _closest(line: str, printed: list[str], at: int) -> int:
    words = set(line.split())
    scores = [len(words & set(one.split())) / (len(words | set(one.split())) or 1) for one in printed[at:]]
    return at + scores.index(max(scores)) if scores else at
