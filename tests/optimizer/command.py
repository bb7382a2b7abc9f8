"""The command line, run the way the console script runs it: inside this process (fast), or as one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from optimizer.cli import main

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
TRAFFIC = ("--input-tokens", "2000", "--output-tokens", "300", "--request-rate", "4")
# One provider's offers of one day: a small question, whose answer new prices do not change.
SPHERON = ("--provider", "spheron", "--as-of", "2026-08-14")
COLOURS = ("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "SHARDWISE_DEBUG")


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, read as JSON: nothing else may be there."""
        return json.loads(self.out)


def _environment(columns: int | None, extra: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {*COLOURS, "COLUMNS"}}
    return kept | ({} if columns is None else {"COLUMNS": str(columns)}) | extra


def run(*arguments: str, columns: int | None = 80, **environment: str) -> Ran:
    """Run `shardwise ARGUMENTS` inside this process."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["shardwise", *arguments]),
        mock.patch.dict(os.environ, _environment(columns, environment), clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    return Ran(int(code), out.getvalue(), err.getvalue())


def run_without(package: str, *arguments: str) -> Ran:
    """Run `shardwise ARGUMENTS` inside this process as if a package were not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, package, None)
        return run(*arguments)


def spawn(*arguments: str, columns: int | None = 80, **environment: str) -> Ran:
    """Run `shardwise ARGUMENTS` as a process of its own, its output piped."""
    done = subprocess.run(
        [sys.executable, "-m", "optimizer.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=_environment(columns, environment),
    )
    return Ran(done.returncode, done.stdout, done.stderr)
