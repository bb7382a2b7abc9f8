"""SGLang's flags (`sglang/srt/arg_groups`, before 0.5.20 `sglang/srt/server_args.py`)."""

from __future__ import annotations

from optimizer.engine_flags.serving import Flag, Serving
from optimizer.engine_flags.versions import SGLANG_ATTENTION_DP_SIZE, SGLANG_BF16_CACHE, at_least
from optimizer.engine_flags.weights import DTYPES, weight_flags


def layout_flags(serving: Serving) -> tuple[Flag, ...]:
    """Return the flags of a layout.

    SGLang's --tp-size counts all GPUs of a stage, attention ranks included; --max-running-requests is of the whole
    server, and so is --chunked-prefill-size, which it divides by the attention ranks.
    """
    ranks = serving.attention_dp
    flags = [Flag("--tp-size", str(serving.stage_gpus))]
    flags += [Flag("--pp-size", str(serving.pp))] if serving.pp > 1 else []
    flags += _attention_dp(serving) if ranks > 1 else []
    flags += [Flag("--ep-size", str(serving.ep))] if serving.ep > 1 else []
    flags += [
        Flag("--mem-fraction-static", f"{serving.gpu_memory_fraction:.2f}"),
        Flag("--context-length", str(serving.max_model_len_tokens)),
        Flag("--max-running-requests", str(serving.sequences_per_rank * ranks)),
        Flag("--chunked-prefill-size", str(serving.step_tokens * ranks)),
    ]
    flags += [Flag("--dtype", DTYPES[serving.weights])] if serving.weights in DTYPES else []
    return (*flags, *_kv_cache(serving), *weight_flags(serving))


def _attention_dp(serving: Serving) -> list[Flag]:
    if at_least(serving.version, SGLANG_ATTENTION_DP_SIZE):
        return [Flag("--attn-dp-size", str(serving.attention_dp))]
    return [Flag("--dp-size", str(serving.attention_dp)), Flag("--enable-dp-attention")]


def _kv_cache(serving: Serving) -> tuple[Flag, ...]:
    if serving.kv_cache == "fp8":
        return (Flag("--kv-cache-dtype", "fp8_e4m3"),)
    wider = serving.checkpoint_kv_cache == "fp8" and serving.kv_cache == "bf16"
    if wider and at_least(serving.version, SGLANG_BF16_CACHE):
        return (Flag("--kv-cache-dtype", "bf16"),)
    return ()
