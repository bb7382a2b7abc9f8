"""A page taken apart, compared with what is printed, and rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.page import anchors, blocks, inline_commands, links, matches, refreshed

PAGE = """\
# A page, and its `title`

Type `shardwise solve
FILE.yaml --json`, see [the other](other.md#a-page) and [the net](https://example.com).

<!-- skip: needs the network -->
```console
$ shardwise prices refresh
```

```console
$ shardwise solve FILE.yaml \\
    --json
one
$ per million tokens   2
two
$ echo $?
3
```
""".splitlines()


def test_blocks_know_their_place_and_what_is_said_of_them() -> None:
    skipped, run = blocks(PAGE)

    assert (skipped.language, skipped.said, run.said) == ("console", {"skip": "needs the network"}, {})
    assert PAGE[run.first : run.last] == run.lines


def test_commands_go_on_after_a_backslash_and_have_the_output_under_them() -> None:
    first, second = blocks(PAGE)[1].commands()

    assert first.text == "shardwise solve FILE.yaml --json"
    assert first.output == ["one", "$ per million tokens   2", "two"]
    assert (second.text, second.output) == ("echo $?", ["3"])
    assert PAGE[second.first : second.last] == ["3"]


def test_text_has_commands_and_links_over_any_lines() -> None:
    assert inline_commands(PAGE) == [["solve", "FILE.yaml", "--json"]]
    assert links(PAGE, Path("examples/page.md")) == [(Path("examples/other.md"), "a-page")]
    assert anchors(PAGE) == {"a-page-and-its-title"}


def test_output_without_a_command_and_unknown_directives_are_refused() -> None:
    with pytest.raises(ValueError, match="line 2: output without a command"):
        blocks(["```console", "out", "```"])[0].commands()
    with pytest.raises(ValueError, match="'skp' is none of"):
        blocks(["<!-- skp: why -->"])


@pytest.mark.parametrize(
    ("shown", "holds"),
    [
        ("a b c d", True),
        ("a b c", False),
        ("a ... d", True),
        ("a b c d ...", True),  # dots may stand for nothing
        ("... c d", True),
        ("... b ... d", True),
        ("... c ... b ...", False),
        ("a ... c", False),
        ("...", True),
    ],
)
def test_dots_stand_for_any_lines(shown: str, holds: bool) -> None:
    assert matches(shown.split(), ["a", "b", "c", "d"]) is holds


def test_a_refresh_keeps_what_a_page_leaves_out() -> None:
    printed = ["cost 9", "", "table", "row 1", "row 2", "", "prices", "as of today"]

    assert refreshed(["cost 8", "...", "table", "row 1", "..."], printed) == ["cost 9", "...", "table", "row 1", "..."]
    assert refreshed(["cost 8", "...", "as of yesterday"], printed) == ["cost 9", "...", "as of today"]
    assert refreshed(["cost 8"], printed) == printed
    assert refreshed(["cost 9", "..."], printed) == ["cost 9", "..."]
    assert refreshed([], printed) == []
