"""TensorRT-LLM's flags (`tensorrt_llm/commands/serve.py`), and what it takes from a file of settings only."""

from __future__ import annotations

from typing import Any

from optimizer.engine_flags.serving import Flag, Serving
from optimizer.engine_flags.weights import DTYPES


def layout_flags(serving: Serving) -> tuple[Flag, ...]:
    """Return the flags of a layout; `settings` are needed as well.

    --tp_size counts all GPUs of a stage; --max_batch_size and --max_num_tokens are of one attention rank.
    """
    flags = [Flag("--tp_size", str(serving.stage_gpus))]
    flags += [Flag("--pp_size", str(serving.pp))] if serving.pp > 1 else []
    flags += [Flag("--ep_size", str(serving.ep))] if serving.ep > 1 else []
    return (
        *flags,
        Flag("--kv_cache_free_gpu_memory_fraction", f"{serving.gpu_memory_fraction:.2f}"),
        Flag("--max_seq_len", str(serving.max_model_len_tokens)),
        Flag("--max_batch_size", str(serving.sequences_per_rank)),
        Flag("--max_num_tokens", str(serving.step_tokens)),
    )


def settings(serving: Serving) -> dict[str, Any]:
    """Return what only a file of settings says (fields of `LlmArgs`); empty where flags are enough.

    `kv_cache_config` takes the place of what flags say of the cache, so that it repeats the memory fraction.
    """
    found: dict[str, Any] = {}
    if serving.attention_dp > 1:
        found["enable_attention_dp"] = True
    if serving.max_model_len_tokens > serving.step_tokens:  # a prompt would not go into one step
        found["enable_chunked_prefill"] = True
    if serving.kv_cache == "fp8" and serving.checkpoint_kv_cache != "fp8":
        fraction = round(serving.gpu_memory_fraction, 2)
        found["kv_cache_config"] = {"dtype": "fp8", "free_gpu_memory_fraction": fraction}
    if serving.weights in DTYPES and serving.weights != serving.checkpoint_weights:
        found["dtype"] = DTYPES[serving.weights]
    return found


def settings_notes(serving: Serving) -> tuple[str, ...]:
    """Say the same to people who type the flags themselves."""
    found = settings(serving)
    if not found:
        return ()
    said = ", ".join(f"{name}: {_said(value)}" for name, value in found.items())
    return (f"a YAML file of settings, given as --config, has to say {{{said}}}: no flag does",)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_said(one)}" for name, one in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)
