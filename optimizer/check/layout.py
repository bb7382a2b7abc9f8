"""Rules on the split of a replica and the node it lies on. One function per rule, named as the rule."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.check.audit import Audit, exceeds
from optimizer.check.floors import least_kv_bytes, least_weight_bytes
from optimizer.divisibility import check_split
from optimizer.memory import breakdown, memory_policy
from optimizer.memory.footprint import DEFAULT_SEQUENCES
from optimizer.memory.warmup import warm_up
from optimizer.plan import MemoryUse

GIB = 2**30


def gpu_allowed(audit: Audit) -> Iterator[str]:
    """The GPU is one that the scenario allows."""
    gpu, limits = audit.layout.gpu, audit.scenario.limits
    if limits.gpus and gpu not in limits.gpus:
        yield f"{gpu} is not one of {', '.join(limits.gpus)}"
    if gpu in limits.exclude_gpus:
        yield f"{gpu} is excluded"


def weights_allowed(audit: Audit) -> Iterator[str]:
    """The weight format is one that the scenario allows."""
    allowed = audit.scenario.limits.weights
    own = audit.model.checkpoint.weights
    named = {own if name == "checkpoint" else name for name in allowed}
    if "any" not in named and audit.layout.weights not in named:
        yield f"{audit.layout.weights} is not one of {', '.join(allowed)} (the checkpoint is {own})"


def kv_cache_allowed(audit: Audit) -> Iterator[str]:
    """The KV cache dtype is one that the scenario allows."""
    allowed, checkpoint = audit.scenario.limits.kv_cache, audit.model.checkpoint
    own = checkpoint.kv_cache or checkpoint.dtype
    default = "bf16" if own == "fp32" else own
    if default == "bf16" and audit.gpu is not None and not audit.gpu.kv_cache_support("bf16"):
        default = "fp16"  # a GPU without BF16 runs the model in FP16
    named = {default if name == "auto" else name for name in allowed}
    if "any" not in named and audit.layout.kv_cache not in named:
        yield f"{audit.layout.kv_cache} is not one of {', '.join(allowed)} (the checkpoint's is {own})"


def sizes_allowed(audit: Audit) -> Iterator[str]:
    """Parallel sizes are ones that the scenario allows."""
    for size in ("tp", "pp", "ep", "attention_dp"):
        allowed, used = getattr(audit.scenario.limits, size), getattr(audit.layout, size)
        if allowed and used not in allowed:
            yield f"{size} {used} is not one of {', '.join(map(str, allowed))}"


def dtype_supported(audit: Audit) -> Iterator[str]:
    """The GPU runs this weight format and KV cache dtype."""
    layout, gpu = audit.layout, audit.gpu
    if gpu is None:
        yield f"nothing is known of {layout.gpu}"
        return
    if gpu.weight_support(layout.weights) == "none":
        yield f"{layout.gpu} runs no {layout.weights} weights"
    if not gpu.kv_cache_support(layout.kv_cache):
        yield f"{layout.gpu} keeps no {layout.kv_cache} KV cache"


def attention_dp_divisible(audit: Audit) -> Iterator[str]:
    """Attention data parallelism is for MoE models, whose experts it shares."""
    if audit.layout.attention_dp > 1 and not any(layer.mlp.experts for layer in audit.kinds_of_layer):
        yield f"attention_dp {audit.layout.attention_dp} on a model without experts"


def layers_over_stages(audit: Audit) -> Iterator[str]:
    """Every pipeline stage holds at least one layer."""
    layers, stages = len(audit.model.layers), audit.layout.pp
    if stages > layers:
        yield f"{layers} layers cannot fill {stages} stages"


def heads_divisible(audit: Audit) -> Iterator[str]:
    """Attention heads divide over the tensor parallel GPUs; KV heads divide or are repeated evenly."""
    tp = audit.layout.tp
    mixers = [layer.attention for layer in audit.kinds_of_layer]
    for heads in sorted({heads for mixer in mixers for heads in (mixer.query_heads, mixer.state_heads) if heads}):
        if heads % tp:
            yield f"{heads} heads do not divide over tp {tp}"
    for heads in sorted({mixer.kv_heads for mixer in mixers if mixer.kv_heads}):
        if heads % tp and tp % heads:
            yield f"{heads} KV heads neither divide over tp {tp} nor repeat evenly on it"


def ffn_divisible(audit: Audit) -> Iterator[str]:
    """The MLP width divides over the GPUs that slice it; experts dealt out whole are not sliced."""
    layout = audit.layout
    over_experts = layout.tp * layout.attention_dp if layout.ep == 1 else 1
    slices = set()
    for layer in audit.kinds_of_layer:
        slices.add((layer.mlp.intermediate_size, layout.tp if layer.mlp.kind == "dense" else over_experts))
        slices.add((layer.mlp.shared_intermediate_size, layout.tp))
    for width, parts in sorted(slices):
        if width % parts:
            yield f"an MLP width of {width} does not divide over {parts} GPUs"


def vocabulary_divisible(audit: Audit) -> Iterator[str]:
    """The vocabulary, padded to a multiple of 64, divides over the tensor parallel GPUs."""
    padded = -(-audit.model.vocab_size // 64) * 64
    if padded % audit.layout.tp:
        yield f"a vocabulary of {audit.model.vocab_size} (padded to {padded}) does not divide over tp {audit.layout.tp}"


def experts_divisible(audit: Audit) -> Iterator[str]:
    """Whole experts are dealt out evenly, over every GPU of a stage."""
    layout = audit.layout
    stage = layout.tp * layout.attention_dp
    if layout.ep == 1:
        return
    if layout.ep != stage:
        yield f"ep {layout.ep} is neither 1 nor the {stage} GPUs of a stage"
    counts = sorted({layer.mlp.experts for layer in audit.kinds_of_layer if layer.mlp.experts})
    if not counts:
        yield f"ep {layout.ep} on a model without experts"
    for experts in counts:
        if experts % layout.ep:
            yield f"{experts} experts do not divide over ep {layout.ep}"


def quantization_blocks(audit: Audit) -> Iterator[str]:
    """Each GPU's slice holds whole quantization blocks."""
    for refusal in check_split(audit.model, audit.split):
        if refusal.rule == "quantization_blocks":
            yield f"engines need {refusal.needs}"


