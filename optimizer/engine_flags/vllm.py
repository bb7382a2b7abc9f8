"""vLLM's flags (`vllm/engine/arg_utils.py`)."""

from __future__ import annotations

from optimizer.engine_flags.serving import Flag, Serving
from optimizer.engine_flags.versions import VLLM_BF16_CACHE, at_least
from optimizer.engine_flags.weights import DTYPES, weight_flags


def layout_flags(serving: Serving) -> tuple[Flag, ...]:
    """Return the flags of a layout; --max-num-seqs and --max-num-batched-tokens are of one data-parallel rank."""
    flags = [Flag("--tensor-parallel-size", str(serving.tp))]
    flags += [Flag("--pipeline-parallel-size", str(serving.pp))] if serving.pp > 1 else []
    flags += [Flag("--data-parallel-size", str(serving.attention_dp))] if serving.attention_dp > 1 else []
    flags += [Flag("--enable-expert-parallel")] if serving.ep > 1 else []
    flags += [
        Flag("--gpu-memory-utilization", f"{serving.gpu_memory_fraction:.2f}"),
        Flag("--max-model-len", str(serving.max_model_len_tokens)),
        Flag("--max-num-seqs", str(serving.sequences_per_rank)),
        Flag("--max-num-batched-tokens", str(serving.step_tokens)),
    ]
    flags += [Flag("--dtype", DTYPES[serving.weights])] if serving.weights in DTYPES else []
    return (*flags, *_kv_cache(serving), *weight_flags(serving))


def _kv_cache(serving: Serving) -> tuple[Flag, ...]:
    if serving.kv_cache == "fp8":
        return (Flag("--kv-cache-dtype", "fp8"),)
    # "auto" would follow the checkpoint.
    if (
        serving.checkpoint_kv_cache == "fp8"
        and serving.kv_cache == "bf16"
        and at_least(serving.version, VLLM_BF16_CACHE)
    ):
        return (Flag("--kv-cache-dtype", "bfloat16"),)
    return ()
