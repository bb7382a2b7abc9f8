"""optimizer.memory: what engines of a version do by default, print, need beside their budget, and are started with."""

from __future__ import annotations

import pytest

from catalogs.gpus import get_gpu
from catalogs.models import load_model
from optimizer.divisibility import check_split
from optimizer.engines import engine_version
from optimizer.memory import Footprint, MemoryPolicy, breakdown, footprint
from optimizer.memory.cache_log import cache_log
from optimizer.memory.engine_weights import engine_weights_extra_bytes
from optimizer.memory.eras import batch_defaults, default_fraction, gathered_graphs_bytes
from optimizer.memory.footprint import KvGroup
from optimizer.memory.smallest import smallest_counts
from optimizer.memory.warmup import profiled_extra_bytes, warm_up
from optimizer.split import Split

GIB = 2.0**30
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


class TestEras:
    """Defaults by version and GPU."""

    @pytest.mark.parametrize(
        ("engine", "gpu", "memory_gib", "length", "limits"),
        [
            pytest.param("vllm@0.19", "H100-SXM-80GB", 79.2, 8192, (8192, 1024), id="V1 on a large GPU"),
            pytest.param("vllm@0.19", "A100-SXM-80GB", 79.2, 8192, (2048, 256), id="V1 on A100"),
            pytest.param("vllm", "L4-24GB", 22.0, 131_072, (2048, 256), id="the newest, on a small GPU"),
            pytest.param("vllm@0.6", "RTX3090-24GB", 23.6, 29_000, (29_000, 256), id="whole prompts"),
            pytest.param("vllm@0.6", "RTX3090-24GB", 23.6, 35_000, (512, 256), id="chunks beyond 32k"),
            pytest.param("vllm@0.5", "RTX3090-24GB", 23.6, 35_000, (35_000, 256), id="before there were chunks"),
            pytest.param("vllm@0.4", "RTX3090-24GB", 23.6, 1024, (2048, 256), id="at least 2,048"),
            pytest.param("sglang@0.4", "L4-24GB", 22.0, 8192, (2048, 256), id="SGLang's chunk, small"),
            pytest.param("sglang", "L40S-48GB", 44.4, 8192, (4096, 256), id="SGLang's chunk, middle"),
            pytest.param("sglang", "B200-SXM-180GB", 178.4, 8192, (16_384, 256), id="SGLang's chunk, large"),
            pytest.param("trtllm@1.0", "H100-SXM-80GB", 79.2, 8192, (8192, 2048), id="TensorRT-LLM"),
        ],
    )
    def test_batch_limits(self, engine: str, gpu: str, memory_gib: float, length: int, limits: tuple[int, int]) -> None:
        """Tokens of a step and requests of a batch."""
        assert batch_defaults(engine, gpu, memory_gib * GIB, length) == limits

    def test_fractions(self) -> None:
        """vLLM 0.90, from 0.21 on 0.92; SGLang (80 - 13.0 GiB) / 80 on one GPU: 512 + 12,288 + 512 + 128 MiB kept."""
        assert default_fraction("vllm@0.20", 80 * GIB, 1) == 0.90
        assert default_fraction("vllm@0.21", 80 * GIB, 1) == 0.92
        assert default_fraction("trtllm", 80 * GIB, 1) == 0.90
        assert default_fraction("sglang", 80 * GIB, 1) == round((81_920 - 13_440) / 81_920, 3)
        assert 0.5 < default_fraction("sglang", 15 * GIB, 8) < default_fraction("sglang", 44 * GIB, 8)

    def test_gathered_graphs(self) -> None:
        """Two ranks with dealt experts lose 62 GiB to the estimate, four 124; tensor parallelism nothing (45178)."""
        assert gathered_graphs_bytes("vllm@0.21", 2, 2) / GIB == pytest.approx(61.97, rel=0.03)
        assert gathered_graphs_bytes("vllm@0.27", 4, 8) / GIB == pytest.approx(118.65, rel=0.03)
        assert gathered_graphs_bytes("vllm@0.20", 2, 2) == 0
        assert gathered_graphs_bytes("vllm", 1, 8) == 0
        assert gathered_graphs_bytes("sglang", 8, 8) == 0

    @pytest.mark.parametrize("engine", ["vllm@", "vllm@0..1", "vllm@x", "vllm@1234567", "vllm@²"])
    def test_versions_are_numbers(self, engine: str) -> None:
        """A version that is no numbers and dots is an error."""
        with pytest.raises(ValueError, match="numbers and dots"):
            engine_version(engine)


