"""Plans that `shardwise solve --json` printed, read back."""

from __future__ import annotations

from pathlib import Path

from optimizer.answer_file import read_answer
from optimizer.plan import Plan


def read_plan(path: Path) -> Plan:
    """Read a Plan that `shardwise solve --json` printed.

    Raises:
        QuestionError: the file cannot be read or is no plan.
    """
    return read_answer(Plan, path)
