"""What one request asks, and how long and how much it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fetchers.bodies import Expect
from fetchers.pulls import RawPart
from fetchers.targets import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how much one request may take.

    Attributes:
        connect_s: time to connect.
        read_s: longest silence while waiting for an answer or for more of it.
        total_s: time for the request with its retries, pauses and redirects.
        max_bytes: size of the decompressed answer.
        tries: how often the request is sent at most.
        first_pause_s, longest_pause_s: pause before the second try, doubled for each further one, less up to half.
        longest_retry_after_s: the longest pause that a server may ask for; one that asks for more is left alone.
        redirects: how many are followed.
    """

    connect_s: float = 10.0
    read_s: float = 30.0
    total_s: float = 300.0
    max_bytes: int = 100_000_000
    tries: int = 4
    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    longest_retry_after_s: float = 60.0
    redirects: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to one source."""

    origin: Origin
    label: str
    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    expect: Expect = "json"
    previous: RawPart | None = None
    from_answer: bool = False
