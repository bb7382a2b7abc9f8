"""What engines demand of a split before they load: heads, widths, vocabulary, experts, blocks and layers divide.

Each rule is a pure function from model and split to a Refusal or None, named as the rule in optimizer.rules. What they
demand is what vLLM's and SGLang's parallel layers check when they are built; the reports each comes from are beside its
test (tests/data/split_cases.csv).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from catalogs.model_precision import storage
from catalogs.model_records import Checkpoint, TensorKind
from catalogs.model_spec import ModelSpec
from optimizer.kept import kept
from optimizer.memory.footprint import VOCABULARY_MULTIPLE
from optimizer.memory.shares import kv_heads_on_gpu
from optimizer.split import Split

NVFP4_GROUP = 16


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an engine does not load a model under a split.

    Attributes:
        rule: name of the rule (optimizer.rules).
        needs: what would have to hold, for people.
        has: the numbers it was decided on.
    """

    rule: str
    needs: str
    has: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Block:
    """A dimension that is sliced and must be whole blocks on each GPU: `label` of `size`, in steps of `multiple`."""

    label: str
    size: int
    multiple: int
    over_experts: bool
    format: str


def check_split(model: ModelSpec, split: Split, *, vision_sliced: bool = False) -> tuple[Refusal, ...]:
    """Return every reason why engines refuse to load `model` under `split`; empty when they do not.

    Args:
        model: the model.
        split: the layout of one replica.
        vision_sliced: refuse a TP that does not divide the vision tower's heads. Off by default: engines now hold the
            tower whole on each GPU then, and optimizer.memory counts it so (vLLM before 0.8 sliced it: issue 8097).

    Raises:
        ValueError: a size of the split is below 1.
        UnknownNameError: the weight format is unknown.
    """
    if min(split.tp, split.pp, split.ep, split.attention_dp) < 1:
        raise ValueError(f"Expected tp, pp, ep and attention_dp of at least 1, got {split}.")
    refusals = [refusal for rule in SPLIT_RULES if (refusal := rule(model, split)) is not None]
    if vision_sliced and (refusal := vision_heads(model, split)) is not None:
        refusals.append(refusal)
    return tuple(refusals)


def attention_dp_divisible(model: ModelSpec, split: Split) -> Refusal | None:
    """Attention data parallelism shares out experts; without experts it is plain replication."""
    if split.attention_dp == 1 or model.is_moe:
        return None
    needs = f"a MoE model: {model.name} is dense, so run {split.attention_dp} replicas instead"
    return Refusal("attention_dp_divisible", needs, {"attention_dp": split.attention_dp, "experts": 0})


def layers_over_stages(model: ModelSpec, split: Split) -> Refusal | None:
    """Every stage holds at least one layer; the count need not divide (vLLM since 0.5.1)."""
    layers = len(model.layers)
    if split.pp <= layers:
        return None
    needs = f"at most {layers} pipeline stages, one layer each"
    return Refusal("layers_over_stages", needs, {"pp": split.pp, "layers": layers})


def heads_divisible(model: ModelSpec, split: Split) -> Refusal | None:
    """Query heads (and heads of linear or mamba states) divide by TP; KV heads do, or are replicated evenly."""
    tp = split.tp
    for heads in model.query_head_counts:
        if heads % tp:
            return _heads("query heads", "query_heads", heads, tp)
    for heads in model.state_head_counts:
        if heads % tp:
            return _heads("state heads", "state_heads", heads, tp)
    for heads in model.kv_head_counts:
        if heads % tp and tp % heads:
            needs = f"{heads} KV heads to divide by tp {tp}, or tp to be a multiple of them"
            return Refusal("heads_divisible", needs, {"kv_heads": heads, "tp": tp})
    return None


def ffn_divisible(model: ModelSpec, split: Split) -> Refusal | None:
    """Dense and shared-expert widths divide by TP; routed experts' too when sliced rather than dealt out whole."""
    for width in model.dense_widths:
        if width % split.tp:
            return _width("MLP width", width, split.tp)
    for width in model.shared_expert_widths:
        if width % split.tp:
            return _width("shared expert width", width, split.tp)
    slices = _expert_slices(split)
    for width in model.expert_widths:
        if width % slices:
            return _width("expert width", width, slices)
    return None


