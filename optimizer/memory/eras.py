"""What an engine does where nobody says otherwise, by its version and the class of GPU: batch limits, memory fraction.

Sources: vLLM `EngineArgs` (0.5 to 0.28), SGLang `ServerArgs._handle_gpu_memory_settings` (0.5), read in September 2026.
"""

from __future__ import annotations

from optimizer.engines import engine_version
from optimizer.memory.policy import GIB, vllm_batch_defaults

V1_SINCE = (0, 8)  # the engine that profiles its sampler and captures piecewise graphs
GRAPHS_IN_BUDGET_SINCE = (0, 21)
LONG_CONTEXT_TOKENS = 32_768  # beyond it, vLLM 0.6 and 0.7 split prefills into chunks by themselves
CHUNK_TOKENS_V0 = 512
LEAST_BATCHED_TOKENS_V0 = 2048
SEQUENCES_V0 = 256
# The graph estimate that vLLM takes out of its budget multiplies what the second graph takes by the number of graphs.
# With experts dealt over data-parallel ranks each graph gathers the tokens of all ranks: (769,888 - 245,840) tokens of
# 126,976 B over 2 ranks (vLLM issue 45178, 2026-06-10) and 118.65 GiB over 4 (issue 53013, 2026-08-19) are 1.30 and
# 1.24 MB per gathered token of the largest graph, 512, and each of the 50 graphs that are extrapolated.
EXTRAPOLATED_GRAPHS = 50
LARGEST_GRAPH_TOKENS = 512
GATHERED_TOKEN_BYTES = 1.27e6


def batch_defaults(engine: str, gpu: str, gpu_memory_bytes: float, max_model_len: int) -> tuple[int, int]:
    """Return (tokens one step may process, requests it may sample for) that `engine` takes by default on this GPU.

    vLLM before 0.8: a step holds a whole prompt of the model length, 256 requests; beyond 32,768 tokens, since 0.6,
    chunks of 512. vLLM from 0.8: vllm_batch_defaults. SGLang: its chunk of prefill, 256 requests. TensorRT-LLM: 8,192
    tokens and 2,048 requests (its max_num_tokens and max_batch_size).

    Args:
        engine: name and version, as "vllm@0.19".
        gpu: canonical name.
        gpu_memory_bytes: memory of one GPU.
        max_model_len: longest request the engine accepts.

    Raises:
        ValueError: the engine is unknown.
    """
    name, version = engine_version(engine)
    if name == "sglang":
        return _sglang_chunk(gpu_memory_bytes), SEQUENCES_V0
    if name == "trtllm":
        return 8192, 2048
    if not version or version >= V1_SINCE:
        return vllm_batch_defaults(gpu, gpu_memory_bytes)
    if max_model_len > LONG_CONTEXT_TOKENS and version >= (0, 6):
        return CHUNK_TOKENS_V0, SEQUENCES_V0
    return max(max_model_len, LEAST_BATCHED_TOKENS_V0), SEQUENCES_V0


def default_fraction(engine: str, gpu_memory_bytes: float, gpus: int) -> float:
    """Return the memory fraction that `engine` takes by default: vLLM 0.90 and, from 0.21, 0.92; TensorRT-LLM 0.90.

    SGLang keeps free, in MiB: 512, 1.5 per token of its prefill chunk, 2 per request of its largest graph, 1,024 for
    each 8 GPUs; at least 10 GiB on GPUs above 60 GiB.

    Raises:
        ValueError: the engine is unknown.
    """
    name, version = engine_version(engine)
    if name == "vllm":
        return 0.92 if not version or version >= GRAPHS_IN_BUDGET_SINCE else 0.90
    if name == "trtllm":
        return 0.90
    memory = gpu_memory_bytes / 2**20
    graph = 80 if gpu_memory_bytes < 35 * GIB else 160 if gpu_memory_bytes < 60 * GIB else 256 if gpus < 4 else 512
    kept = 512 + 1.5 * _sglang_chunk(gpu_memory_bytes) + 2 * graph + 1024 * gpus / 8
    if gpu_memory_bytes > 60 * GIB:
        kept = max(kept, 10 * 1024)
    return round(max(0.1, (memory - kept) / memory), 3)


def gathered_graphs_bytes(engine: str, attention_dp: int, ep: int) -> float:
    """Return what vLLM's graph estimate takes out of its budget with experts over data-parallel ranks.

    Far above what graphs then take; VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0
    turns it off. 0 for other layouts, engines, and vLLM before 0.21.
    """
    name, version = engine_version(engine)
    if name != "vllm" or attention_dp == 1 or ep == 1 or (version and version < GRAPHS_IN_BUDGET_SINCE):
        return 0.0
    return EXTRAPOLATED_GRAPHS * LARGEST_GRAPH_TOKENS * attention_dp * GATHERED_TOKEN_BYTES


def _sglang_chunk(gpu_memory_bytes: float) -> int:
    if gpu_memory_bytes < 35 * GIB:
        return 2048
    if gpu_memory_bytes < 60 * GIB:
        return 4096
    return 8192 if gpu_memory_bytes < 160 * GIB else 16_384
