"""YAML of launch files: whatever goes in is read back, by rules of YAML 1.1 and 1.2; comments hold nothing but text."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from optimizer.export.yaml_text import Script, comments, yaml_text

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(TEXT, TEXT)
def test_any_text_is_read_back_as_it_was(key: str, value: str) -> None:
    assert yaml.safe_load(yaml_text([{key: [value, Script(f"{value}\n{value}")]}])) == {
        key: [value, f"{value}\n{value}"]
    }


@pytest.mark.parametrize(
    "value",
    # What YAML 1.2 (Compose, Helm), 1.1 and what Kubernetes reads make a number, a boolean, a date or null of.
    [
        *("yes", "No", "y", "N", "on", "OFF", "true", "null", "~", "", "2026-08-22", "12:30"),
        *("1e3", "0o17", "0x1F", "0b1", "0123", "1_000", "+1", "-0", "1.", ".5", ".inf", " 7 "),
    ],
)
def test_what_any_reader_takes_for_something_else_is_quoted(value: str) -> None:
    assert yaml_text([[value]]) == f"- '{value}'\n"


@pytest.mark.parametrize("value", ["vllm", "--port", "meta-llama/Llama-3.1-8B", "/dev/shm", "15s", "16Gi", "v0.33.0"])
def test_plain_words_stay_plain(value: str) -> None:
    assert yaml_text([[value]]) == f"- {value}\n"


def test_scripts_are_blocks_and_equal_objects_are_written_twice() -> None:
    probe = {"path": "/health"}
    text = yaml_text([{"run": Script("a \\\n  b\n"), "one": probe, "two": probe}])
    assert text == "run: |\n  a \\\n    b\none:\n  path: /health\ntwo:\n  path: /health\n"


def test_documents_follow_each_other_under_one_header() -> None:
    assert yaml_text([{"a": 1}, {"b": 2}], ["of both", ""]) == "# of both\n#\na: 1\n---\nb: 2\n"


@given(st.lists(TEXT))
def test_a_comment_holds_nothing_but_text(lines: list[str]) -> None:
    text = comments(lines)
    assert all(line.startswith("#") for line in text.splitlines())
    assert yaml.safe_load(text) is None


def test_comments_are_wrapped_at_120_columns() -> None:
    lines = comments(["word " * 60]).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 120