def tp_scale_up(audit: Audit) -> Iterator[str]:
    """A tensor parallel group, with the attention ranks that share its experts, lies inside one node."""
    layout = audit.layout
    stage = layout.tp * layout.attention_dp
    if stage > layout.gpus_per_node and not audit.scenario.limits.tp_across_nodes:
        yield f"a stage of {stage} GPUs does not lie inside a node of {layout.gpus_per_node}"
    elif audit.nodes_spanned > 1 and layout.gpus_per_node % min(stage, layout.gpus_per_node):
        yield f"stages of {stage} GPUs do not fill nodes of {layout.gpus_per_node}, so one would cross"


def network_known(audit: Audit) -> Iterator[str]:
    """A replica spans nodes only where the network between them is known."""
    layout = audit.layout
    if audit.nodes_spanned > 1 and (layout.network == "unknown" or not layout.network_gbit_per_s):
        yield f"a replica spans {audit.nodes_spanned} nodes and the network between them is not known"


def nodes_per_replica(audit: Audit) -> Iterator[str]:
    """A replica spans no more nodes than allowed."""
    most = audit.scenario.limits.max_nodes_per_replica
    if audit.nodes_spanned > max(1, most):
        yield f"a replica spans {audit.nodes_spanned} nodes, {most} are allowed"


def context_length(audit: Audit) -> Iterator[str]:
    """A request's context is within the model's."""
    held, most = audit.scenario.workload.held_tokens, audit.model.max_context_tokens
    if held > most:
        yield f"a request holds {held:,} tokens, the model takes {most:,}"


def vram_headroom(audit: Audit) -> Iterator[str]:
    """Weights, KV cache and overhead of the fullest GPU fit in its memory with headroom."""
    if audit.gpu is None or any(layers_over_stages(audit)):
        return
    what = f"{audit.requests_per_rank:,} requests of {audit.scenario.workload.held_tokens:,} tokens per GPU"
    need, available = need_and_available_gib(audit, audit.gpu.memory_gib)
    if exceeds(need, available):
        yield f"{what} need {need:.2f} GiB of {available:.2f} GiB"
    floor = least_need_gib(audit)
    if exceeds(floor, available):
        yield f"{what} need at least {floor:.2f} GiB by weights and cache alone, of {available:.2f} GiB"
    beside, outside = _warm_up_gib(audit), audit.gpu.memory_gib * (1 - audit.scenario.memory.gpu_memory_utilization)
    if audit.scenario.memory.policy == "engine" and exceeds(beside, outside):
        yield f"the engine needs {beside:.2f} GiB beside its memory fraction to start, {outside:.2f} GiB are left"
    at_once, most = audit.layout.concurrency_per_replica, audit.scenario.limits.max_concurrency_per_replica
    if at_once > most:
        yield f"a replica runs {at_once:,} requests at once, {most:,} are allowed"


def _warm_up_gib(audit: Audit) -> float:
    layout, memory = audit.layout, audit.scenario.memory
    needs = warm_up(
        memory.engine,
        audit.model,
        audit.split,
        linked=layout.tp * layout.attention_dp <= layout.scale_up_gpus,
        rocm=audit.gpu is not None and audit.gpu.vendor == "amd",
        max_batched_tokens=memory.max_batched_tokens,
        max_sequences=DEFAULT_SEQUENCES,
    )
    return needs.need_bytes / GIB


def need_and_available_gib(audit: Audit, gpu_memory_gib: float) -> tuple[float, float]:
    """Return what the fullest GPU needs and what it has: by the planner's inequality, or as the engine would do it."""
    asked = audit.scenario.memory
    if asked.policy == "engine":
        use = memory_use(audit)
        return use.need_gib, use.available_gib
    cache = audit.requests_per_rank * audit.held.kv_bytes_per_sequence(float(audit.scenario.workload.held_tokens))
    need = (audit.held.weights_bytes + cache) * (1 + asked.overhead) / GIB
    return need, gpu_memory_gib * (1 - asked.headroom)


def memory_use(audit: Audit) -> MemoryUse:
    """Work out one GPU's memory anew, by cause."""
    policy = memory_policy(audit.scenario.memory)
    gpu_bytes = audit.gpu.memory_bytes if audit.gpu is not None else 0.0
    return breakdown(policy, gpu_bytes, audit.held, audit.requests_per_rank, audit.scenario.workload.held_tokens)


def least_need_gib(audit: Audit) -> float:
    """Return what weights and cache of a GPU need at least, with the framework policy's overhead where it applies."""
    memory = audit.scenario.memory
    cache = audit.requests_per_rank * least_kv_bytes(audit.model, audit.split, audit.scenario.workload.held_tokens)
    held = least_weight_bytes(audit.model, audit.split) + cache
    return held * (1 + memory.overhead if memory.policy == "framework" else 1.0) / GIB
