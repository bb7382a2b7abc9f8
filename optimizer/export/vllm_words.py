"""The words of a vLLM command: found in what a person pastes, split as a shell would, and never run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from optimizer.errors import QuestionError

MAX_CHARACTERS = 100_000
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_OPERATORS = set("();<>|&")
_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)*[\w.-]*vllm[\w./-]*(?::([\w.-]+))?(?:@sha256:[0-9a-f]+)?")
_IMAGE_VERSION = re.compile(r"v?(\d+(?:\.\d+){1,2})")
EXPECTED = (
    '"vllm serve MODEL --flag ...", "python -m vllm.entrypoints.openai.api_server ..." or "docker run ... IMAGE ..."'
)


@dataclass(frozen=True, slots=True)
class Words:
    """A vLLM command, taken apart.

    Attributes:
        arguments: what vLLM is given, behind `vllm serve` or the image.
        positional_model: the first argument may be the model.
        environment: variables set for it, by `NAME=VALUE`, `env`, `export` or docker's -e.
        image: container image, where there is one.
        version: vLLM's release by the image's tag; empty where it says none.
        left_out: words behind it that are another command's, or a redirection.
    """

    arguments: tuple[str, ...]
    positional_model: bool
    environment: dict[str, str]
    image: str
    version: str
    left_out: tuple[str, ...]


def read_words(text: str) -> Words:
    """Find the vLLM command in a text: an environment before it, a container around it, commands after it.

    Raises:
        QuestionError: it is too long, its quotes are not closed, or it starts no vLLM server.
    """
    words = _split(text)
    start, positional = _server(words)
    image, version, at_image = _image(words if start is None else words[:start])
    if start is None:
        if at_image is None:
            raise QuestionError(f"{_short(text)}: starts no vLLM server; expected {EXPECTED}")
        start, positional = at_image + 1, True
    before, arguments, left = words[:start], list(words[start:]), []
    for number, word in enumerate(arguments):
        if word and set(word) <= _OPERATORS:
            arguments, left = arguments[:number], arguments[number:]
            break
    return Words(tuple(arguments), positional, _environment(before), image, version, tuple(left))


def _split(text: str) -> list[str]:
    """Split as a POSIX shell does, with its operators as words of their own; nothing is expanded."""
    if len(text) > MAX_CHARACTERS:
        raise QuestionError(f"the command has {len(text):,} characters; expected at most {MAX_CHARACTERS:,}")
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\[ \t]*\n", " ", "\n".join(lines))
    # A new line ends a command as a semicolon does.
    lexer = shlex.shlex(_ended(joined), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        raise QuestionError(f"{_short(text)}: cannot be split into words: {str(error).lower()}") from None


def _ended(text: str) -> str:
    """Return the text with new lines outside quotes as semicolons, where a command stands before and after them."""
    found: list[str] = []
    quote, escaped = "", False
    for sign in text.strip():
        if escaped:
            escaped = False
        elif sign == "\\" and quote != "'":
            escaped = True
        elif sign in "'\"":
            quote = "" if sign == quote else quote or sign
        found.append(" ; " if sign == "\n" and not quote else sign)
    return "".join(found)


def _server(words: list[str]) -> tuple[int | None, bool]:
    """Return where the server's own arguments begin, and whether the first may be the model."""
    for number, word in enumerate(words):
        following = words[number + 1] if number + 1 < len(words) else ""
        if word.rsplit("/", 1)[-1] == "vllm" and following == "serve":
            return number + 2, True
        if word == "-m" and following in _MODULES:
            return number + 2, False
        if word in _MODULES or word.endswith("vllm/entrypoints/openai/api_server.py"):
            return number + 1, False
    return None, False


def _image(words: list[str]) -> tuple[str, str, int | None]:
    """Return a container image of vLLM's, the release that its tag names, and where it stands."""
    runs = [number for number, word in enumerate(words) if word in ("run", "create")]
    if not runs or words[runs[0] - 1].rsplit("/", 1)[-1] not in ("docker", "podman", "nerdctl"):
        return "", "", None
    for number in range(runs[0] + 1, len(words)):
        word = words[number]
        if word.startswith("-") or words[number - 1] in ("-v", "--volume", "--name", "-e", "--env", "--mount"):
            continue
        if _ASSIGNMENT.fullmatch(word) is None and (found := _IMAGE.fullmatch(word)) is not None:
            version = _IMAGE_VERSION.match(found[1] or "")
            return word, version[1] if version else "", number
    return "", "", None


def _environment(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, word in enumerate(words):
        said = word
        for flag in ("--env=", "-e="):
            said = said.removeprefix(flag)
        match = _ASSIGNMENT.fullmatch(said)
        # A volume or a label may hold an equals sign too; a variable is set by its own flag, or before the program.
        if match is not None and (number == 0 or not words[number - 1].startswith("-") or _sets(words[number - 1])):
            found[match[1]] = match[2]
    return found


def _sets(flag: str) -> bool:
    return flag in ("-e", "--env")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= 80 else f"{line[:77]}...")
