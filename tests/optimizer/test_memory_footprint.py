"""optimizer.memory.footprint: what a split puts on a GPU, tensor kind by tensor kind."""

from __future__ import annotations

import pytest

from catalogs.errors import UnknownNameError
from catalogs.models import ModelSpec, bundled_models, load_model
from optimizer.divisibility import check_split
from optimizer.memory import MemoryPolicy, breakdown, footprint, max_concurrency, stage_layer_counts
from optimizer.split import Split

GIB = 2.0**30
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
DEEPSEEK_V3 = "deepseek-ai/DeepSeek-V3"
CONTEXT_128K = 131_072


def weights_gb(model: str, weights: str, tp: int = 1, **sizes: int) -> float:
    return footprint(load_model(model), Split(weights, "bf16", tp, **sizes)).weights_bytes / 1e9


def layer_elements(model: ModelSpec, first: int, last: int) -> int:
    return sum(sum(layer.parameters_by_kind.values()) for layer in model.layers[first:last])


class TestDesignFigures:
    """The figures that the design lists for Llama 3.1 70B and others."""

    def test_bf16_weights_need_more_than_one_80_gb_gpu(self) -> None:
        """70.55e9 parameters x 2 B = 141.1 GB."""
        assert weights_gb(LLAMA_70B, "bf16") == pytest.approx(140, rel=0.015)
        assert weights_gb(LLAMA_70B, "bf16") > 80

    @pytest.mark.parametrize("weights", ["int8", "fp8"])
    def test_8_bit_weights_are_about_70_gb(self, weights: str) -> None:
        """68.45e9 linear parameters x 1 B + 2.1e9 of embedding and LM head x 2 B = 72.7 GB."""
        assert weights_gb(LLAMA_70B, weights) == pytest.approx(70, rel=0.04)

    def test_int4_with_scales_and_overhead_fits_one_80_gb_gpu(self) -> None:
        """68.45e9 x 0.5195 B + 2.1e9 x 2 B = 39.8 GB; x 1.15 = 45.7 GB."""
        assert weights_gb(LLAMA_70B, "int4") * 1.15 == pytest.approx(46, rel=0.02)
        held = footprint(load_model(LLAMA_70B), Split("int4", "bf16", 1))
        assert max_concurrency(MemoryPolicy(), 79.25 * GIB, held, 8192) >= 1

    def test_13b_at_int4_is_under_10_gb(self) -> None:
        """12.69e9 linear parameters x 0.5195 B + 0.33e9 x 2 B = 7.2 GB, 8.3 with overhead."""
        assert weights_gb("meta-llama/Llama-2-13b-hf", "int4") * 1.15 < 10

    def test_one_128k_request_holds_40_gib(self) -> None:
        """80 layers x 8 KV heads x 128 x 2 x 2 B x 131,072 = 42.9 GB."""
        held = footprint(load_model(LLAMA_70B), Split("bf16", "bf16", 1))
        assert held.kv_bytes_per_sequence(CONTEXT_128K) == 80 * 8 * 128 * 2 * 2 * CONTEXT_128K
        assert held.kv_bytes_per_sequence(CONTEXT_128K) / GIB == 40

    def test_weights_and_one_128k_request_are_near_180_gb(self) -> None:
        """141.1 + 42.9 = 184 GB, the cache 23% of it (22% where weights are rounded to 140 and the cache to 40)."""
        held = footprint(load_model(LLAMA_70B), Split("bf16", "bf16", 1))
        cache = held.kv_bytes_per_sequence(CONTEXT_128K)
        assert (held.weights_bytes + cache) / 1e9 == pytest.approx(180, rel=0.03)
        assert 0.22 <= cache / (held.weights_bytes + cache) <= 0.235

    def test_four_128k_requests_hold_more_cache_than_weights(self) -> None:
        held = footprint(load_model(LLAMA_70B), Split("bf16", "bf16", 1))
        assert 4 * held.kv_bytes_per_sequence(CONTEXT_128K) > held.weights_bytes

    def test_32b_at_128k_holds_tens_of_gb_more_than_at_4k(self) -> None:
        """64 layers x 8 x 128 x 2 x 2 B = 262,144 B a token; x (131,072 - 4,096) = 33.3 GB."""
        held = footprint(load_model("Qwen/Qwen3-32B"), Split("bf16", "bf16", 1))
        more = held.kv_bytes_per_sequence(CONTEXT_128K) - held.kv_bytes_per_sequence(4096)
        assert more / 1e9 == pytest.approx(33.3, abs=0.05)


