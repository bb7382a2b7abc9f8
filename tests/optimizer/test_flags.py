"""From flags to questions: flags replace what a file says, and a wrong value is answered under its flag's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import QuestionError, ScenarioError
from optimizer.fields import Part
from optimizer.flags import FIELDS, FitFlags, OffersFlags, PredictFlags, RunFlags, read_flags, read_question
from optimizer.scenario import PROVIDER_KINDS, TERMS, Memory, Scenario

MODEL = "meta-llama/Llama-3.1-70B-Instruct"
TRAFFIC: dict[str, Any] = {"input_tokens": "2000", "output_tokens": "300", "request_rate": "4"}
FIT: dict[str, Any] = {"model": MODEL, "gpu": "H100-SXM-80GB"}
PREDICT: dict[str, Any] = {**FIT, "concurrency": "8", "input_tokens": "100", "output_tokens": "10"}
FILE = """
model: meta-llama/Llama-3.1-70B-Instruct
workload: {input_tokens: 2000, output_tokens: 300, request_rate: 4, context_tokens: 4096}
targets: {ttft_ms: 1500}
limits: {gpus: [H100-SXM-80GB], tp: [2, 4], tp_across_nodes: true}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "chat.yaml"
    path.write_text(FILE)
    return str(path)


def refusal(flags: dict[str, Any], question: str = MODEL) -> str:
    """What read_question answers to bad flags."""
    with pytest.raises(QuestionError) as caught:
        read_question(question, flags)
    return str(caught.value)


# A question of its own


def test_a_model_with_lengths_and_traffic_is_a_question() -> None:
    scenario = read_question(MODEL, TRAFFIC)

    assert scenario.model == MODEL
    assert (scenario.workload.input_tokens, scenario.workload.output_tokens) == (2000, 300)
    assert scenario.workload.demand == 4.0


def test_every_flag_has_a_place_in_the_scenario() -> None:
    for section, field in FIELDS.values():
        part = Scenario.model_fields[section].annotation
        assert field in part.model_fields  # type: ignore[union-attr]


def test_values_are_joined_by_commas_or_by_repeating_the_flag() -> None:
    scenario = read_question(MODEL, TRAFFIC | {"tp": ["2,4", "8"], "gpu": ["H100-SXM-80GB", "H200-SXM-141GB"]})

    assert scenario.limits.tp == (2, 4, 8)
    assert scenario.limits.gpus == ("H100-SXM-80GB", "H200-SXM-141GB")


@pytest.mark.parametrize(("field", "value"), [("headroom", "0"), ("headroom", 0.0), ("overhead", 0)])
def test_a_zero_is_a_value_that_is_given(field: str, value: Any) -> None:
    assert getattr(read_question(MODEL, TRAFFIC | {field: value}).memory, field) == 0


def test_any_term_and_any_kind_of_provider_are_all_of_them() -> None:
    limits = read_question(MODEL, TRAFFIC | {"term": ["any"], "provider_kind": ["own,any"]}).limits

    assert limits.terms == TERMS
    assert limits.provider_kinds == PROVIDER_KINDS


@pytest.mark.parametrize(
    ("text", "provider", "percent"), [("aws=20", "aws", 20), ("aws=20%", "aws", 20), ("12.5", None, 12.5)]
)
def test_a_discount_names_its_provider_or_counts_for_all(text: str, provider: str | None, percent: float) -> None:
    (discount,) = read_question(MODEL, TRAFFIC | {"discount": [text]}).prices.discounts

    assert (discount.provider, discount.percent) == (provider, percent)


def test_the_name_of_an_offers_file_may_hold_a_comma() -> None:
    scenario = read_question(MODEL, TRAFFIC | {"offers_file": [Path("mine, new.csv")]})

    assert scenario.prices.offers_files == (Path("mine, new.csv"),)


# A file with flags


def test_a_file_without_flags_is_the_question_as_it_stands(file: str) -> None:
    scenario = read_question(file, {"gpu": None, "tp": [], "tp_across_nodes": None})

    assert scenario.limits.gpus == ("H100-SXM-80GB",)
    assert scenario.limits.tp_across_nodes
    assert scenario.workload.held_tokens == 4096


def test_a_flag_replaces_its_field_and_no_other(file: str) -> None:
    scenario = read_question(file, {"ttft_ms": "900", "tp": ["8"]})

    assert scenario.targets.ttft_ms == 900
    assert scenario.limits.tp == (8,)
    assert scenario.limits.gpus == ("H100-SXM-80GB",)
    assert scenario.workload.demand == 4.0


