"""Redaction: no secret survives, in whatever spelling it travels, and the rest of the text does."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchers.redact import Redactor, redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://x.example/a?api_key=abc123&page=2", "https://x.example/a?api_key=[hidden]&page=2"),
        ("https://x.example/a?page=2&X-Amz-Signature=0f0f", "https://x.example/a?page=2&X-Amz-Signature=[hidden]"),
        ("https://me:pass@x.example/a", "https://[hidden]@x.example/a"),
        ("Authorization: Bearer abc.def-123", "Authorization: [hidden]"),
        ("{'X-API-KEY': 'abc', 'n': 1}", "{'X-API-KEY': [hidden], 'n': 1}"),
        ("sent Bearer abcdef123456 twice", "sent Bearer [hidden] twice"),
        ("https://x.example/a?pageToken=abc", "https://x.example/a?pageToken=[hidden]"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_what_stands_where_secrets_do_is_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown


@given(secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=40))
def test_a_known_secret_is_hidden_in_every_spelling(secret: str) -> None:
    redactor = Redactor([secret])
    said = redactor.text(f"path/{secret} q={quote(secret, safe='')} end")
    body = redactor.bytes(f'{{"k": "{secret}"}}'.encode())
    if secret not in "[hidden]":
        assert secret not in said.replace("[hidden]", "")
        assert secret.encode() not in body.replace(b"[hidden]", b"")
    assert said.endswith(" end")


@pytest.mark.parametrize("spelling", ["a b/c+d&e", "a%20b%2Fc%2Bd%26e", "a+b%2Fc%2Bd%26e", "YSBiL2MrZCZl"])
def test_each_spelling_of_a_secret_with_odd_characters_is_hidden(spelling: str) -> None:
    assert redact(f"<{spelling}>", ["a b/c+d&e"]) == "<[hidden]>"


def test_one_secret_inside_another_leaves_no_rest() -> None:
    assert redact("abcdefghij", ["abcdef", "abcdefghij"]) == "[hidden]"


def test_a_value_too_short_to_be_a_secret_does_not_eat_the_text() -> None:
    assert redact("a b c", ["b"]) == "a b c"