class TestWeights:
    """Which tensors are sliced, replicated, dealt out, and where the ends are."""

    def test_tensor_parallelism_slices_everything_but_norms(self) -> None:
        """At TP8 a GPU of Llama 3.1 70B holds an eighth of the matrices and all norms."""
        model = load_model(LLAMA_70B)
        norms = model.parameters_by_kind["norm"]
        expected = ((model.total_parameters - norms) / 8 + norms) * 2
        assert footprint(model, Split("bf16", "bf16", 8)).weights_bytes == pytest.approx(expected, rel=1e-12)

    def test_kv_projections_are_replicated_beyond_the_kv_heads(self) -> None:
        """From TP8 to TP16 the k and v projections of 8 heads, 80 layers x 2 x 8192 x 128 a GPU, do not shrink."""
        at_8, at_16 = (footprint(load_model(LLAMA_70B), Split("bf16", "bf16", tp)).weights_bytes for tp in (8, 16))
        norms = load_model(LLAMA_70B).parameters_by_kind["norm"] * 2
        kv = 80 * 2 * 8192 * 128 * 2
        assert at_16 - norms - kv == pytest.approx((at_8 - norms - kv) / 2, rel=1e-12)

    def test_latent_down_projections_are_whole_on_every_rank(self) -> None:
        """DeepSeek-V3 in BF16: 8 GPUs at TP8 hold the model and 7 more copies of q_a, kv_a and what is never sliced."""
        model = load_model(DEEPSEEK_V3)
        by_kind = model.parameters_by_kind
        down = 61 * (7168 * (1536 + 512 + 64) + 1536 + 512)
        copies = 7 * (down + by_kind["router"] + by_kind["norm"])
        held = footprint(model, Split("bf16", "bf16", 8)).weights_bytes
        assert held * 8 == pytest.approx((model.total_parameters + copies) * 2, rel=1e-9)

    def test_attention_data_parallelism_replicates_all_but_the_experts(self) -> None:
        """DeepSeek-V3, 8 attention ranks: 256 experts over 8 GPUs and the rest whole on each."""
        model = load_model(DEEPSEEK_V3)
        experts = model.parameters_by_kind["experts"]
        held = footprint(model, Split("bf16", "bf16", 1, ep=8, attention_dp=8)).weights_bytes
        assert held == pytest.approx((experts / 8 + model.total_parameters - experts) * 2, rel=1e-9)

    def test_whole_experts_are_dealt_out_rounded_up(self) -> None:
        """Qwen3-30B's 128 experts over 3 ranks: the fullest holds 43."""
        model = load_model("Qwen/Qwen3-30B-A3B")
        experts = model.parameters_by_kind["experts"]
        whole = footprint(model, Split("bf16", "bf16", 1)).weights_bytes
        held = footprint(model, Split("bf16", "bf16", 1, ep=3, attention_dp=3)).weights_bytes
        assert whole - held == pytest.approx(experts * (1 - 43 / 128) * 2, rel=1e-9)

    def test_sliced_and_dealt_out_experts_weigh_the_same(self) -> None:
        model = load_model(DEEPSEEK_V3)
        sliced, dealt = (footprint(model, Split("bf16", "bf16", 8, ep=ep)).weights_bytes for ep in (1, 8))
        assert sliced == pytest.approx(dealt, rel=1e-12)

    def test_first_stage_holds_the_embedding(self) -> None:
        """Llama 3.1 8B over 4 stages: 8 layers and an embedding (as large as the LM head at the other end)."""
        model = load_model(LLAMA_8B)
        expected = (layer_elements(model, 24, 32) + model.lm_head_parameters + model.final_norm_parameters) * 2
        assert footprint(model, Split("bf16", "bf16", 1, pp=4)).weights_bytes == expected

    def test_tied_embedding_is_on_both_ends(self) -> None:
        """Llama 3.2 1B ties its embedding: one copy on one GPU, one on either of two stages."""
        model = load_model("meta-llama/Llama-3.2-1B-Instruct")
        assert footprint(model, Split("bf16", "bf16", 1)).weights_bytes == model.total_parameters * 2
        last = (layer_elements(model, 8, 16) + model.embedding_parameters + model.final_norm_parameters) * 2
        assert footprint(model, Split("bf16", "bf16", 1, pp=2)).weights_bytes == last

    def test_vocabulary_is_padded(self) -> None:
        """A vocabulary of 128,250 takes 128,256 rows, a multiple of 64, at both ends."""
        model = load_model(LLAMA_8B)
        rows = 128_250 * model.hidden_size
        odd = model.model_copy(update={"vocab_size": 128_250, "embedding_parameters": rows, "lm_head_parameters": rows})
        split = Split("bf16", "bf16", 1)
        assert footprint(odd, split).weights_bytes == pytest.approx(footprint(model, split).weights_bytes, rel=1e-12)

    @pytest.mark.parametrize(("heads", "share"), [(16, 1 / 4), (25, 1)])
    def test_vision_tower_is_sliced_or_whole(self, heads: int, share: float) -> None:
        """16 heads slice over 4 GPUs; 25 do not, and the tower is whole on each."""
        text = load_model(LLAMA_8B)
        model = text.model_copy(update={"vision_heads": heads, "vision_parameters": 400_000_000})
        split = Split("bf16", "bf16", 4)
        added = footprint(model, split).weights_bytes - footprint(text, split).weights_bytes
        assert added == pytest.approx(400e6 * 2 * share, rel=1e-6)

    def test_worst_stage_decides(self) -> None:
        """61 layers over 4 stages: the third holds 16 of DeepSeek-V3's MoE layers."""
        model = load_model(DEEPSEEK_V3)
        held = footprint(model, Split("bf16", "bf16", 1, pp=4))
        assert held.weights_bytes == layer_elements(model, 30, 46) * 2
        assert held.kv_bytes_per_token == 16 * (512 + 64) * 2