def test_another_kind_of_traffic_replaces_the_files(file: str) -> None:
    workload = read_question(file, {"concurrency": "64"}).workload

    assert (workload.kind, workload.demand) == ("concurrency", 64)


def test_other_lengths_drop_the_files_context(file: str) -> None:
    assert read_question(file, {"input_tokens": "8000"}).workload.held_tokens == 8300
    assert read_question(file, {"input_tokens": "8000", "context": "9000"}).workload.held_tokens == 9000


# What is refused


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("input_tokens", "many", "--input-tokens: expected a whole number from 1 to 10,000,000; got 'many'"),
        ("input_tokens", "0", "--input-tokens: expected a whole number from 1 to 10,000,000; got '0'"),
        ("input_tokens", 0, "--input-tokens: expected a whole number from 1 to 10,000,000; got 0"),
        ("output_tokens", "1e99", "--output-tokens: expected a whole number from 1 to 10,000,000; got '1e99'"),
        ("request_rate", "nan", "--request-rate: expected a number from 0.000001 to 1,000,000,000; got 'nan'"),
        ("request_rate", "inf", "--request-rate: expected a number from 0.000001 to 1,000,000,000; got 'inf'"),
        ("ttft_ms", "-1", "--ttft-ms: expected a number from 0.000001 to 1,000,000,000; got '-1'"),
        ("gpu", ["H100"], "--gpu: Unknown GPU 'H100'. Did you mean H100-SXM-80GB"),
        ("exclude_gpu", ["H100"], "--exclude-gpu: Unknown GPU 'H100'. Did you mean H100-SXM-80GB"),
        ("term", ["spt"], "--term: unknown term 'spt'; did you mean spot?"),
        ("provider_kind", ["hyper"], "--provider-kind: unknown provider kind 'hyper'; did you mean hyperscaler?"),
        ("weights", ["bf15"], "--weights: unknown weight format 'bf15'; did you mean bf16?"),
        ("kv_cache", ["fp9"], "--kv-cache: unknown KV cache dtype 'fp9'; did you mean fp8?"),
        ("tp", ["0"], "--tp: expected a whole number from 1 to 1,024; got '0'"),
        ("replicas", ["2.5"], "--replicas: expected a whole number from 1 to 100,000; got '2.5'"),
        ("max_gpus", "-3", "--max-gpus: expected a whole number from 1 to 1,000,000,000; got '-3'"),
        ("budget_usd_per_hour", "0", "--budget-usd-per-hour: expected a number from 0.000001"),
        ("memory_policy", "engin", "--memory-policy: expected 'framework' or 'engine'; got 'engin'"),
        ("headroom", "1.5", "--headroom: expected a share from 0 to 0.95 (15% is 0.15); got '1.5'"),
        ("gpu_memory_utilization", "90", "--gpu-memory-utilization: expected a share from 0.01 to 1"),
        ("as_of", "someday", "--as-of: expected a day such as 2026-08-14; got 'someday'"),
        ("max_price_age_days", "-1", "--max-price-age-days: expected a whole number from 0 to 36,500; got '-1'"),
        ("discount", ["aws=101"], "--discount: expected a percentage above 0 and at most 99; got 101.0"),
        ("discount", ["aws=nan"], "--discount: expected a percentage above 0 and at most 99; got nan"),
        ("discount", ["much"], "--discount 'much': expected PROVIDER=PERCENT, as in aws=20"),
        ("discount", ["=20"], "--discount '=20': expected PROVIDER=PERCENT, as in aws=20; the provider is missing"),
        ("gpu", [""], "--gpu '': expected values joined by commas, none empty"),
        ("tp", ["2,,4"], "--tp '2,,4': expected values joined by commas, none empty"),
        ("context", "100", "context_tokens 100 is shorter than input_tokens + output_tokens = 2300"),
    ],
)
def test_a_wrong_flag_is_answered_with_flag_value_and_what_is_accepted(flag: str, value: Any, message: str) -> None:
    assert message in refusal(TRAFFIC | {flag: value})


def test_all_wrong_flags_are_named_at_once() -> None:
    message = refusal(TRAFFIC | {"tp": ["0"], "headroom": "2", "ttft_ms": "x"})

    assert message.startswith("flags:\n")
    assert all(flag in message for flag in ("--tp:", "--headroom:", "--ttft-ms:"))


