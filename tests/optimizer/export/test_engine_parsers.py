"""Engines' own parsers on the commands written for them, where they are installed (they need no GPU to parse)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from optimizer.engine_flags.versions import at_least
from tests.optimizer.export.test_engine_commands import H100, one_node, spec

DEEPSEEK = {"model": "deepseek-ai/DeepSeek-V3", "weights": "fp8", "checkpoint_weights": "fp8", "tp": 1}


@pytest.fixture(scope="module")
def parser() -> Any:
    """The parser of `vllm serve`, on a machine of any kind."""
    pytest.importorskip("vllm", reason="vLLM is not installed")
    from vllm.platforms import current_platform as platform  # noqa: PLC0415

    platform.device_type = platform.device_type or "cpu"
    from vllm.entrypoints.common.cli_args import make_arg_parser  # noqa: PLC0415
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    return make_arg_parser(FlexibleArgumentParser(allow_abbrev=False))


@pytest.mark.parametrize(
    "one",
    [
        one_node(),
        one_node(weights="fp8", kv_cache="fp8", trust_remote_code=True),
        one_node(checkpoint_kv_cache="fp8", served_name="llama"),
        one_node(**DEEPSEEK, attention_dp=8, ep=8),
        spec(),
        spec(**DEEPSEEK, pp=1, attention_dp=16, ep=16),
    ],
)
def test_vllm_reads_what_is_written_for_it(parser: Any, one: Any) -> None:
    """Every argument is read as the field that it is meant for."""
    from optimizer.export.engines.launch import launch  # noqa: PLC0415

    vllm = pytest.importorskip("vllm")
    version = tuple(map(int, vllm.__version__.split("+")[0].split(".")[:3]))
    if not at_least(version, (0, 12)):
        pytest.skip(f"vLLM {vllm.__version__} is older than the commands")
    for process in launch(one, H100, port=8000).processes:
        words = [{"$LEADER_ADDRESS": "10.0.0.1", "$NODE_RANK": "1"}.get(word, word) for word in process.command]
        read = parser.parse_args(words[2:])
        assert (read.model_tag, read.port) == (one.model, 8000)
        assert (read.tensor_parallel_size, read.pipeline_parallel_size) == (one.tp, one.pp)
        assert (read.data_parallel_size, read.enable_expert_parallel) == (one.attention_dp, one.ep > 1)
        assert (read.max_model_len, read.nnodes) == (one.max_model_len_tokens, one.nodes)
        assert read.gpu_memory_utilization == one.gpu_memory_fraction
        assert read.max_num_seqs == -(-one.max_sequences // one.attention_dp)
        assert read.max_num_batched_tokens == one.max_batched_tokens
        assert read.headless == (process.role == "worker")
        assert read.node_rank == int(process.role == "worker")


@pytest.mark.parametrize(
    "one", [one_node(), one_node(**DEEPSEEK, attention_dp=8, ep=8, kv_cache="fp8"), spec(served_name="llama")]
)
def test_sglang_reads_what_is_written_for_it(one: Any) -> None:
    """Every argument is read as the field that it is meant for."""
    pytest.importorskip("sglang", reason="SGLang is not installed")
    import argparse  # noqa: PLC0415

    from sglang.srt.server_args import ServerArgs  # noqa: PLC0415

    from optimizer.export.engines.launch import launch  # noqa: PLC0415

    parser = argparse.ArgumentParser(allow_abbrev=False)
    ServerArgs.add_cli_args(parser)
    for process in launch(replace(one, engine="sglang"), H100, port=8000).processes:
        words = [word.replace("$LEADER_ADDRESS", "10.0.0.1").replace("$NODE_RANK", "1") for word in process.command]
        read = parser.parse_args(words[3:])
        assert (read.model_path, read.tp_size, read.pp_size) == (one.model, one.tp * one.attention_dp, one.pp)
        assert (read.attn_dp_size, read.ep_size, read.nnodes) == (one.attention_dp, one.ep, one.nodes)
        assert (read.context_length, read.mem_fraction_static) == (one.max_model_len_tokens, one.gpu_memory_fraction)
        assert read.node_rank == int(process.role == "worker")
