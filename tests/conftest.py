"""What all tests share: the flag that rewrites the golden reports, and a terminal that is none."""

from __future__ import annotations

import os

import pytest

# Where a CI service asks for colours, usage errors would hold escape codes; typer reads this on import.
os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh-golden",
        action="store_true",
        help="Rewrite tests/optimizer/golden/*/report.txt from today's answers.",
    )
