"""From a config to layers: one small function per family of architectures, and the table that finds it.

`FAMILIES` maps a config's model_type to its family; `CLASSES` maps the class name in `architectures` for configs whose
model_type is their own (DeepSeek-V4 in its reference form).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from catalogs.architectures import dense_families as plain
from catalogs.architectures import hybrid_families as hybrid
from catalogs.architectures import latent_families as latent
from catalogs.architectures import moe_families as moe
from catalogs.model_config import ConfigReader
from catalogs.model_records import Layer


@dataclass(frozen=True)
class Family:
    """How one family of architectures is read.

    Attributes:
        layers: reads the layers, in order.
        tied: whether embedding and LM head are one matrix when the config does not say.
        norm_width: elements of the final norm per unit of hidden size (2 for a layer norm with bias).
        head_bias: whether the LM head has a bias.
        mtp_keys: keys that count multi-token-prediction layers in the checkpoint.
        mtp_copies_embedding: whether each of those brings its own copy of embedding and LM head (DeepSeek, GLM).
    """

    layers: Callable[[ConfigReader], tuple[Layer, ...]]
    tied: bool = False
    norm_width: int = 1
    head_bias: bool = False
    mtp_keys: tuple[str, ...] = ()
    mtp_copies_embedding: bool = False


def _deepseek(layers: Callable[[ConfigReader], tuple[Layer, ...]]) -> Family:
    return Family(layers, mtp_keys=("num_nextn_predict_layers",), mtp_copies_embedding=True)


_LLAMA: Final = Family(plain.llama)
_MISTRAL: Final = Family(plain.mistral)
_QWEN2: Final = Family(plain.qwen2)
_QWEN3: Final = Family(plain.qwen3)
_QWEN3_MOE: Final = Family(moe.qwen3_moe)
_QWEN3_NEXT: Final = Family(hybrid.qwen3_next, mtp_keys=("mtp_num_hidden_layers", "num_nextn_predict_layers"))
_GEMMA3: Final = Family(plain.gemma3, tied=True)
_GEMMA4: Final = Family(moe.gemma4, tied=True)
_LLAMA4: Final = Family(moe.llama4)
_DEEPSEEK_V3: Final = _deepseek(latent.deepseek_v3)
_DEEPSEEK_V32: Final = _deepseek(latent.deepseek_v32)
_DEEPSEEK_V4: Final = Family(latent.deepseek_v4, mtp_keys=("num_nextn_predict_layers",))
_KIMI_LINEAR: Final = Family(hybrid.kimi_linear)
_STEP: Final = Family(moe.step3, mtp_keys=("num_nextn_predict_layers",))

FAMILIES: Final[dict[str, Family]] = {
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "mistral3": _MISTRAL,
    "ministral": _MISTRAL,
    "ministral3": _MISTRAL,
    "phi3": _MISTRAL,
    "mixtral": Family(moe.mixtral),
    "qwen2": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "mimo": Family(plain.qwen2, mtp_keys=("num_nextn_predict_layers",)),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen2_moe": Family(moe.qwen2_moe),
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5_text": _QWEN3_NEXT,
    "qwen3_5_moe_text": _QWEN3_NEXT,
    "cohere": Family(plain.cohere, tied=True),
    "cohere2": Family(plain.cohere, tied=True),
    "gemma2": Family(plain.gemma2, tied=True),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "deepseek_v2": Family(latent.deepseek_v2),
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
    "glm4_moe_lite": _DEEPSEEK_V3,
    "deepseek_v32": _DEEPSEEK_V32,
    "glm_moe_dsa": _DEEPSEEK_V32,
    "deepseek_v4": _DEEPSEEK_V4,
    "gpt_oss": Family(moe.gpt_oss),
    "glm4_moe": Family(moe.glm4_moe, mtp_keys=("num_nextn_predict_layers",), mtp_copies_embedding=True),
    "minimax_m2": Family(moe.minimax_m2),
    "minimax_m3": Family(moe.minimax_m3),
    "mimo_v2_flash": Family(moe.mimo_v2),
    "step3p5": _STEP,
    "step3p7": _STEP,
    "kimi_linear": _KIMI_LINEAR,
    "nemotron_h": Family(hybrid.nemotron_h),
    "nemotron-nas": Family(plain.nemotron_nas),
    "gptj": Family(plain.gptj, norm_width=2, head_bias=True),
}
CLASSES: Final[dict[str, str]] = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "NemotronHForCausalLM": "nemotron_h",
    "DeciLMForCausalLM": "nemotron-nas",
}
_GPT_NAMES: Final = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
}


def find_family(reader: ConfigReader) -> tuple[str, Family] | None:
    """Name and family of a config: by the text part's model_type, then the class names; None when unknown."""
    _rename(reader.values)
    for candidate in (reader.values.get("model_type"), reader.outer.get("model_type"), *_classes(reader)):
        if isinstance(candidate, str) and candidate in FAMILIES:
            return candidate, FAMILIES[candidate]
    return None


def _classes(reader: ConfigReader) -> list[str]:
    listed: Any = reader.values.get("architectures")
    names = listed if isinstance(listed, list) else []
    return [CLASSES[name] for name in names if isinstance(name, str) and name in CLASSES]


def _rename(values: dict[str, Any]) -> None:
    """Give GPT-style keys their usual names, where the usual ones are absent."""
    for old, new in _GPT_NAMES.items():
        if old in values and values.get(new) is None:
            values[new] = values[old]
