"""The reader of a page at a keyboard: a copy of the examples in a folder of its own, and a calendar that stands still.

`shardwise` runs inside this process, where that gives the same: with arguments, and into a file. All else is a real
shell's, which finds `shardwise` and `python` on its path.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import time_machine

from tests.optimizer.command import Ran, run

ROOT = Path(__file__).parent.parent.parent
COPIED = ("examples", "tests/data/benchmarks", "tests/data/capacity")
READ = ("catalogs/data/gpus.toml",)
# The pages are printed on this day, two days after the newest bundled prices were seen.
DAY = datetime(2026, 8, 24, 12, tzinfo=UTC)
COLUMNS = 100
_MARKS = "();<>|&"


class Reader:
    """One reader, who follows one page from its first command to its last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = 0
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.data = folder / ".data"
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name)
        for name in READ:
            (folder / name).parent.mkdir(parents=True)
            shutil.copy(ROOT / name, folder / name)

    def types(self, command: str) -> Ran:
        """Run one command, and remember how it ended."""
        lexer = shlex.shlex(command, posix=True, punctuation_chars=_MARKS)
        lexer.whitespace_split = True
        words = list(lexer)
        if words == ["echo", "$?"]:
            return Ran(0, f"{self.code}\n", "")
        ran = self._own(words) if words[0] == "shardwise" else None
        ran = ran or self._shell(command)
        self.code = ran.code
        return ran

    def _own(self, words: list[str]) -> Ran | None:
        marks = [n for n, word in enumerate(words) if word and set(word) <= set(_MARKS)]
        into = None
        if marks == [len(words) - 2] and words[-2] == ">":
            words, into = words[:-2], words[-1]
        elif marks:
            return None
        with self._here():
            ran = run(*words[1:], columns=COLUMNS, SHARDWISE_DATA_DIR=str(self.data))
        if into is None:
            return ran
        (self.folder / into).write_text(ran.out, encoding="utf-8")
        return Ran(ran.code, "", ran.err)

    def _shell(self, command: str) -> Ran:
        tools = self.folder / ".tools"
        if not tools.exists():
            tools.mkdir()
            for name, start in (("shardwise", "-m optimizer.cli"), ("python", "")):
                (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {start} "$@"\n')
                (tools / name).chmod(0o755)
        environment = os.environ | {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": str(COLUMNS),
            "SHARDWISE_DATA_DIR": str(self.data),
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def executes(self, code: str, page: str) -> str:
        """Run Python of a page, with the names that its earlier blocks left; what it printed."""
        out = io.StringIO()
        with self._here(), contextlib.redirect_stdout(out):
            exec(compile(code, page, "exec"), self.names)
        return out.getvalue()

    @contextlib.contextmanager
    def _here(self) -> Iterator[None]:
        with contextlib.chdir(self.folder), time_machine.travel(DAY, tick=True):
            yield
