"""Every example is solved on a page, whose run is a test of its own, and ends there as its own description says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.page import blocks
from tests.optimizer.command import run

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str]]:
    """The commands of all pages, with what they print; tests/documents runs each and compares."""
    return {
        command.text: command.output
        for page in sorted(FOLDER.glob("*.md"))
        for block in blocks(page.read_text(encoding="utf-8").splitlines())
        if block.language == "console" and "skip" not in block.said
        for command in block.commands()
        if command.output
    }


def test_there_are_examples_and_the_readme_lists_each() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert len(EXAMPLES) >= 7
    assert [example.name for example in EXAMPLES if f"`{example.name}`" not in listed] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_is_solved_on_a_page_and_ends_as_it_says(example: Path, printed: dict[str, list[str]]) -> None:
    command = f"shardwise solve examples/{example.name}"
    answer = printed.get(command) or printed[f"{command} --explain"]

    infeasible = "Exit code 3" in example.read_text(encoding="utf-8")
    assert answer[0].split()[0] == ("INFEASIBLE" if infeasible else "OPTIMAL")


def test_the_405b_example_crosses_nodes() -> None:
    layout = run("solve", str(FOLDER / "llama-3.1-405b-two-nodes.yaml"), "--json").json["layout"]

    assert layout["nodes_per_replica"] >= 2


@pytest.mark.parametrize("case", ["interactive", "offline"])
def test_the_spheron_examples_compare_two_h200_with_four_a100(case: str) -> None:
    plan = run("solve", str(FOLDER / f"spheron-h200-or-a100-{case}.yaml"), "--json").json

    gpus = {plan["layout"]["gpu"], *(one["gpu"] for one in plan["alternatives"] if one["layout"])}
    assert gpus == {"H200-SXM-141GB", "A100-SXM-80GB"}
    (other,) = (one for one in plan["alternatives"] if one["layout"])
    assert other["usd_per_hour"] >= plan["cost"]["usd_per_hour"]
    assert other["why"]
