"""A question as a link: a short text in the address, which a page that is opened with it reads back.

A link may come from anyone. It is bounded before and after it is unpacked, and what it says is checked as what a user
types is.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any

from optimizer.errors import QuestionError
from optimizer.web.page.fields import Question

MOST_CHARACTERS = 4000  # of a link's text; addresses beyond about 8,000 are refused by servers on the way
MOST_BYTES = 32_000  # unpacked
MOST_DEPTH = 8


def encode(question: Mapping[str, Any]) -> str | None:
    """Return the text that stands for a question; None where it would be too long for a link."""
    said = json.dumps(question, separators=(",", ":"), sort_keys=True, ensure_ascii=False, default=str).encode()
    if len(said) > MOST_BYTES:
        return None
    text = base64.urlsafe_b64encode(zlib.compress(said, 9)).rstrip(b"=").decode()
    return text if len(text) <= MOST_CHARACTERS else None


def decode(text: str) -> Question:
    """Return the question that a link's text stands for; its fields are still to be checked.

    Raises:
        QuestionError: it is no such text.
    """
    if len(text) > MOST_CHARACTERS:
        raise QuestionError(f"the link's question is longer than {MOST_CHARACTERS:,} characters; copy the link anew")
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        said = unpacker.decompress(packed, MOST_BYTES + 1)
        whole = unpacker.eof and not unpacker.unused_data and len(said) <= MOST_BYTES
        question = json.loads(said, parse_constant=_refuse) if whole else None
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        question = None
    if not isinstance(question, dict) or _depth(question) > MOST_DEPTH:
        raise QuestionError("the link's question cannot be read: it is cut off or altered; copy the link anew")
    return question


def _refuse(name: str) -> None:
    raise ValueError(name)


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)