class TestCache:
    """Bytes of cache on one GPU."""

    @pytest.mark.parametrize(("tp", "heads"), [(1, 8), (4, 2), (8, 1), (16, 1)])
    def test_kv_heads_divide_then_replicate(self, tp: int, heads: int) -> None:
        """Llama 3.1 70B: 80 layers x heads on the GPU x 128 x 2 x 2 B."""
        held = footprint(load_model(LLAMA_70B), Split("bf16", "bf16", tp))
        assert held.kv_bytes_per_token == 80 * heads * 128 * 2 * 2

    @pytest.mark.parametrize("tp", [1, 8])
    def test_latent_cache_is_whole_on_every_rank(self, tp: int) -> None:
        """DeepSeek-V3: 61 layers x (512 + 64) x 2 B = 70,272 B, whatever TP is."""
        assert footprint(load_model(DEEPSEEK_V3), Split("fp8", "bf16", tp)).kv_bytes_per_token == 70_272

    def test_fp8_cache_is_half(self) -> None:
        whole, half = (
            footprint(load_model(LLAMA_70B), Split("bf16", kv, 1)).kv_bytes_per_token for kv in ("bf16", "fp8")
        )
        assert whole == 2 * half

    def test_sparse_latent_cache(self) -> None:
        """DeepSeek-V3.2 at FP8: 512 + 4 scales x 4 B + 64 x 2 B = 656 B, and 128 + 4 B of index keys, in 61 layers."""
        held = footprint(load_model("deepseek-ai/DeepSeek-V3.2"), Split("fp8", "fp8", 8))
        assert held.kv_bytes_per_token == 61 * (656 + 132)

    def test_windows(self) -> None:
        """Gemma 3 27B: 10 full and 52 sliding layers, 16 KV heads x 128 x 2 x 2 B = 8,192 B a layer, window 1,024."""
        held = footprint(load_model("google/gemma-3-27b-it"), Split("bf16", "bf16", 1))
        assert held.kv_bytes_per_token == 10 * 8192
        assert held.windowed == ((1024, 52 * 8192),)
        assert held.kv_bytes_per_sequence(512) == 62 * 8192 * 512
        assert held.kv_bytes_per_sequence(8192) == 10 * 8192 * 8192 + 52 * 8192 * 1024

    def test_chunks(self) -> None:
        """Llama 4 Scout: 12 full layers and 36 that attend to at most 8,192 tokens."""
        held = footprint(load_model("meta-llama/Llama-4-Scout-17B-16E-Instruct"), Split("bf16", "bf16", 1))
        assert held.windowed == ((8192, 36 * 8 * 128 * 2 * 2),)

    def test_states_do_not_grow_and_are_sliced(self) -> None:
        """Qwen3-Next: 36 linear layers hold a state per request, halved at TP2; 12 attention layers hold cache."""
        model = load_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
        at_1, at_2 = (footprint(model, Split("bf16", "bf16", tp)) for tp in (1, 2))
        assert at_1.kv_fixed_bytes_per_sequence == 2 * at_2.kv_fixed_bytes_per_sequence
        assert at_1.kv_fixed_bytes_per_sequence >= 36 * 32 * 128 * 128 * 2
        assert at_1.kv_bytes_per_token == 12 * 2 * 256 * 2 * 2
        assert at_1.kv_bytes_per_sequence(0) == at_1.kv_fixed_bytes_per_sequence


