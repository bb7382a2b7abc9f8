"""Commands that take a shell: something has to be done, or worked out, before the engine starts."""

from __future__ import annotations

import re
import shlex

PLACEHOLDERS = ("$LEADER_ADDRESS", "$NODE_RANK", "$HOSTS")
_PLACEHOLDER = re.compile("(" + "|".join(map(re.escape, PLACEHOLDERS)) + ")")


def in_shell(command: tuple[str, ...], *, before: str = "", arithmetic: str = "") -> tuple[str, ...]:
    """Return a command that runs another one in bash, every argument quoted.

    Placeholders stay as they are, whether a target fills in their values or sets variables of their names.

    Args:
        command: program and arguments.
        before: what runs first; the command runs only where it succeeds.
        arithmetic: an argument that bash works out.
    """
    said = " ".join(word if word == arithmetic else quoted(word) for word in command)
    return ("bash", "-c", f"{before} && exec {said}" if before else f"exec {said}")


def quoted(word: str) -> str:
    """Quote an argument for bash, with placeholders left to be variables."""
    parts = [part for part in _PLACEHOLDER.split(word) if part]
    if not any(part in PLACEHOLDERS for part in parts):
        return shlex.quote(word)
    return "".join(f'"{part}"' if part in PLACEHOLDERS else shlex.quote(part) for part in parts)
