"""Credentials: from the environment or a file of one's own, shown nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fetchers.credentials import FILE_VARIABLE, Credentials
from fetchers.errors import CredentialsError


def kept(tmp_path: Path, text: str, mode: int = 0o600) -> dict[str, str]:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    path.chmod(mode)
    return {FILE_VARIABLE: str(path)}


def test_the_environment_is_read() -> None:
    assert Credentials.from_environment({"A_KEY": " abc123 "}).secret("shop", "A_KEY") == "abc123"


def test_the_file_fills_what_the_environment_lacks(tmp_path: Path) -> None:
    environ = kept(tmp_path, 'A_KEY = "from-file"\nB_KEY = "from-file"\n') | {"A_KEY": "from-environment"}
    credentials = Credentials.from_environment(environ)
    assert credentials.secret("shop", "A_KEY") == "from-environment"
    assert credentials.secret("shop", "B_KEY") == "from-file"
    assert credentials.missing(["A_KEY", "C_KEY"]) == ("C_KEY",)


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o620])
def test_a_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(CredentialsError, match=r"can be read by others.*chmod 600"):
        Credentials.from_environment(kept(tmp_path, 'A_KEY = "abc123"', mode))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('A_KEY = "abc-unclosed', "is not TOML"),
        ("A_KEY = 5", "values that are not text: A_KEY"),
        ('[lambda]\nkey = "abc"', "values that are not text: lambda"),
        ("#" * 1_100_000, "too large"),
    ],
)
def test_a_bad_file_is_told_without_its_content(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(CredentialsError, match=told) as caught:
        Credentials.from_environment(kept(tmp_path, text))
    assert "abc" not in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="cannot be read"):
        Credentials.from_environment({FILE_VARIABLE: str(tmp_path / "none.toml")})


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError):
        Credentials.from_environment({FILE_VARIABLE: str(tmp_path)})


@pytest.mark.parametrize("value", ["abc\r\nX-Evil: 1", "abc\0", "schlüssel"])
def test_a_value_that_could_break_a_header_is_refused(value: str) -> None:
    with pytest.raises(CredentialsError, match="characters that no key has") as caught:
        Credentials({"A_KEY": value}).secret("shop", "A_KEY")
    assert value not in str(caught.value)


def test_its_text_shows_no_value() -> None:
    assert "abc123" not in repr(Credentials({"A_KEY": "abc123"}))


def test_settings_are_not_hidden_but_secrets_are() -> None:
    credentials = Credentials({"TEAM": "team-name", "A_KEY": "abc123", "A_TOKEN": "def456"})
    credentials.setting("shop", "TEAM")
    credentials.secret("shop", "A_KEY")
    credentials.optional("A_TOKEN")
    assert credentials.redactor.text("team-name abc123 def456") == "team-name [hidden] [hidden]"
