"""What a user says of launch files beside the plan."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from optimizer.engines import engine_version
from optimizer.fields import Part, whole

LABEL_LENGTH = 40  # of a DNS label's 63, so that a suffix still fits


def _matching(pattern: str, expected: str) -> BeforeValidator:
    """Accept text that matches a pattern as a whole."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or re.fullmatch(pattern, value) is None:
            raise ValueError(f"expected {expected}")
        return value

    return BeforeValidator(check)


class ExportOptions(Part):
    """What `shardwise export` is told.

    Attributes:
        engine: "vllm", "sglang" or "trtllm"; the plan's own when not given.
        engine_version: its release; the plan's own, or the newest known.
        model: name or folder of the checkpoint to load, where it is not the plan's.
        port: where the first replica of a node serves.
        name: what the deployments are called; from the model when not given.
        image: a container image instead of the engine's own.
        trust_remote_code: let the engine run code that comes with the checkpoint.
    """

    engine: Literal["vllm", "sglang", "trtllm"] | None = None
    engine_version: str | None = None
    model: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    port: Annotated[int, whole(1, 65_000)] = 8000
    name: (
        Annotated[
            str,
            _matching(
                rf"[a-z]([-a-z0-9]{{0,{LABEL_LENGTH - 2}}}[a-z0-9])?",
                f"small letters, digits and dashes, at most {LABEL_LENGTH}, the first a letter and the last no dash",
            ),
        ]
        | None
    ) = None
    image: (
        Annotated[str, _matching(r"[A-Za-z0-9][\w./:@-]{0,499}", "a container image such as vllm/vllm-openai:v0.33.0")]
        | None
    ) = None
    trust_remote_code: bool = False

    @field_validator("engine_version")
    @classmethod
    def _is_a_version(cls, version: str | None) -> str | None:
        if version is not None:
            try:
                engine_version(f"vllm@{version}")
            except ValueError:
                raise ValueError("expected a release such as 0.33.0") from None
        return version
