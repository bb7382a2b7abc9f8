"""optimizer.validate.predict: each report decided by the rule that it names, and its twin the other way."""

from __future__ import annotations

import pytest

from optimizer.validate.predict import predict
from tests.optimizer.validate.reports import case, cases, report

DECIDED = [row for row in cases() if row["rule"]]
NAMED_BY_SOMETHING_ELSE = {"warm_up", "vram_headroom"}


@pytest.mark.parametrize("row", DECIDED, ids=lambda row: row["case"])
def test_reports_are_decided_by_the_rule_they_name(row: dict[str, str]) -> None:
    """The reason names the rule, and the answer is the report's where it gives one."""
    found = predict(report(row))
    assert row["rule"] in found.reason
    assert found.fits in ("yes", "no")
    if row["observed_fits"] in ("yes", "no"):
        assert found.fits == row["observed_fits"], found.reason


def test_every_kind_b_and_c_report_names_its_rule() -> None:
    """No report of a refused split or precision is left without a rule to name."""
    assert [row["case"] for row in cases() if row["kind"] in "bc" and not row["rule"]] == []


def test_predictions_do_not_read_what_was_observed() -> None:
    """Blanking every observed cell changes no prediction."""
    for row in cases():
        blank = {**report(row), "weights_gib_per_gpu": "", "kv_tokens": "", "max_concurrency": "", "fits": ""}
        assert predict(blank) == predict(report(row)), row["case"]


@pytest.mark.parametrize(
    ("name", "changed", "fits", "rule"),
    [
        pytest.param("B01", {"tp": "4", "n_gpus": "4"}, "yes", "", id="40 heads over 4 GPUs"),
        pytest.param("B08", {"tp": "4", "n_gpus": "4"}, "yes", "", id="vocabulary over 4"),
        pytest.param("B11", {"tp": "4", "n_gpus": "4"}, "yes", "", id="experts of 384 are 3 blocks"),
        pytest.param("B11", {"ep": "8"}, "yes", "", id="whole experts over 8 GPUs"),
        pytest.param("B12", {"tp": "2", "n_gpus": "2"}, "yes", "", id="experts of 384"),
        pytest.param("B13", {"tp": "8", "ep": "8"}, "no", "quantization_blocks", id="shared expert is sliced anyway"),
        pytest.param("B13", {"tp": "4", "n_gpus": "4"}, "yes", "", id="shared expert of 128"),
        pytest.param("B14", {"tp": "16", "n_gpus": "16"}, "no", "dtype_supported", id="blocks fit, Ampere does not"),
        pytest.param("B14", {"weights_dtype": "bf16"}, "yes", "", id="BF16 has no blocks"),
        pytest.param("B18", {"date": "2026-03-01"}, "no", "quantization_blocks", id="before shards were padded"),
        pytest.param("B22", {"date": "2025-06-01", "tp": "8"}, "yes", "", id="tower whole on each GPU"),
        pytest.param("B30", {"engine": "vLLM 0.4.0"}, "no", "layers_over_stages", id="uneven stages came with 0.5.1"),
        pytest.param("C02", {"gpu": "H100"}, "yes", "dtype_supported", id="FP8 on Hopper"),
        pytest.param("C02", {"date": "2026-06-01"}, "yes", "dtype_supported", id="weight-only FP8 came later"),
        pytest.param("C03", {"engine": "vLLM 0.10", "n_gpus": "8", "tp": "8"}, "yes", "dtype_supported", id="later"),
        pytest.param("C05", {"gpu": "V100 32GB"}, "no", "dtype_supported", id="no FP8 cache on Volta"),
        pytest.param(
            "C07", {"gpu": "V100 16GB", "weights_dtype": "fp16"}, "yes", "dtype_supported", id="7.0 is enough"
        ),
        pytest.param("C08", {"date": "2025-06-01"}, "no", "dtype_supported", id="before the weight-only kernel"),
        pytest.param("C11", {"gpu": "T4 16GB"}, "no", "dtype_supported", id="no MXFP4 kernel on Turing"),
        pytest.param("C13", {"max_model_len": "32768"}, "yes", "dtype_supported", id="a short context"),
        pytest.param("C17", {"gpu": "H200 141GB"}, "yes", "dtype_supported", id="Marlin is there on CUDA"),
        pytest.param("C18", {"mem_util": "0.90"}, "no", "warm_up", id="too little left outside the fraction"),
        pytest.param("A20", {"max_model_len": "35000"}, "yes", "", id="beyond 32k prefills are chunked"),
        pytest.param("A21", {"max_model_len": "23000"}, "yes", "", id="short enough for what is left"),
        pytest.param("A34", {"mem_util": "0.90"}, "yes", "", id="room for the warm-up"),
        pytest.param("A47", {"mem_util": "0.85"}, "yes", "", id="room for graphs over PCI Express"),
        pytest.param("A49", {"mem_util": "0.90"}, "yes", "", id="1.57 GiB more outside"),
        pytest.param("A53", {"mem_util": "0.92"}, "yes", "", id="0.9113 was the least"),
        pytest.param("A10", {"n_gpus": "2", "tp": "2"}, "yes", "", id="half the weights on each"),
        pytest.param("F07", {"n_gpus": "4", "tp": "2", "pp": "2"}, "yes", "", id="149 GiB over four"),
    ],
)
def test_twins(name: str, changed: dict[str, str], fits: str, rule: str) -> None:
    """The same report with one thing changed is decided the other way (or by another rule)."""
    found = predict(case(name, **changed))
    assert found.fits == fits, found.reason
    assert rule in found.reason