class TestActivations:
    """The peak of one engine step."""

    def test_forward_pass_of_the_batched_tokens(self) -> None:
        """Llama 3.1 8B, 20,000 tokens: 2 B x (3 x 4,096 + 3 x 14,336) each, 2.06 GiB; vLLM profiled 2.07."""
        held = footprint(load_model(LLAMA_8B), Split("bf16", "bf16", 1), max_batched_tokens=20_000)
        assert held.activation_bytes == 20_000 * 110_592

    def test_sampling_does_not_shrink_with_tensor_parallelism(self) -> None:
        """1,024 sequences x 128,256 entries x 15.4 B = 1.88 GiB; vLLM 0.19 profiled 1.89 at TP1 and at TP4."""
        for tp in (1, 4):
            held = footprint(load_model(LLAMA_8B), Split("bf16", "bf16", tp), max_sequences=1024)
            assert held.activation_bytes / GIB == pytest.approx(1.89, rel=0.01)


class TestStages:
    """How layers are dealt out."""

    @pytest.mark.parametrize(
        ("layers", "stages", "counts"),
        [(61, 4, (15, 15, 16, 15)), (94, 4, (23, 24, 24, 23)), (32, 4, (8, 8, 8, 8)), (5, 2, (3, 2)), (7, 1, (7,))],
    )
    def test_remainder_goes_before_the_last_stage(self, layers: int, stages: int, counts: tuple[int, ...]) -> None:
        """The splits that vLLM issue 46217 shows, and an even one."""
        assert stage_layer_counts(layers, stages) == counts

    def test_no_stage_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="at least 1 pipeline stage"):
            stage_layer_counts(61, 0)


class TestBadSplits:
    """What footprint refuses."""

    def test_unknown_weight_format(self) -> None:
        with pytest.raises(UnknownNameError, match="bf16"):
            footprint(load_model(LLAMA_8B), Split("bf17", "bf16", 1))

    def test_unknown_cache_dtype(self) -> None:
        with pytest.raises(UnknownNameError, match="KV cache dtype"):
            footprint(load_model(LLAMA_8B), Split("bf16", "int3", 1))

    def test_more_stages_than_layers(self) -> None:
        with pytest.raises(ValueError, match="at most 32 pipeline stages"):
            footprint(load_model(LLAMA_8B), Split("bf16", "bf16", 1, pp=33))


def test_one_gpu_holds_every_bundled_model_whole() -> None:
    """On one GPU nothing is refused or sliced: checkpoint and vision tower, with at most 7% of padding and copies."""
    shares = {}
    for name in bundled_models():
        model = load_model(name)
        split = Split(model.checkpoint.weights, "bf16", 1)
        assert check_split(model, split) == ()
        whole = model.weight_bytes() + 2 * model.vision_parameters
        shares[name] = footprint(model, split).weights_bytes / whole
    assert len(shares) >= 60
    assert {name: share for name, share in shares.items() if not 1 - 1e-9 <= share <= 1.07} == {}


def test_breakdown_shows_where_memory_goes() -> None:
    """Llama 3.1 70B at TP4 on an 80 GB GPU with one 8K request: a quarter of weights and cache, and 15% of both."""
    held = footprint(load_model(LLAMA_70B), Split("bf16", "bf16", 4))
    shown = breakdown(MemoryPolicy(), 79.25 * GIB, held, 1, 8192)
    assert shown.kv_cache_gib == 80 * 2 * 128 * 2 * 2 * 8192 / GIB
    assert shown.need_gib == pytest.approx((shown.weights_gib + shown.kv_cache_gib) * 1.15)
    assert shown.available_gib == pytest.approx(79.25 * 0.8)
    assert shown.fits
