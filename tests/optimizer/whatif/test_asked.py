"""Layouts in a user's words: what is read from them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.errors import QuestionError
from optimizer.whatif.asked import read_layout
from tests.optimizer.catalogs import catalog, offer

OFFERS = catalog(
    offer("H100-SXM-80GB", 2.0, provider="aws", instance_type="p5.48xlarge", region="us-east-1"),
    offer("A100-SXM-80GB", 4.0, 4),
).frame

READ: dict[str, dict[str, Any]] = {
    "4x A100-SXM-80GB tp=4": {"gpus": ("A100-SXM-80GB",), "gpus_rented": 4, "tp": 4},
    "4xA100-80GB TP4 fp8": {
        "gpus": ("A100-SXM-80GB", "A100-PCIE-80GB"),
        "gpus_rented": 4,
        "tp": 4,
        "weights": "fp8",
    },
    "tp=4 a100-sxm-80gb 4x": {"gpus": ("A100-SXM-80GB",), "tp": 4, "gpus_rented": 4},
    "2 nodes of 8x A100-SXM-80GB (acme, on-demand): 2 replicas in bf16 TP8 PP2, fp8 KV cache": {
        "gpus": ("A100-SXM-80GB",),
        "gpus_per_node": 8,
        "nodes": 2,
        "replicas": 2,
        "tp": 8,
        "pp": 2,
        "weights": "bf16",
        "kv_cache": "fp8",
        "provider": "acme",
        "term": "on-demand",
    },
    "A100 80GB": {"gpus": ("A100-SXM-80GB", "A100-PCIE-80GB")},
    "H200* term=spot replicas=2": {"gpus": ("H200-SXM-141GB", "H200-NVL-141GB"), "term": "spot", "replicas": 2},
    "8 GPUs of MI300X attention-DP8 EP8": {
        "gpus": ("MI300X-192GB",),
        "gpus_rented": 8,
        "attention_dp": 8,
        "ep": 8,
    },
    "dp=8attention ep=8": {"attention_dp": 8, "ep": 8},
    "p5.48xlarge in us-east-1": {"instance_type": "p5.48xlarge", "region": "us-east-1"},
    "provider=AWS kv=fp8 weights=int4": {"provider": "aws", "kv_cache": "fp8", "weights": "int4"},
    "L40S weights=bf16 kv_cache=bf16": {"gpus": ("L40S-48GB",), "weights": "bf16", "kv_cache": "bf16"},
    "nodes=3 4x L40S": {"gpus": ("L40S-48GB",), "nodes": 3, "gpus_per_node": 4},
}


@pytest.mark.parametrize("text", READ)
def test_the_words_of_a_layout_are_read_in_any_order(text: str) -> None:
    found = read_layout(text, OFFERS)

    assert {name: getattr(found, name) for name in found.named} == READ[text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names nothing"),
        ("H300", "or H100"),
        ("tp=0", "whole number from 1"),
        ("tp=4 TP8", "contradicts tp 4"),
        ("wights=fp8", "did you mean weights"),
        ("weights=fp7", "unknown weight format"),
        ("kv=int4", "unknown KV cache dtype"),
        ("term=cheap", "unknown term"),
        ("region=mars", "no offer has the region 'mars'"),
        ("provider=amz", "no offer has the provider 'amz'"),
        ("tp=four", "whole number"),
    ],
)
def test_words_that_mean_nothing_are_refused_with_an_example(text: str, said: str) -> None:
    with pytest.raises(QuestionError, match="expected a layout, such as") as error:
        read_layout(text, OFFERS)
    assert said in str(error.value)
