"""How a checkpoint stores its weights: the dialects of quantization_config and hf_quant_config.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from catalogs.model_config import MAX_WIDTH, ConfigReader, shown
from catalogs.model_precision import ALWAYS_16_BIT
from catalogs.model_records import Checkpoint, KvDtype, Layer, TensorKind, WeightFormat
from catalogs.model_tensor_names import kept_share, place

_DTYPES: Final[dict[str, KvDtype]] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}
_MODELOPT: Final[dict[str, WeightFormat]] = {
    "FP8": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "FP8_PB_WO": "fp8",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "MXFP4": "mxfp4",
    "W4A16_AWQ": "int4",
    "W4A8_AWQ": "int4",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "W8A16": "int8",
}
_RESTATED: Final[dict[str, dict[str, Any]]] = {
    "fp8": {"quant_method": "fp8"},
    "int4 experts": {"quant_method": "compressed-tensors", "num_bits": 4, "group_size": 32, "experts_only": True},
}
_EXPERTS_ONLY: Final[tuple[str, ...]] = ("self_attn", "shared_experts", "re:.*mlp.(gate|up|gate_up|down)_proj.*")
_MOSTLY: Final = 0.999


@dataclass
class Scheme:
    """A quantization scheme on its way to a Checkpoint."""

    weights: WeightFormat
    group_size: int = 0
    block_size: tuple[int, int] | None = None
    zero_points: bool = False
    ignored: list[str] = field(default_factory=list)
    chosen: dict[str, WeightFormat] = field(default_factory=dict)
    other_formats: dict[TensorKind, WeightFormat] = field(default_factory=dict)
    kv_cache: KvDtype | None = None
    method: str = ""
    heeds_ignore_list: bool = True


def read_checkpoint(
    reader: ConfigReader,
    layers: Sequence[Layer],
    hidden: int,
    hf_quant_config: Mapping[str, Any] | None,
    architecture: str,
) -> Checkpoint:
    """How the checkpoint stores its weights, from the config and, where there is one, ModelOpt's hf_quant_config.json.

    Embedding, LM head, norms and router count as 16-bit unless the config names their format; other kinds when it
    ignores
    them, with the share of their elements where it ignores only some layers.
    """
    dtype = _dtype(reader)
    scheme = _scheme(reader, hf_quant_config)
    if scheme is None:
        return Checkpoint(weights="fp32" if dtype == "fp32" else dtype, dtype=dtype)
    kept = kept_share(scheme.ignored, layers, hidden, mlp_is_shared=architecture.startswith("gemma4"))
    if scheme.chosen:
        _apply_chosen(scheme, kept, layers, hidden)
    unquantized = {kind for kind, share in kept.items() if share >= _MOSTLY} | ALWAYS_16_BIT
    unquantized -= set(scheme.other_formats)
    partial = sorted((kind, round(share, 4)) for kind, share in kept.items() if 0 < share < _MOSTLY)
    return Checkpoint(
        weights=scheme.weights,
        dtype=dtype,
        group_size=scheme.group_size,
        block_size=scheme.block_size,
        zero_points=scheme.zero_points,
        unquantized=frozenset(unquantized),
        unquantized_share=tuple((kind, share) for kind, share in partial if kind not in unquantized),
        other_formats=tuple(
            sorted((kind, fmt) for kind, fmt in scheme.other_formats.items() if kind not in kept or kept[kind] < 1)
        ),
        kv_cache=scheme.kv_cache,
        method=scheme.method,
    )


def _dtype(reader: ConfigReader) -> KvDtype:
    named = (reader.text("torch_dtype") or reader.text("dtype") or "bfloat16").removeprefix("torch.")
    if named == "auto" or named.startswith("float8"):
        return "bf16"
    reader.check(named in _DTYPES, f"torch_dtype is {named[:40]!r}; expected one of {', '.join(_DTYPES)}")
    return _DTYPES.get(named, "bf16")


def _scheme(reader: ConfigReader, hf_quant_config: Mapping[str, Any] | None) -> Scheme | None:
    config = dict(reader.mapping("quantization_config") or reader.mapping("compression_config"))
    restated = reader.values.get("quantization")
    if not config and isinstance(restated, str):
        config = dict(_RESTATED.get(restated.lower(), {"quant_method": restated}))
    extra = (hf_quant_config or {}).get("quantization")
    if isinstance(extra, Mapping):
        config = {**extra, **config}
    if not config:
        return None
    named = config.get("quant_method") or ("modelopt" if config.get("quant_algo") else "")
    method = named.lower() if isinstance(named, str) else ""
    if config.get("quant_algo"):
        method = "modelopt"
    read = _METHODS.get(method)
    if read is None:
        reader.problem(f"quant_method is {shown(named)}; known: {', '.join(_METHODS)}")
        return None
    scheme = read(reader, config)
    scheme.method = method
    scheme.kv_cache = scheme.kv_cache or _kv_cache(config)
    if scheme.heeds_ignore_list:
        scheme.ignored += _names(config, "modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
    return scheme


def _names(config: Mapping[str, Any], *keys: str) -> list[str]:
    lists = [config[key] for key in keys if isinstance(config.get(key), list | tuple)]
    return [name for names in lists for name in names if isinstance(name, str)]


def _kv_cache(config: Mapping[str, Any]) -> KvDtype | None:
    scheme = config.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        return "fp8" if scheme.get("num_bits") == 8 and scheme.get("type") == "float" else None
    named = scheme or config.get("kv_cache_quant_algo")
    return "fp8" if isinstance(named, str) and named.upper() == "FP8" else None


def _group(reader: ConfigReader, value: Any, default: int) -> int:
    """A group size; null gives `default`, -1 (a scale per channel) gives 0."""
    if value is None:
        return default
    return max(0, reader.bounded("group_size", value, -1, MAX_WIDTH))


def _fp8(reader: ConfigReader, config: Mapping[str, Any]) -> Scheme:
    scheme = Scheme("fp8", block_size=_block(reader, config.get("weight_block_size")))
    if reader.text("expert_dtype") == "fp4":
        scheme.other_formats["experts"] = "mxfp4"
    return scheme


def _block(reader: ConfigReader, value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) != 2:
        reader.problem("weight_block_size: expected two numbers, such as [128, 128]")
        return None
    return (
        reader.bounded("weight_block_size", value[0], 1, MAX_WIDTH),
        reader.bounded("weight_block_size", value[1], 1, MAX_WIDTH),
    )


def _mxfp4(reader: ConfigReader, config: Mapping[str, Any]) -> Scheme:
    return Scheme("mxfp4", group_size=32, ignored=list(_EXPERTS_ONLY))


def _awq(reader: ConfigReader, config: Mapping[str, Any]) -> Scheme:
    zero = config.get("zero_point", config.get("version") != "marlin")
    return _integer(reader, config.get("bits", config.get("w_bit", 4)), config, zero_points=bool(zero))


def _gptq(reader: ConfigReader, config: Mapping[str, Any]) -> Scheme:
    """GPTQ files hold packed zero points even when quantization was symmetric."""
    return _integer(reader, config.get("bits"), config, zero_points=True)


def _integer(reader: ConfigReader, bits: Any, config: Mapping[str, Any], *, zero_points: bool) -> Scheme:
    reader.check(bits in (4, 8), f"quantization bits are {shown(bits)}; expected 4 or 8")
    group = _group(reader, config.get("group_size", config.get("q_group_size")), 128)
    return Scheme("int8" if bits == 8 else "int4", group_size=group, zero_points=zero_points and group > 0)


def _bitsandbytes(reader: ConfigReader, config: Mapping[str, Any]) -> Scheme:
    """NF4 in blocks of 64 (double quantization makes the scales smaller still), or LLM.int8()."""
    if config.get("load_in_8bit"):
        return Scheme("int8")
    return Scheme("int4", group_size=64)


def _compressed_tensors(reader: ConfigReader, config: Mapping[str, Any]) -> Scheme:
    if config.get("experts_only"):
        return Scheme("int4", group_size=32, ignored=list(_EXPERTS_ONLY))
    groups = [group for group in _groups(config) if isinstance(group.get("weights"), Mapping)]
    if not groups:
        reader.problem("quantization_config.config_groups holds no group with weights")
        return Scheme("int8")
    schemes = [(_weights_scheme(reader, group["weights"]), group.get("targets")) for group in groups]
    scheme = schemes[-1][0]
    for part, targets in schemes:
        for target in targets if isinstance(targets, list | tuple) else []:
            if isinstance(target, str) and ("." in target or target == "lm_head"):
                scheme.chosen[target] = part.weights
    if any(_is_generic(targets) for _, targets in schemes):
        scheme.chosen.clear()
    return scheme


def _groups(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    groups = config.get("config_groups")
    return [group for group in groups.values() if isinstance(group, Mapping)] if isinstance(groups, Mapping) else []


def _is_generic(targets: Any) -> bool:
    return not isinstance(targets, list | tuple) or any(isinstance(name, str) and "." not in name for name in targets)


def _weights_scheme(reader: ConfigReader, weights: Mapping[str, Any]) -> Scheme:
    bits, kind = weights.get("num_bits"), weights.get("type", "int")
    group = _group(reader, weights.get("group_size"), 0)
    if kind == "float" and bits == 8:
        return Scheme("fp8", block_size=_block(reader, weights.get("block_structure")))
    if kind == "float" and bits == 4:
        return Scheme("mxfp4" if group == 32 else "nvfp4", group_size=group or 16)
    if kind == "int" and bits in (4, 8):
        asymmetric = weights.get("symmetric") is False and group > 0
        return Scheme("int4" if bits == 4 else "int8", group_size=group, zero_points=asymmetric)
    reader.problem(
        f"quantized weights of type {shown(kind)} with {shown(bits)} bits; known: int 4 and 8, float 4 and 8"
    )
    return Scheme("int8")


def _modelopt(reader: ConfigReader, config: Mapping[str, Any]) -> Scheme:
    algorithm = config.get("quant_algo")
    if algorithm == "MIXED_PRECISION":
        return _modelopt_mixed(reader, config)
    if algorithm is None and _groups(config):
        return _compressed_tensors(reader, config)
    weights = _modelopt_format(reader, algorithm)
    default = {"nvfp4": 16, "mxfp4": 32, "int4": 128}.get(weights, 0)
    group = _group(reader, config.get("group_size"), default)
    return Scheme(weights, group_size=group, block_size=(128, 128) if algorithm == "FP8_PB_WO" else None)


def _modelopt_format(reader: ConfigReader, algorithm: Any) -> WeightFormat:
    if isinstance(algorithm, str) and algorithm.upper() in _MODELOPT:
        return _MODELOPT[algorithm.upper()]
    reader.problem(f"quant_algo is {shown(algorithm)}; known: {', '.join(_MODELOPT)}, MIXED_PRECISION")
    return "fp8"


def _modelopt_mixed(reader: ConfigReader, config: Mapping[str, Any]) -> Scheme:
    """Formats by module; in an FP8 checkpoint with NVFP4 experts (DeepSeek-V4) what NVFP4 ignores stays FP8."""
    listed = config.get("quantized_layers")
    entries = listed if isinstance(listed, Mapping) else {}
    chosen = {
        name: _modelopt_format(reader, entry.get("quant_algo"))
        for name, entry in entries.items()
        if isinstance(name, str) and isinstance(entry, Mapping)
    }
    reader.check(bool(chosen), "MIXED_PRECISION without quantized_layers: the formats of the layers are unknown")
    if config.get("quant_method") == "fp8":
        block = _block(reader, config.get("weight_block_size"))
        others: dict[TensorKind, WeightFormat] = {
            "experts": _modelopt_format(reader, config.get("moe_quant_algo", "NVFP4"))
        }
        return Scheme("fp8", block_size=block, other_formats=others, heeds_ignore_list=False)
    weights = Counter(chosen.values()).most_common(1)[0][0] if chosen else "fp8"
    return Scheme(weights, group_size={"nvfp4": 16, "mxfp4": 32, "int4": 128}.get(weights, 0), chosen=chosen)


def _apply_chosen(scheme: Scheme, kept: dict[TensorKind, float], layers: Sequence[Layer], hidden: int) -> None:
    """Formats named by module: a kind gets the format of most of its modules; what no name covers stays 16-bit."""
    votes: dict[TensorKind, Counter[WeightFormat]] = {}
    for name, chosen in scheme.chosen.items():
        placed = place(name)
        if placed and placed.kind:
            votes.setdefault(placed.kind, Counter())[chosen] += 1
    covered = kept_share(scheme.chosen, layers, hidden)
    by_elements = {kind: sum(layer.parameters_by_kind.get(kind, 0) for layer in layers) for kind in votes}
    if votes:
        bulk = max(by_elements, key=lambda kind: by_elements[kind])
        scheme.weights = votes[bulk].most_common(1)[0][0]
        scheme.group_size = {"nvfp4": 16, "mxfp4": 32, "int4": 128}.get(scheme.weights, 0)
    for kind in [*covered, *votes]:
        kept[kind] = max(kept.get(kind, 0.0), 1 - covered.get(kind, 0.0))
        if kind in votes and (votes[kind].most_common(1)[0][0] != scheme.weights or kind in ALWAYS_16_BIT):
            scheme.other_formats[kind] = votes[kind].most_common(1)[0][0]


_METHODS: Final[dict[str, Callable[[ConfigReader, Mapping[str, Any]], Scheme]]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "awq": _awq,
    "gptq": _gptq,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
}
