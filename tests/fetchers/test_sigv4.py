"""AWS signatures against the published example."""

from __future__ import annotations

from datetime import UTC, datetime

from fetchers.sigv4 import AwsKeys, canonical_query, sign_get

# From the signature version 4 test suite that AWS published (get-vanilla and get-vanilla-query-order-key-case).
KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)


def signature(params: dict[str, str]) -> str:
    headers = sign_get(KEYS, "https://example.amazonaws.com/", params, "us-east-1", "service", NOW)
    return headers["Authorization"].rpartition("Signature=")[2]


def test_a_plain_request_is_signed_as_published() -> None:
    assert signature({}) == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"


def test_a_query_is_signed_as_published() -> None:
    params = {"Param2": "value2", "Param1": "value1"}
    assert signature(params) == "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"


def test_the_query_is_encoded_and_sorted() -> None:
    assert canonical_query({"b": "Linux/UNIX", "a": "x y~"}) == "a=x%20y~&b=Linux%2FUNIX"


def test_a_session_token_is_signed_too() -> None:
    headers = sign_get(AwsKeys("AKID", "key", "token"), "https://ec2.us-east-1.amazonaws.com/", {}, "r", "ec2", NOW)
    assert headers["x-amz-security-token"] == "token"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token" in headers["Authorization"]


def test_keys_do_not_show_themselves() -> None:
    assert "wJalr" not in repr(KEYS)
