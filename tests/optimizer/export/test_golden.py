"""Launch files as people read them: for each folder of golden/, exactly these files come out.

`pytest tests/optimizer/export/test_golden.py --refresh-golden` rewrites them; the difference is then read like code.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.export.targets import launch_files
from tests.optimizer.export.deployments import CASES

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("target", "case"),
    [
        ("docker-compose", "three replicas, two a node"),
        ("kubernetes", "a replica over two nodes"),
        ("skypilot", "a provider that nobody knows"),
        ("dstack", "a replica over two nodes"),
    ],
)
def test_files_are_the_golden_ones(target: str, case: str, request: pytest.FixtureRequest) -> None:
    folder = GOLDEN / target
    files = {file.name: file.text for file in launch_files(target, CASES[case])}
    if request.config.getoption("--refresh-golden"):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == files
