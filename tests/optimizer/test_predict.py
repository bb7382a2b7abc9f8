"""How fast one replica is: the figures agree with each other, move the right way, and refuse what cannot run."""

from __future__ import annotations

import pytest

from catalogs.models import load_model
from optimizer.errors import QuestionError
from optimizer.predict import Speed, predict
from optimizer.replica import name_replica

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


def speed_of(
    gpu: str = "H200-SXM-141GB", *, tp: int = 2, pp: int = 1, weights: str = "fp8", concurrency: int = 64,
    input_tokens: int = 1024, output_tokens: int = 1024,
) -> Speed:  # fmt: skip
    """The speed of a replica of Llama 3.1 70B."""
    replica = name_replica(load_model(LLAMA_70B), gpu, tp=tp, pp=pp, weights=weights)
    return predict(replica, concurrency=concurrency, input_tokens=input_tokens, output_tokens=output_tokens)


def test_latency_and_throughput_obey_littles_law() -> None:
    found = speed_of()

    assert found.e2e_ms == pytest.approx(found.ttft_ms + 1023 * found.tpot_ms, rel=1e-6)
    # 64 requests in flight, each e2e long: 64 / e2e requests per second, and 1,024 tokens each.
    assert found.requests_per_second == pytest.approx(64 / (found.e2e_ms / 1e3), rel=0.01)
    assert found.output_tokens_per_second == pytest.approx(found.requests_per_second * 1024, rel=1e-6)
    assert found.output_tokens_per_second_per_gpu == pytest.approx(found.output_tokens_per_second / 2)


def test_a_step_is_the_sum_of_its_causes_and_tpot_adds_the_prefills_of_others() -> None:
    found = speed_of()

    assert 0 < sum(found.step_ms.values()) <= found.tpot_ms * 1.001
    assert min(found.step_ms.values()) >= 0


@pytest.mark.parametrize("field", ["ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_second"])
def test_more_requests_wait_longer_and_produce_more_together(field: str) -> None:
    few, many = speed_of(concurrency=4), speed_of(concurrency=128)

    assert getattr(many, field) > getattr(few, field)


def test_narrower_weights_and_faster_memory_make_a_lone_request_faster() -> None:
    slow = speed_of("H100-SXM-80GB", tp=4, weights="bf16", concurrency=1)

    assert speed_of("H100-SXM-80GB", tp=4, weights="fp8", concurrency=1).tpot_ms < slow.tpot_ms
    assert speed_of("H200-SXM-141GB", tp=4, weights="bf16", concurrency=1).tpot_ms < slow.tpot_ms


def test_what_does_not_fit_in_memory_is_marked() -> None:
    assert speed_of(concurrency=8).fits
    assert not speed_of("H100-SXM-80GB", tp=1, weights="bf16", concurrency=8).fits


def test_a_split_that_engines_refuse_is_refused_with_every_reason() -> None:
    with pytest.raises(QuestionError) as caught:
        speed_of(tp=3)

    assert "does not run as fp8 tp=3 pp=1 ep=1 on H200-SXM-141GB" in str(caught.value)
    assert "64 query heads to divide by tp 3" in str(caught.value)
    assert "the MLP width of 28,672 to divide over 3 GPUs" in str(caught.value)


def test_a_request_longer_than_the_models_context_is_refused() -> None:
    with pytest.raises(QuestionError, match=r"is 131,073: the context of .* is at most 131,072"):
        speed_of(input_tokens=131_000, output_tokens=73)
