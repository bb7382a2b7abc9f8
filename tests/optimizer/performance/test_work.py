from __future__ import annotations

import numpy as np
import pytest

from catalogs.models import ModelSpec, load_model
from optimizer.performance.work import Splits, Work, pass_work


def split(weights: str = "bf16", kv: str = "bf16", tp: int = 1, pp: int = 1, ep: int = 1, dp: int = 1) -> Splits:
    return Splits([weights], [kv], *(np.array([float(n)]) for n in (tp, pp, ep, dp)))


def kv_bytes(work: Work, context: float) -> float:
    """KV bytes that one request's token reads at a context length."""
    return float(sum(s.bytes_per_token[0] * min(context, s.window or context) for s in work.scores))


def test_weights_read_are_the_parameters_without_the_embedding(llama_70b: ModelSpec) -> None:
    """70.55 B parameters less 128,256 x 8,192 of the embedding and the norms, at 2 bytes: 139 GB; half on each of 2."""
    embedding_and_norms = 128256 * 8192 + 161 * 8192
    expected = 2.0 * (llama_70b.total_parameters - embedding_and_norms)
    assert pass_work(llama_70b, split()).dense_bytes[0] == pytest.approx(expected, rel=1e-6)
    assert pass_work(llama_70b, split(tp=2)).dense_bytes[0] == pytest.approx(expected / 2, rel=1e-6)


def test_160_all_reduces_a_pass(llama_70b: ModelSpec) -> None:
    """80 layers reduce after attention and after the MLP: 160; a GPU alone reduces nothing."""
    assert pass_work(llama_70b, split(tp=4)).reductions[0] == 160
    assert pass_work(llama_70b, split(tp=1)).reductions[0] == 0


def test_kv_heads_are_copied_beyond_their_number(llama_70b: ModelSpec) -> None:
    """8 KV heads: 80 layers x 2 x 128 x 2 bytes x 1 head a GPU at TP 8, and the same at TP 16."""
    per_head = 80 * 2 * 128 * 2
    assert kv_bytes(pass_work(llama_70b, split(tp=4)), 1) == 2 * per_head
    assert kv_bytes(pass_work(llama_70b, split(tp=8)), 1) == per_head
    assert kv_bytes(pass_work(llama_70b, split(tp=16)), 1) == per_head


def test_latent_attention_reads_its_cache_on_every_rank() -> None:
    """DeepSeek-V3 reads 61 layers x (512 + 64) x 2 bytes a token, on one GPU as on each of eight."""
    model = load_model("deepseek-ai/DeepSeek-V3")
    for tp in (1, 8):
        assert kv_bytes(pass_work(model, split(tp=tp)), 1) == 61 * 576 * 2


def test_sliding_windows_cap_what_is_read() -> None:
    """gpt-oss-120b: 18 full layers see it all, 18 sliding ones 128 tokens; 8 KV heads x 64 x 2 x 2 bytes each."""
    model = load_model("openai/gpt-oss-120b")
    token = 8 * 64 * 2 * 2
    assert kv_bytes(pass_work(model, split("mxfp4")), 10_000) == 18 * token * (10_000 + 128)


def test_experts_are_held_apart_from_dense_weights() -> None:
    """Mixtral 8x7B holds 32 layers x 8 experts x 3 x 4096 x 14336 elements, and a token computes two of the eight."""
    work = pass_work(load_model("mistralai/Mixtral-8x7B-v0.1"), split())
    expert = 3 * 4096 * 14336
    (group,) = work.experts
    assert group.bytes_held[0] == 32 * 8 * expert * 2
    assert group.flop_per_token["bf16"][0] == 2 * 32 * 2 * expert


def test_attention_data_parallel_copies_attention_and_spreads_experts() -> None:
    """On 8 GPUs as 8 attention ranks every GPU reads all attention weights and an eighth of the experts."""
    model = load_model("deepseek-ai/DeepSeek-V3")
    ranks = pass_work(model, split("fp8", ep=8, dp=8))
    sliced = pass_work(model, split("fp8", tp=8))
    assert ranks.experts[0].bytes_held[0] == pytest.approx(sliced.experts[0].bytes_held[0])
    assert ranks.dense_bytes[0] > 2 * sliced.dense_bytes[0]


def test_the_fullest_stage_sets_the_pace(llama_70b: ModelSpec) -> None:
    """80 layers over 3 stages: 27 in the fullest, so a pass takes 81 layers' time."""
    assert pass_work(llama_70b, split(pp=3)).layers[0] == pytest.approx(81)
    assert pass_work(llama_70b, split(pp=4)).layers[0] == pytest.approx(80)
