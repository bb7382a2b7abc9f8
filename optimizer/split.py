"""Split: how one replica of a model is divided over GPUs, and in which precision it is held."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Split:
    """One way to hold a model on the GPUs of one replica.

    Attributes:
        weights: weight format ("bf16", "fp8", "int4", ...).
        kv_cache: KV cache dtype ("bf16", "fp8", ...).
        tp: tensor parallel size: GPUs that share every matrix of a stage.
        pp: pipeline stages.
        ep: GPUs that the routed experts are divided over as whole experts; 1 slices experts by `tp` instead.
        attention_dp: attention data-parallel ranks inside the replica; each holds the KV cache of its own requests.
    """

    weights: str
    kv_cache: str
    tp: int
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.attention_dp