def test_a_wrong_flag_beside_a_file_names_both(file: str) -> None:
    message = refusal({"ttft_ms": "0"}, file)

    assert message.startswith(f"{file} with flags:\n  - --ttft-ms: ")


def test_two_kinds_of_traffic_are_refused_by_their_flags(file: str) -> None:
    assert "--request-rate and --concurrency say the traffic twice" in refusal(TRAFFIC | {"concurrency": "8"})
    both = {"concurrency": "8", "output_tokens_per_second": "9"}
    assert "--concurrency and --output-tokens-per-second say the traffic twice" in refusal(both, file)


def test_a_model_without_traffic_is_told_what_is_missing() -> None:
    assert "needs --input-tokens, --output-tokens, one of --request-rate, --concurrency," in refusal({})
    assert "needs --output-tokens (or give a scenario file" in refusal({"input_tokens": "1", "concurrency": "1"})


def test_an_empty_model_is_refused_as_the_argument_that_it_is() -> None:
    assert "MODEL: expected a name that is not empty; got ''" in refusal(TRAFFIC, "")


# Commands that ask no scenario


def test_flags_not_given_take_the_defaults_that_a_scenario_has_too() -> None:
    flags, memory = read_flags(FitFlags, FIT | {"tp": None, "headroom": None}), Memory()

    assert (flags.tp, flags.context, flags.concurrency, flags.weights) == (1, 8192, 1, None)
    assert flags.memory_policy == memory.policy
    for name in ("headroom", "overhead", "gpu_memory_utilization"):
        assert getattr(flags, name) == getattr(memory, name)


@pytest.mark.parametrize(
    ("part", "given", "flag", "value", "message"),
    [
        (FitFlags, FIT, "tp", "0", "--tp: expected a whole number from 1 to 1,024; got '0'"),
        (FitFlags, FIT, "context", "nan", "--context: expected a whole number from 1 to 10,000,000; got 'nan'"),
        (FitFlags, FIT, "concurrency", "-1", "--concurrency: expected a whole number from 1 to 1,000,000; got '-1'"),
        (FitFlags, FIT, "weights", "any", "--weights: unknown weight format 'any'"),
        (
            FitFlags,
            FIT,
            "weights",
            "bf15",
            "--weights: unknown weight format 'bf15'; did you mean bf16? (accepted: fp32,",
        ),
        (FitFlags, FIT, "kv_cache", "int8", "--kv-cache: unknown KV cache dtype 'int8'"),
        (FitFlags, FIT, "memory_policy", "engin", "--memory-policy: expected 'framework' or 'engine'; got 'engin'"),
        (FitFlags, FIT, "headroom", "1.5", "--headroom: expected a share from 0 to 0.95 (15% is 0.15); got '1.5'"),
        (FitFlags, FIT, "overhead", "nan", "--overhead: expected a share from 0 to 0.95 (15% is 0.15); got 'nan'"),
        (FitFlags, FIT, "gpu_memory_utilization", "0", "--gpu-memory-utilization: expected a share from 0.01 to 1"),
        (FitFlags, FIT, "gpu", "", "--gpu: expected a name that is not empty; got ''"),
        (FitFlags, FIT, "model", "", "MODEL: expected a name that is not empty; got ''"),
        (PredictFlags, PREDICT, "concurrency", "0", "--concurrency: expected a whole number from 1 to 4,096; got '0'"),
        (PredictFlags, PREDICT, "input_tokens", "x", "--input-tokens: expected a whole number from 1 to 10,000,000"),
        (PredictFlags, PREDICT, "output_tokens", "inf", "--output-tokens: expected a whole number from 1 to"),
        (RunFlags, {}, "time_limit", "nan", "--time-limit: expected seconds from 0.1 to 86,400; got 'nan'"),
        (RunFlags, {}, "time_limit", "0", "--time-limit: expected seconds from 0.1 to 86,400; got '0'"),
        (OffersFlags, {}, "as_of", "20260814", "--as-of: expected a day such as 2026-08-14; got '20260814'"),
        (OffersFlags, {}, "limit", "-1", "--limit: expected a whole number from 0 to 1,000,000; got '-1'"),
    ],
)
def test_a_wrong_flag_of_any_command_is_answered_alike(
    part: type[Part], given: dict[str, Any], flag: str, value: str, message: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_flags(part, given | {flag: value})
    assert f"flags:\n  - {message}" in str(caught.value)