class TestCacheLog:
    """Tokens and concurrency as the log prints them."""

    def test_uniform_layers(self) -> None:
        """One group: 58.11 GiB of 131,072 B a token are 476,032 tokens in blocks of 16, 58.11 requests of 8,192."""
        held = footprint(load_model(LLAMA_8B), Split("bf16", "bf16", 1))
        log = cache_log(held, 58.11 * GIB, engine="vllm@0.19", max_model_len=8192, max_batched_tokens=8192)
        assert log.kv_tokens == 476_032
        assert log.max_concurrency == pytest.approx(58.11, abs=0.01)

    def test_sliding_groups_hold_a_step_beside_their_window(self) -> None:
        """gpt-oss-20b: 512 blocks of full and 513 of sliding layers a request: 316.07 at once (vLLM 0.19.0 log)."""
        held = footprint(load_model("openai/gpt-oss-20b"), Split("mxfp4", "bf16", 2))
        log = cache_log(held, 59.32 * GIB, engine="vllm@0.19", max_model_len=8192, max_batched_tokens=8192)
        assert log.kv_tokens == pytest.approx(2_591_776, rel=1e-3)
        assert log.max_concurrency == pytest.approx(316.07, rel=1e-3)

    def test_state_groups_hold_two_blocks(self) -> None:
        """Qwen3.5 27B's shapes: 208 blocks over 84 + 3 x 2 are the logged 2.31 and 302,921 tokens."""
        held = footprint(load_model("Qwen/Qwen3.5-27B"), Split("fp8", "fp8", 2))
        log = cache_log(held, 4.99 * GIB, engine="vllm@0.26", max_model_len=131_072, max_batched_tokens=2048)
        assert log.blocks == 208
        assert log.kv_tokens == pytest.approx(302_921, rel=1e-5)

    def test_before_groups_every_layer_was_at_full_length(self) -> None:
        """Gemma 3 27B before 0.10: 62 layers x 8,192 B a token and no padding; since, 70 layers' worth."""
        held = footprint(load_model("google/gemma-3-27b-it"), Split("bf16", "bf16", 1))
        old = cache_log(held, 20 * GIB, engine="vllm@0.9", max_model_len=8192, max_batched_tokens=8192)
        new = cache_log(held, 20 * GIB, engine="vllm@0.10", max_model_len=8192, max_batched_tokens=8192)
        assert old.kv_tokens / new.kv_tokens == pytest.approx(70 / 62, rel=1e-3)

    def test_other_engines_count_tokens(self) -> None:
        """SGLang divides its pool by the bytes of a token, in no blocks; nothing is logged where nothing is left."""
        held = footprint(load_model(LLAMA_8B), Split("bf16", "bf16", 1))
        log = cache_log(held, GIB, engine="sglang", max_model_len=1024, max_batched_tokens=8192)
        assert (log.kv_tokens, log.blocks, log.max_concurrency) == (8192, 0, 8.0)
        assert cache_log(held, -1.0, engine="vllm", max_model_len=1024, max_batched_tokens=1).kv_tokens == 0

    def test_groups_are_of_one_size(self) -> None:
        """10 full and 52 sliding layers are 1 and 6 groups of 10; 16 full and 48 linear ones 1 and 3 of 16."""
        gemma = footprint(load_model("google/gemma-3-27b-it"), Split("bf16", "bf16", 1))
        assert set(gemma.kv_groups) == {KvGroup("full", 0, 1), KvGroup("window", 1024, 6)}
        hybrid = footprint(load_model("Qwen/Qwen3.5-27B"), Split("bf16", "bf16", 1))
        assert set(hybrid.kv_groups) == {KvGroup("full", 0, 1), KvGroup("state", 0, 3)}


class TestWarmUp:
    """Memory outside the budget."""

    def test_sampler_logits(self) -> None:
        """1,024 sequences x 201,088 tokens x 4 B are the 786 MiB that a report could not allocate."""
        need = warm_up(
            "vllm@0.19",
            load_model("openai/gpt-oss-20b"),
            Split("mxfp4", "bf16", 1),
            linked=True,
            max_batched_tokens=8192,
            max_sequences=1024,
        )
        assert need.causes["sampler"] / 2**20 == pytest.approx(785.5, abs=0.1)
        assert 3.96 < need.need_bytes / GIB < 7.92  # more than 0.95 of an H100 leaves, less than 0.90 does

    def test_graphs_of_experts_over_pcie(self) -> None:
        """Four GPUs without NVLink need more for a MoE model than two, and than a dense one; less since 0.21."""
        moe, dense = load_model("Qwen/Qwen3-30B-A3B"), load_model(LLAMA_8B)

        def graphs(engine: str, model: object, tp: int, linked: bool) -> float:
            chosen = moe if model is moe else dense
            limits = {"max_batched_tokens": 2048, "max_sequences": 256}
            return warm_up(engine, chosen, Split("bf16", "bf16", tp), linked=linked, **limits).causes["graphs"]

        assert graphs("vllm@0.8", moe, 4, False) > graphs("vllm@0.8", moe, 2, False)
        assert graphs("vllm@0.8", moe, 4, False) > graphs("vllm@0.8", dense, 4, False)
        assert graphs("vllm@0.8", moe, 4, False) > graphs("vllm@0.8", moe, 4, True)
        assert graphs("vllm@0.8", moe, 4, False) > graphs("vllm@0.28", moe, 4, False)
        assert graphs("vllm@0.7", moe, 4, False) == pytest.approx(0.2 * GIB)

    def test_other_engines_leave_it_by_design(self) -> None:
        """SGLang's fraction leaves activations and graphs outside already."""
        need = warm_up(
            "sglang",
            load_model(LLAMA_8B),
            Split("bf16", "bf16", 1),
            linked=True,
            max_batched_tokens=8192,
            max_sequences=256,
        )
        assert need.need_bytes == 0

    def test_mxfp4_is_profiled_until_0_15_and_outside_since(self) -> None:
        """gpt-oss-120b on one H100: 4.1 GiB in the profile of 0.10, which left none for cache; beside it in 0.19."""
        model, split = load_model("openai/gpt-oss-120b"), Split("mxfp4", "bf16", 1)
        assert profiled_extra_bytes("vllm@0.10", model, split, 8192) / GIB == pytest.approx(4.12, abs=0.01)
        assert profiled_extra_bytes("vllm@0.19", model, split, 8192) == 0
        assert profiled_extra_bytes("vllm@0.7", model, split, 8192) == 0

    def test_towers_of_dynamic_resolution_are_profiled(self) -> None:
        """Qwen's vision tower takes 1 GiB for its largest image; Gemma's fixed one nothing beyond the sampler."""
        split = Split("bf16", "bf16", 1)
        largest = profiled_extra_bytes("vllm", load_model("Qwen/Qwen3-VL-8B-Instruct"), split, 2048)
        assert largest / GIB == pytest.approx(0.98, abs=0.01)
        assert profiled_extra_bytes("vllm", load_model("google/gemma-3-27b-it"), split, 2048) == 0


