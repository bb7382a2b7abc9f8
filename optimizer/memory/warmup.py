"""What an engine needs beside its memory budget before it serves: graphs, the sampler's warm-up, kernels' buffers.

vLLM sizes its cache so that the budget is full, then captures graphs and warms its sampler up in what the memory
fraction left free. Too high a fraction fails there, after the cache was allocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalogs.model_spec import ModelSpec
from optimizer.engines import engine_version
from optimizer.memory.eras import GRAPHS_IN_BUDGET_SINCE, V1_SINCE
from optimizer.memory.policy import GIB
from optimizer.split import Split

LOGITS_BYTES = 4  # logits are FP32 when they are sampled from: 1,024 x 201,088 x 4 B are the 786 MiB of a vLLM report
GRAPHS_V0 = 0.2 * GIB  # one graph per batch size; logs of vLLM 0.4 to 0.7 say 0.2 to 0.4 GiB
GRAPHS_V1 = 0.6 * GIB  # a graph per batch size and piece between attention layers
GRAPHS_BEYOND_ESTIMATE = 0.1 * GIB  # since 0.21 graphs are estimated inside the budget
# Beyond two GPUs without NVLink vLLM has no all-reduce of its own, and each graph holds NCCL's buffers; with experts'
# workspaces beside them both reports of graphs that did not fit are of MoE models. Four A10 (Qwen3 30B A3B, vLLM
# 0.8.5) ran out of the 2.2 GiB outside the budget in graph capture
# (https://github.com/vllm-project/vllm/issues/17469, 2025-04-29); eight RTX PRO 4500 (gpt-oss-120b, 0.28) were 1.37 GiB
# over their budget when they ran out (https://github.com/vllm-project/vllm/issues/51590, 2026-09-21).
GRAPHS_OVER_PCIE = 2.3 * GIB
GRAPHS_OVER_PCIE_BEYOND_ESTIMATE = 1.4 * GIB
PCIE_RANKS_WITH_OWN_ALL_REDUCE = 2
# What MXFP4 experts take for a step's tokens beyond the profiled sampler, per token and over TP. gpt-oss-120b on H100,
# vLLM 0.10.1: 65.97 GiB of weights and -2.14 GiB for the cache, so 4.2 GiB for 8,192 tokens
# (https://github.com/vllm-project/vllm/issues/23278, 2025-08-20); gpt-oss-20b, 0.19: 4.1 GiB beside the budget of 0.95
# (llm-d-planner, 2026-04-22).
MXFP4_TOKEN_BYTES = 0.54e6
MXFP4_IN_PROFILE_UNTIL = (0, 15)
# Qwen's towers take images of any size; vLLM profiles the largest, 16,384 tokens of 2 x 2 patches, beside the language
# model: 65,536 patches x 1,152 wide x 14 B are 1.06e9 B. A 64-layer hybrid with 256 sequences profiled 2.2 GiB at 2,048
# tokens where its sampler explains 1.0 (https://github.com/vllm-project/vllm/issues/52872, 2026-08-19).
LARGEST_IMAGE = 65_536 * 1152 * 14.0
DYNAMIC_TOWERS = ("qwen2_5_vl", "qwen3_vl", "qwen3_5")
# Sparse latent attention on ROCm: 0.85 of 192 GB runs on MI300X and 0.90 does not, so between 19 and 29 GiB
# (https://github.com/vllm-project/recipes/issues/830, 2026-08-20).
SPARSE_ON_ROCM = 24 * GIB


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Bytes per GPU that must be free outside the budget, by cause."""

    causes: Mapping[str, float]

    @property
    def need_bytes(self) -> float:
        """All causes together."""
        return sum(self.causes.values())


def mxfp4_step_bytes(model: ModelSpec, split: Split, max_batched_tokens: int) -> float:
    """Return what MXFP4 experts take for one step beyond the activations that Footprint counts; 0 without any."""
    stored = dict(model.checkpoint.other_formats).get("experts", split.weights)
    if not model.is_moe or stored != "mxfp4":
        return 0.0
    return MXFP4_TOKEN_BYTES * max_batched_tokens / split.tp


def profiled_extra_bytes(engine: str, model: ModelSpec, split: Split, max_batched_tokens: int) -> float:
    """Return what the profile of vLLM's V1 sees beyond the activations that Footprint counts, out of its budget.

    MXFP4 experts before 0.15 (mxfp4_step_bytes), and the largest image through a tower of dynamic resolution.
    """
    name, version = engine_version(engine)
    if name != "vllm" or (version and version < V1_SINCE):
        return 0.0
    tower = LARGEST_IMAGE if model.vision_parameters and model.architecture.startswith(DYNAMIC_TOWERS) else 0.0
    return tower + (mxfp4_step_bytes(model, split, max_batched_tokens) if _mxfp4_is_profiled(version) else 0.0)


def _mxfp4_is_profiled(version: tuple[int, ...]) -> bool:
    return bool(version) and version < MXFP4_IN_PROFILE_UNTIL


def warm_up(
    engine: str,
    model: ModelSpec,
    split: Split,
    *,
    linked: bool,
    rocm: bool = False,
    max_batched_tokens: int,
    max_sequences: int,
) -> WarmUp:
    """Return what vLLM needs outside its budget; nothing for engines whose fractions leave it by design.

    Args:
        engine: name and version, as "vllm@0.19".
        model: the model.
        split: the layout.
        linked: whether the GPUs of a stage have NVLink or the like between them.
        rocm: whether they are AMD's.
        max_batched_tokens: tokens one step may process.
        max_sequences: requests one step may sample for.
    """
    name, version = engine_version(engine)
    if name != "vllm":
        return WarmUp({})
    if version and version < V1_SINCE:
        return WarmUp({"graphs": GRAPHS_V0})
    inside = not version or version >= GRAPHS_IN_BUDGET_SINCE
    over_pcie = not linked and model.is_moe and split.tp * split.attention_dp > PCIE_RANKS_WITH_OWN_ALL_REDUCE
    if over_pcie:
        graphs = GRAPHS_OVER_PCIE_BEYOND_ESTIMATE if inside else GRAPHS_OVER_PCIE
    else:
        graphs = GRAPHS_BEYOND_ESTIMATE if inside else GRAPHS_V1
    causes = {"graphs": graphs, "sampler": float(max_sequences * model.vocab_size * LOGITS_BYTES)}
    experts = mxfp4_step_bytes(model, split, max_batched_tokens)
    if experts and not _mxfp4_is_profiled(version):
        causes["mxfp4 kernels"] = experts
    if rocm and any(layer.attention.indexer_heads for layer, _ in model.layer_counts):
        causes["sparse attention on ROCm"] = SPARSE_ON_ROCM
    return WarmUp(causes)
