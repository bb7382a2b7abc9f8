"""One report's memory: weights, the cache that is left, and whether the engine gets through its start-up."""

from __future__ import annotations

from dataclasses import dataclass

from catalogs.models import ModelSpec
from optimizer.memory import Footprint, MemoryPolicy, footprint, kv_budget_bytes
from optimizer.memory.cache_log import CacheLog, cache_log
from optimizer.memory.engine_weights import engine_weights_extra_bytes
from optimizer.memory.eras import batch_defaults, default_fraction, gathered_graphs_bytes
from optimizer.memory.warmup import WarmUp, profiled_extra_bytes, warm_up
from optimizer.split import Split
from optimizer.validate.engines import Engine
from optimizer.validate.gpus import Card

GIB = 2.0**30
OUT_OF_WARM_UP = "out of memory in warm-up"
ASSUMED_CONTEXT = 8192  # where a report gives no length, one request of this many tokens must fit
PLAIN_SHARE = 0.95  # engines whose memory is not modelled: weights and one request within this share of the GPU
# vLLM before 0.4 ran AWQ matrices with eight partial sums of all profiled tokens (awq_gemm, split_k_iters = 8), and
# each Mixtral expert, whole on its GPU, over all of them; its profile counted what the allocator kept, used or not.
# Seen on 24 GB cards: https://github.com/vllm-project/vllm/issues/2382, 2024-01-08.
AWQ_PARTIAL_SUMS = 8
UNMODELLED_PROFILE_BEFORE = (0, 4)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a report runs: model and split, on which GPU, under which engine and limits."""

    model: ModelSpec
    split: Split
    card: Card
    engine: Engine
    gpus: int
    memory_bytes: float
    fraction: float | None
    max_model_len: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """One GPU of a layout.

    Attributes:
        log: what the engine's log would say; None for engines that are not modelled.
        budget_bytes: what is left for the cache; negative where weights do not fit.
        outside_bytes: what the memory fraction leaves free, and `warm_up` what is needed of it.
        need_tokens: tokens of the one request that must fit.
        fraction, max_batched_tokens, max_sequences: limits, as given or the engine's defaults.
    """

    held: Footprint
    weights_bytes: float
    budget_bytes: float
    outside_bytes: float
    warm_up: WarmUp
    log: CacheLog | None
    need_tokens: int
    fraction: float
    max_batched_tokens: int
    max_sequences: int

    @property
    def problem(self) -> str:
        """Why it does not start; "" when it does."""
        if self.budget_bytes <= 0:
            lacking = f"{-self.budget_bytes / GIB:.2f} GiB too little at a fraction of {self.fraction:g}"
            return f"no memory left for the KV cache: {lacking}"
        if self.log is not None and self.log.max_concurrency * self.need_tokens < self.need_tokens:
            return f"the KV cache holds {self.log.kv_tokens:,} tokens, less than one request of {self.need_tokens:,}"
        if (
            self.log is None
            and self.need_tokens
            and self.budget_bytes < self.held.kv_bytes_per_sequence(float(self.need_tokens))
        ):
            return f"no room for the KV cache of one request of {self.need_tokens:,} tokens"
        if self.warm_up.need_bytes > self.outside_bytes:
            causes = ", ".join(f"{cause} {size / GIB:.2f}" for cause, size in self.warm_up.causes.items())
            return (
                f"{OUT_OF_WARM_UP}: {self.warm_up.need_bytes / GIB:.2f} GiB needed outside the budget ({causes}), "
                f"{self.outside_bytes / GIB:.2f} left by a fraction of {self.fraction:g}; lower it, or run eager"
            )
        return ""


def estimate(layout: Layout) -> Estimate:
    """Return the memory of one GPU of a layout, as its engine of that time would have it."""
    if layout.engine.name == "other":
        return _plain(layout)
    model, split, spec = layout.model, layout.split, layout.engine.spec
    longest = layout.max_model_len or model.max_context_tokens
    tokens, sequences = batch_defaults(spec, layout.card.name, layout.memory_bytes, longest)
    fraction = layout.fraction or default_fraction(spec, layout.memory_bytes, layout.gpus)
    held = footprint(model, split, max_batched_tokens=tokens, max_sequences=sequences)
    weights = held.weights_bytes + engine_weights_extra_bytes(spec, model, split, layout.card.generation)
    activations = held.activation_bytes + profiled_extra_bytes(spec, model, split, tokens) + _old_awq(layout, tokens)
    policy = MemoryPolicy("engine", gpu_memory_utilization=min(fraction, 1.0), engine=spec)
    budget = float(kv_budget_bytes(policy, layout.memory_bytes, weights, activations, ranks=held.ranks))
    budget -= gathered_graphs_bytes(spec, split.attention_dp, split.ep)
    need = layout.max_model_len or min(model.max_context_tokens, ASSUMED_CONTEXT)
    return Estimate(
        held=held,
        weights_bytes=weights,
        budget_bytes=budget,
        outside_bytes=layout.memory_bytes * (1 - fraction),
        warm_up=warm_up(
            spec,
            model,
            split,
            linked=layout.card.linked,
            rocm=layout.card.capability.startswith("gfx"),
            max_batched_tokens=tokens,
            max_sequences=sequences,
        ),
        log=cache_log(held, budget, engine=spec, max_model_len=need, max_batched_tokens=tokens),
        need_tokens=need,
        fraction=fraction,
        max_batched_tokens=tokens,
        max_sequences=sequences,
    )


def _plain(layout: Layout) -> Estimate:
    held = footprint(layout.model, layout.split)
    fraction = layout.fraction or PLAIN_SHARE
    budget = layout.memory_bytes * fraction - held.weights_bytes
    need = layout.max_model_len or min(layout.model.max_context_tokens, ASSUMED_CONTEXT)
    return Estimate(held, held.weights_bytes, budget, 0.0, WarmUp({}), None, need, fraction, 0, 0)


def profile_is_modelled(engine: Engine) -> bool:
    """Whether the KV tokens of this engine's log follow from what is modelled."""
    return engine.name != "other" and not (
        engine.name == "vllm" and bool(engine.version) and engine.version < UNMODELLED_PROFILE_BEFORE
    )


def _old_awq(layout: Layout, tokens: int) -> float:
    model, engine = layout.model, layout.engine
    if profile_is_modelled(engine) or engine.name == "other" or layout.split.weights != "int4":
        return 0.0
    whole = max(model.expert_widths, default=0)
    widest = max(whole, max(model.dense_widths, default=0) // layout.split.tp)
    return float(AWQ_PARTIAL_SUMS * tokens * widest * 2)