def test_sglang_holds_compressed_attention_whole() -> None:
    """DeepSeek-V4-Pro over 8 H200: 125.65 GiB logged (InferenceX issue 2128); nothing extra with FP4 units, or vLLM."""
    model, split = load_model("deepseek-ai/DeepSeek-V4-Pro"), Split("fp8", "bf16", 8)
    held = footprint(model, split).weights_bytes
    assert (held + engine_weights_extra_bytes("sglang", model, split, 9.0)) / GIB == pytest.approx(125.65, rel=0.01)
    assert engine_weights_extra_bytes("sglang", model, split, 10.0) == 0
    assert engine_weights_extra_bytes("vllm", model, split, 9.0) == 0
    assert engine_weights_extra_bytes("sglang", load_model("deepseek-ai/DeepSeek-R1"), split, 9.0) == 0


class TestSmallest:
    """The fewest GPUs per type."""

    def counts(self, model: str, **asked: object) -> dict[str, int | None]:
        settings = {"context_tokens": 8192, "concurrency": 1, "policy": MemoryPolicy(), **asked}
        return {one.gpu: one.gpus for one in smallest_counts(load_model(model), **settings)}  # type: ignore[arg-type]

    def test_llama_70b(self) -> None:
        """141 GB in BF16: 2 H200 (2 x 139.8 GiB x 0.8 / 1.15 = 194), 3 H100 as stages (165); BF16 not on T4."""
        found = self.counts(LLAMA_70B)
        assert found["H200-SXM-141GB"] == 2
        assert found["H100-SXM-80GB"] == 3
        assert found["T4-16GB"] is None

    def test_one_gpu_fewer_does_not_hold_it(self) -> None:
        """No layout of fewer GPUs that engines load holds what the smallest count does."""
        model = load_model(LLAMA_70B)
        for name in ("H100-SXM-80GB", "L40S-48GB", "B200-SXM-180GB"):
            gpu = get_gpu(name)
            (found,) = smallest_counts(model, context_tokens=8192, concurrency=16, policy=MemoryPolicy(), gpus=[gpu])
            assert found.gpus is not None
            smaller = [
                Split("bf16", "bf16", tp, pp)
                for tp in range(1, 9)
                for pp in range(1, 17)
                if tp * pp < found.gpus and not check_split(model, Split("bf16", "bf16", tp, pp))
            ]
            held = [footprint(model, split) for split in smaller]
            assert not any(breakdown(MemoryPolicy(), gpu.memory_bytes, one, 16, 8192).fits for one in held)

    def test_more_requests_never_need_fewer(self) -> None:
        """64 requests need at least as many GPUs of every type as one."""
        few, many = self.counts(LLAMA_8B), self.counts(LLAMA_8B, concurrency=64)
        assert all((many[gpu] or 10**6) >= (few[gpu] or 10**6) for gpu in few)

    def test_reasons(self) -> None:
        """A type without an answer says why: the format, or how many more are needed."""
        model, asked = load_model("moonshotai/Kimi-K2-Instruct"), {"context_tokens": 8192, "concurrency": 1}
        found = smallest_counts(model, weights="bf16", policy=MemoryPolicy(), **asked)
        by_name = {one.gpu: one for one in found}
        assert "do not run" in by_name["V100-SXM-32GB"].reason
        assert "more than" in by_name["RTXA4000-16GB"].reason

    def test_footprints_without_groups(self) -> None:
        """A footprint made by hand, without groups, is still counted by its bytes per token."""
        held = Footprint(weights_bytes=1e9, kv_bytes_per_token=1024.0)
        assert cache_log(held, 1024.0 * 800, engine="vllm", max_model_len=80, max_batched_tokens=16).kv_tokens == 800
