"""Arguments in the words of what runs them: placeholders filled in, everything else escaped.

Where a replica spans nodes, an argument may hold $LEADER_ADDRESS and $NODE_RANK (see deployment.Process). Each target
has words of its own for these two, and its own way to write a dollar sign that is just that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Final

from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, Process

LEADER_ADDRESS: Final = "LEADER_ADDRESS"
NODE_RANK: Final = "NODE_RANK"
_PLACEHOLDER: Final = re.compile(rf"\$({LEADER_ADDRESS}|{NODE_RANK})\b")
_INDENT: Final = "  "


def filled(process: Process, words: Mapping[str, str], escape: Callable[[str], str]) -> list[str]:
    """Return the command of a process in a target's words.

    Args:
        process: what is run; "server" on its own node has no placeholders, whatever its arguments look like.
        words: what stands for LEADER_ADDRESS and NODE_RANK.
        escape: makes everything else what it is.
    """
    return ["".join(_filled(argument, process, words, escape)) for argument in process.command]


def _filled(argument: str, process: Process, words: Mapping[str, str], escape: Callable[[str], str]) -> list[str]:
    if process.role == "server":
        return [escape(argument)]
    # Every second piece is the name of a placeholder.
    pieces = _PLACEHOLDER.split(argument)
    return [words[piece] if index % 2 else escape(piece) for index, piece in enumerate(pieces)]


def doubled_dollars(text: str) -> str:
    """Write dollar signs as Docker Compose and Kubernetes read a dollar sign that is just that."""
    return text.replace("$", "$$")


def shell_command(process: Process) -> str:
    """Return the command as people write it in a shell: a flag a line; placeholders are variables of those names."""
    words = {name: f'"${name}"' for name in (LEADER_ADDRESS, NODE_RANK)}
    quoted = filled(process, words, lambda text: shlex.quote(text) if text else "")
    lines: list[list[str]] = [[]]
    for argument, word in zip(process.command, quoted, strict=True):
        if argument.startswith("-") and lines != [[]] and not _is_script(lines[-1], argument):
            lines.append([])
        lines[-1].append(word or "''")
    return f" \\\n{_INDENT}".join(" ".join(line) for line in lines)


def _is_script(line: list[str], argument: str) -> bool:
    """Whether this is the `-c` of a shell, which stays beside it."""
    return len(line) == 1 and argument in {"-c", "-ec", "-lc", "-m"}


def serving_on(process: Process, deployment: Deployment, port: int) -> Process:
    """Return the process with another port to serve on.

    Raises:
        QuestionError: its command names no port, so that it cannot be moved.
    """
    if port == deployment.launch.port or not process.ready_path:
        return process
    command = list(process.command)
    old = str(deployment.launch.port)
    for index, argument in enumerate(command):
        if argument == "--port" and command[index + 1 : index + 2] == [old]:
            command[index + 1] = str(port)
            return Process(process.role, tuple(command), process.ready_path)
    said = re.compile(rf" --port {old}(?= |$)")
    if command[:2] == ["bash", "-c"] and len(said.findall(command[2])) == 1:
        script = said.sub(f" --port {port}", command[2])
        return Process(process.role, (*command[:2], script, *command[3:]), process.ready_path)
    raise QuestionError(f"{deployment.name}: its command names no --port {old} to change to {port}")
