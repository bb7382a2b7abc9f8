"""What an engine has to be told, in no engine's words, and a flag in an engine's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag as it is typed; a switch has no value."""

    name: str
    value: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments that it is on a command line."""
        return (self.name,) if self.value is None else (self.name, self.value)

    def __str__(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Serving:
    """One replica, as an engine has to run it.

    Attributes:
        engine: "vllm", "sglang" or "trtllm".
        version: its release as numbers; empty stands for the newest known.
        model_name: for notes to people.
        weights, kv_cache: formats that the layout is counted in.
        checkpoint_weights, checkpoint_kv_cache: formats that the checkpoint asks for.
        tp, pp, ep, attention_dp: the split (see optimizer.split.Split).
        max_model_len_tokens: the longest request, prompt and answer.
        max_sequences: requests at once on the whole replica.
        max_batched_tokens: tokens that one step of an attention rank may process.
        gpu_memory_fraction: what the engine is told to take of a GPU's memory.
    """

    engine: str
    version: tuple[int, ...]
    model_name: str
    weights: str
    kv_cache: str
    checkpoint_weights: str
    checkpoint_kv_cache: str
    tp: int
    pp: int
    ep: int
    attention_dp: int
    max_model_len_tokens: int
    max_sequences: int
    max_batched_tokens: int
    gpu_memory_fraction: float

    @property
    def sequences_per_rank(self) -> int:
        """Requests at once on one attention rank."""
        return max(1, ceil(self.max_sequences / self.attention_dp))

    @property
    def stage_gpus(self) -> int:
        """GPUs of one pipeline stage."""
        return self.tp * self.attention_dp

    @property
    def step_tokens(self) -> int:
        """Tokens that one step of a rank may process; engines want at least one for each request."""
        return max(self.max_batched_tokens, self.sequences_per_rank)


def arguments(flags: Iterable[Flag]) -> tuple[str, ...]:
    """Return flags as arguments of a command line."""
    return tuple(word for flag in flags for word in flag.words)