def vocabulary_divisible(model: ModelSpec, split: Split) -> Refusal | None:
    """The vocabulary, padded to a multiple of 64 as vLLM pads it, divides by TP."""
    padded = ceil(model.vocab_size / VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    if padded % split.tp == 0:
        return None
    needs = f"the vocabulary of {model.vocab_size:,} (padded to {padded:,}) to divide by tp {split.tp}"
    return Refusal("vocabulary_divisible", needs, {"vocabulary": model.vocab_size, "padded": padded, "tp": split.tp})


def experts_divisible(model: ModelSpec, split: Split) -> Refusal | None:
    """Expert parallelism deals whole experts evenly over every GPU of a stage."""
    if split.ep == 1:
        return None
    if not model.is_moe:
        needs = f"a MoE model for ep {split.ep}: {model.name} has no experts"
        return Refusal("experts_divisible", needs, {"ep": split.ep, "experts": 0})
    ranks = split.tp * split.attention_dp
    if split.ep != ranks:
        needs = f"ep equal to tp x attention_dp = {ranks} (or 1)"
        return Refusal("experts_divisible", needs, {"ep": split.ep, "tp": split.tp, "attention_dp": split.attention_dp})
    for experts in model.expert_counts:
        if experts % split.ep:
            needs = f"{experts} experts to divide by ep {split.ep}"
            return Refusal("experts_divisible", needs, {"experts": experts, "ep": split.ep})
    return None


def quantization_blocks(model: ModelSpec, split: Split) -> Refusal | None:
    """Each GPU's slice of a quantized matrix is whole blocks (FP8) or groups (INT4, NVFP4). MXFP4 slices are padded."""
    for block in _blocks(model, split.weights):
        slices = _expert_slices(split) if block.over_experts else split.tp
        if slices > 1 and block.size % (slices * block.multiple):
            return _block_refusal(block.label, block.size, slices, block.multiple, block.format)
    return _kv_blocks(model, split)


def vision_heads(model: ModelSpec, split: Split) -> Refusal | None:
    """Heads of a vision tower that is sliced divide by TP."""
    if not model.vision_heads or model.vision_heads % split.tp == 0:
        return None
    return _heads("vision heads", "vision_heads", model.vision_heads, split.tp)


SPLIT_RULES: tuple[Callable[[ModelSpec, Split], Refusal | None], ...] = (
    attention_dp_divisible,
    layers_over_stages,
    heads_divisible,
    ffn_divisible,
    vocabulary_divisible,
    experts_divisible,
    quantization_blocks,
)


def _expert_slices(split: Split) -> int:
    return split.tp * split.attention_dp if split.ep == 1 else 1


def _heads(label: str, key: str, heads: int, tp: int) -> Refusal:
    return Refusal("heads_divisible", f"{heads} {label} to divide by tp {tp}", {key: heads, "tp": tp})


def _width(label: str, width: int, slices: int) -> Refusal:
    needs = f"the {label} of {width:,} to divide over {slices} GPUs"
    return Refusal("ffn_divisible", needs, {"width": width, "slices": slices})


def _block_refusal(label: str, size: int, slices: int, multiple: int, weight_format: str) -> Refusal:
    each = f"{size / slices:,.6g}"
    needs = f"the {label} of {size:,} over {slices} GPUs, {each} each, to be whole {weight_format} blocks of {multiple}"
    return Refusal("quantization_blocks", needs, {"size": size, "slices": slices, "block": multiple})


@kept(size=1024)
def _blocks(model: ModelSpec, weights: str) -> tuple[_Block, ...]:
    """The dimensions of `model` that tensor parallelism slices, with the block each must hold whole, once each."""
    stored = storage(model, weights)
    kept: dict[_Block, None] = {}

    def add(label: str, sizes: tuple[int, ...], kind: TensorKind, over_experts: bool = False) -> None:
        weight_format = _format_of(stored, kind)
        multiple = _slice_multiple(stored, weight_format)
        if multiple > 1:
            kept.update({_Block(label, size, multiple, over_experts, weight_format): None for size in sizes})

    add("MLP width", model.dense_widths, "dense_mlp")
    add("shared expert width", model.shared_expert_widths, "shared_experts")
    add("expert width", model.expert_widths, "experts", over_experts=True)
    mixers = [layer.attention for layer, _ in model.layer_counts if layer.attention.query_heads]
    add("attention output", tuple(mixer.query_heads * mixer.value_head_dim for mixer in mixers), "attention")
    if _format_of(stored, "attention") == "fp8":  # two-dimensional blocks: rows are sliced too
        add("query projection", tuple(mixer.query_heads * mixer.head_dim for mixer in mixers), "attention")
    return tuple(kept)


def _kv_blocks(model: ModelSpec, split: Split) -> Refusal | None:
    """FP8 blocks of the key projection; its heads are replicated rather than divided beyond their number."""
    if split.tp == 1:
        return None
    for heads, head_dim, multiple in _key_projections(model, split.weights):
        held = kv_heads_on_gpu(heads, split.tp) * head_dim
        if held % multiple:
            return _block_refusal("key projection", heads * head_dim, heads * head_dim // held, multiple, "fp8")
    return None


@kept(size=1024)
def _key_projections(model: ModelSpec, weights: str) -> tuple[tuple[int, int, int], ...]:
    """(KV heads, head width, rows per block) of the key projections that are stored in FP8 blocks."""
    stored = storage(model, weights)
    multiple = _slice_multiple(stored, "fp8") if _format_of(stored, "attention") == "fp8" else 1
    mixers = {layer.attention: None for layer, _ in model.layer_counts if layer.attention.holds_kv}
    return tuple((m.kv_heads, m.head_dim, multiple) for m in mixers if m.kind != "mla" and multiple > 1)


def _format_of(stored: Checkpoint, kind: TensorKind) -> str:
    if kind in stored.unquantized:
        return stored.dtype
    return dict(stored.other_formats).get(kind, stored.weights)


def _slice_multiple(stored: Checkpoint, weight_format: str) -> int:
    """Elements that a slice must be a multiple of; 1 where anything goes."""
    if weight_format == "fp8":
        return max(stored.block_size) if stored.block_size else 1
    if weight_format in {"int4", "int8"}:
        return stored.group_size if weight_format == stored.weights and stored.group_size else 1
    return NVFP4_GROUP if weight_format == "nvfp4" else 1
