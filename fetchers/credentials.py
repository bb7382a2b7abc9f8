"""Credentials: from the environment, or from a file that only its owner can read. Never from anywhere else."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from fetchers.errors import CredentialsError
from fetchers.redact import Redactor

FILE_VARIABLE = "SHARDWISE_CREDENTIALS_FILE"
MAX_FILE_BYTES = 1_000_000


class Credentials:
    """Named values that sources need; an environment variable wins over the file. Its text never shows a value."""

    def __init__(self, environ: Mapping[str, str], kept: Mapping[str, str] | None = None):
        self._values = {**(kept or {}), **{name: value for name, value in environ.items() if value.strip()}}
        self.redactor = Redactor()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Credentials:
        """Return the environment's credentials, completed by the file that SHARDWISE_CREDENTIALS_FILE names.

        Raises:
            CredentialsError: the file cannot be read, is readable by others, or does not hold NAME = "value" lines.
        """
        environ = os.environ if environ is None else environ
        path = environ.get(FILE_VARIABLE, "").strip()
        return cls(environ, read_credentials_file(Path(path)) if path else None)

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return which of the names have no value."""
        return tuple(name for name in names if not self._values.get(name, "").strip())

    def secret(self, source: str, name: str) -> str:
        """Return a secret and hide it from messages, logs and kept answers from now on.

        Raises:
            CredentialsError: it has no value, or one that cannot stand in a request header.
        """
        value = self.setting(source, name)
        self.redactor.add(value)
        return value

    def setting(self, source: str, name: str) -> str:
        """Return a value that is no secret (a team's name, a region). Raises CredentialsError as `secret` does."""
        value = self._values.get(name, "").strip()
        if not value:
            raise CredentialsError(
                source,
                f"needs {name}",
                f"Set the environment variable {name}, or a line in the file named by {FILE_VARIABLE}.",
            )
        if not value.isprintable() or not value.isascii():
            raise CredentialsError(
                source, f"{name} holds characters that no key has", "Copy it again, without line breaks."
            )
        return value

    def optional(self, name: str, default: str = "") -> str:
        """Return a value that may be missing; hidden like a secret when its name says that it is one."""
        value = self._values.get(name, "").strip()
        if value and any(part in name for part in ("KEY", "TOKEN", "SECRET")):
            self.redactor.add(value)
        return value or default

    def __repr__(self) -> str:
        return f"Credentials({len(self._values)} values)"


def read_credentials_file(path: Path) -> dict[str, str]:
    """Read NAME = "value" lines of a TOML file that only its owner may read. Raises CredentialsError."""

    def refuse(what: str, do: str) -> CredentialsError:
        return CredentialsError(FILE_VARIABLE, f"{path} {what}", do)

    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise refuse("is not a file", "Name a TOML file.")
            if os.name == "posix" and state.st_mode & 0o077:
                raise refuse(f"can be read by others (mode {stat.S_IMODE(state.st_mode):o})", f"Run: chmod 600 {path}")
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise refuse(f"cannot be read ({error.strerror})", "Name a TOML file that you own.") from None
    if len(text) > MAX_FILE_BYTES:
        raise refuse("is too large for a credentials file", 'Keep only NAME = "value" lines in it.')
    try:
        table = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # The parser's message can quote the line, and with it the secret.
        raise refuse("is not TOML", 'Write one NAME = "value" a line.') from None
    wrong = sorted(name for name, value in table.items() if not isinstance(value, str))
    if wrong:
        raise refuse(f"has values that are not text: {', '.join(wrong)}", 'Write one NAME = "value" a line.')
    return {str(name): str(value) for name, value in table.items()}
