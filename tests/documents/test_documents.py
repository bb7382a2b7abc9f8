"""Every page runs as it is printed: commands, their output, Python, scenarios and files.

`pytest tests/documents --refresh-golden` rewrites the outputs; the difference is then read like code. The form of a
page is in `tests/documents/page.py`.
"""

from __future__ import annotations

import re
import tomllib
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from optimizer.cli import app
from optimizer.flags import read_fleet_question, read_question
from tests.documents.page import Block, anchors, blocks, inline_commands, links, matches, prose, refreshed
from tests.documents.shell import ROOT, Reader

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "examples").glob("*.md"))]
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
# Languages of blocks that are looked at, and those that are drawings or layouts of a folder.
RUN, TEXT = ("console", "python", "output", "yaml", "csv", "json"), ("text", "math", "")


def _lines(page: Path) -> list[str]:
    return page.read_text(encoding="utf-8").splitlines()


@EACH_PAGE
def test_a_page_runs_as_it_is_printed(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    refresh = bool(request.config.getoption("--refresh-golden"))
    lines = _lines(page)
    reader = Reader(tmp_path)
    changes: list[tuple[int, int, list[str]]] = []
    faults: list[str] = []
    printed = ""
    for block in blocks(lines):
        where = f"{page.name}:{block.first}"
        if block.language == "output":
            _compare(where, block.lines, printed.splitlines(), (block.first, block.last), changes, faults)
        if {"skip", "tested by"} & set(block.said):
            continue
        if "file" in block.said:
            held = _text_of(ROOT / block.said["file"])
            _compare(where, block.lines, held, (block.first, block.last), changes, faults)
        if "write" in block.said:
            saved = tmp_path / block.said["write"]
            saved.parent.mkdir(parents=True, exist_ok=True)
            saved.write_text(block.text, encoding="utf-8")
        if block.language == "console":
            _run(where, block, reader, changes, faults)
        elif block.language == "python" and "write" not in block.said:
            printed = reader.executes(block.text, where)
        elif block.language == "yaml":
            _is_a_question(block, tmp_path)
    if refresh and changes:
        for first, last, new in reversed(changes):
            lines[first:last] = new
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    if faults:
        pytest.fail("read the difference; --refresh-golden accepts it\n\n" + "\n\n".join(faults), pytrace=False)


def _run(
    where: str, block: Block, reader: Reader, changes: list[tuple[int, int, list[str]]], faults: list[str]
) -> None:
    commands = block.commands()
    for command, after in zip(commands, [*commands[1:], None], strict=True):
        ran = reader.types(command.text)
        told = after is not None and after.text == "echo $?"
        if ran.code != 0 and not told:
            faults.append(f"{where}: exit code {ran.code}: {command.text}\n{ran.err}{ran.out[-2000:]}")
        shown = [line.rstrip() for line in (ran.out + ran.err).splitlines()]
        # A command that prints nothing on the page is one whose output does not matter, but for how it ends.
        if command.output:
            _compare(f"{where}: {command.text}", command.output, shown, (command.first, command.last), changes, faults)


def _compare(
    where: str,
    shown: list[str],
    printed: list[str],
    at: tuple[int, int],
    changes: list[tuple[int, int, list[str]]],
    faults: list[str],
) -> None:
    if not matches(shown, printed):
        new = refreshed(shown, printed)
        changes.append((*at, new))
        faults.append("\n".join([where, *unified_diff(shown, new, "the page", "what is printed", lineterm="")]))


def _text_of(path: Path) -> list[str]:
    """A file's lines, without the comment that it begins with: the page says that in its own words."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first = next((n for n, line in enumerate(lines) if not line.startswith("#")), 0)
    return lines[first:]


def _is_a_question(block: Block, folder: Path) -> None:
    fields = yaml.safe_load(block.text)
    if base := block.said.get("fields of"):
        fields = _over(yaml.safe_load((folder / base).read_text(encoding="utf-8")), fields)
    if {"model", "models"} & set(fields):
        asked = folder / "examples" / "question-of-a-page.yaml"
        asked.write_text(yaml.safe_dump(fields), encoding="utf-8")
        assert read_fleet_question(str(asked), {}) or read_question(str(asked), {})
        asked.unlink()
    else:
        assert {"file", "write"} & set(block.said), f"line {block.first}: no question, and no file either"


def _over(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {name: _over(below.get(name), value) for name, value in above.items()}


@EACH_PAGE
def test_every_block_of_a_page_is_looked_at_or_says_why_not(page: Path) -> None:
    found = blocks(_lines(page))

    assert {block.language for block in found} <= {*RUN, *TEXT}
    assert [block.first for block in found if block.language in TEXT and "shardwise " in block.text] == []
    for block in found:
        if "tested by" in block.said:
            assert (ROOT / block.said["tested by"]).exists()
        if block.language in ("csv", "json"):
            assert {"file", "write"} & set(block.said)
    # Commands stand in fences, where they are run, or in the text between two backticks.
    assert [line for line in prose(_lines(page)) if line.startswith("    ") and "shardwise " in line] == []


@EACH_PAGE
def test_every_command_in_the_text_of_a_page_is_one(page: Path) -> None:
    root = get_command(app)
    for words in inline_commands(_lines(page)):
        command: Any = root
        names = list(words)
        while names and hasattr(command, "commands") and names[0] in command.commands:
            command = command.commands[names.pop(0)]
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help", "--version"}
        options = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert options <= known, words
        assert command is not root or options, words


@EACH_PAGE
def test_every_link_of_a_page_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    found = links(_lines(page), page)

    assert [str(one) for one, _ in found if not one.exists()] == []
    assert [(one.name, heading) for one, heading in found if heading and heading not in anchors(_lines(one))] == []


@EACH_PAGE
def test_every_target_of_make_and_every_extra_in_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    named = re.findall(r"(?:^    |^\$ |`)make ([a-z]+)", text, re.MULTILINE)
    assert set(named) <= set(targets)
    installed = {one for group in re.findall(r"shardwise\[([a-z,-]+)\]", text) for one in group.split(",")}
    assert installed <= set(extras)


def test_the_index_of_the_examples_lists_every_page() -> None:
    index = ROOT / "examples" / "README.md"
    listed = {one.resolve() for one, _ in links(_lines(index), index)}

    assert [page.name for page in (ROOT / "examples").glob("*.md") if page.resolve() not in listed | {index}] == []