def test_bf16_does_not_run_on_volta_where_it_is_asked_for() -> None:
    """A report that says BF16 is refused on V100; one that says nothing runs in FP16."""
    asked = case("A20", gpu="V100 32GB", total_gib="", weights_dtype="bf16", max_model_len="4096")
    assert predict(asked).rule == "dtype_supported"
    assert predict({**asked, "weights_dtype": "", "kv_dtype": ""}).fits == "yes"


def test_sparse_latent_attention_needs_newer_kernels() -> None:
    """DeepSeek-V3.2's sparse attention has no kernel on A100; on H200 it runs."""
    row = case("A54", model="deepseek-ai/DeepSeek-V3.2", engine="vLLM 0.19.0", gpu="A100 80GB", n_gpus="16", tp="16")
    assert "sparse latent attention" in predict(row).reason
    assert predict({**row, "gpu": "H200 141GB", "n_gpus": "8", "tp": "8"}).fits == "yes"


def test_pipeline_stages_are_said() -> None:
    """61 and 94 layers over 4 stages, the remainder on the middle ones (vLLM issue 46217)."""
    reason = predict(case("B26")).reason
    assert "61 layers over 4 stages: 15, 15, 16, 15" in reason
    assert "94 layers over 4 stages: 23, 24, 24, 23" in reason


def test_accepted_sizes_are_said() -> None:
    """The refusal of TP3 names the sizes that load: 1, 2, 4, 8 for 40 heads, a width of 13,824 and 32,000 tokens."""
    assert "tp that load: 1, 2, 4, 8;" in predict(case("B01")).reason + ";"


def test_unknown_models_and_gpus_are_not_judged() -> None:
    """A model or GPU that is not known leaves the row without numbers, and says which."""
    strange = predict(case("A22", model="nobody/Nothing-7B"))
    assert (strange.weights_gib, strange.fits) == (None, "")
    assert "nobody/Nothing-7B" in strange.not_judged[0]
    nowhere = predict(case("A22", gpu="a cluster", total_gib=""))
    assert (nowhere.kv_tokens, nowhere.fits) == (None, "")
    assert "a cluster" in nowhere.not_judged[0]


def test_numbers_that_cannot_be_read_are_named() -> None:
    """A tp of "eight" is named, and nothing is predicted from the rest."""
    assert predict(case("A22", tp="eight")).not_judged == ("expected positive numbers, got tp 'eight'",)
    assert predict(case("A22", tp="1e300", n_gpus="1e300")).fits == "yes"
    assert "65,536" in predict(case("A22", tp="100000")).not_judged[0]
