"""Drawings are well-formed SVG that shows every GPU, fits its width, and escapes what it is given."""

from __future__ import annotations

import re
from datetime import date
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from optimizer.plan import Layout, MemoryUse, Performance, Saturation, TargetCheck
from optimizer.report.drawings import Bar, colours_css, draw_costs, draw_latency, draw_layout, draw_memory
from optimizer.report.drawings.places import MOST_NODES, nodes_of_layout
from optimizer.report.drawings.svg import escaped

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "\"'<script>alert(1)</script>&amp;\n$(rm -rf ~)\x00\ud800"


def layout(**facts: Any) -> Layout:
    fields: dict[str, Any] = {
        "provider": "acme", "provider_kind": "gpu-cloud", "region": "east", "instance_type": "big",
        "gpu": "H100-SXM-80GB",
        "gpus_per_node": 8, "nodes": 1, "term": "on-demand", "price_usd_per_node_hour": 16.0, "fabric": "nvswitch",
        "scale_up_gpus": 8, "network": "infiniband", "network_gbit_per_s": 3200.0, "max_nodes": None, "weights": "bf16",
        "kv_cache": "bf16", "tp": 8, "pp": 1, "ep": 1, "attention_dp": 1, "replicas": 1, "nodes_per_replica": 1,
        "gpus_used": 8, "concurrency_per_replica": 32, "price_seen_on": date(2026, 8, 14), "price_source": "by-hand",
    }  # fmt: skip
    fields |= facts
    if "gpus_used" not in facts:
        fields["gpus_used"] = fields["replicas"] * fields["tp"] * fields["pp"] * fields["attention_dp"]
    return Layout(**fields)


def memory(**facts: Any) -> MemoryUse:
    fields: dict[str, Any] = {
        "policy": "framework", "weights_gib": 30.0, "kv_cache_gib": 10.0, "activations_gib": 1.0, "overhead_gib": 5.0,
        "need_gib": 46.0, "available_gib": 63.4, "headroom_left_gib": 17.4, "gpu_memory_gib": 79.2,
        "kv_tokens": 100_000, "context_tokens": 2300,
    }  # fmt: skip
    return MemoryUse(**fields | facts)


def performance(**facts: Any) -> Performance:
    fields: dict[str, Any] = {
        "ttft_ms": 200.0, "ttft_ms_low": 150.0, "ttft_ms_high": 400.0, "tpot_ms": 30.0, "tpot_ms_low": 25.0,
        "tpot_ms_high": 36.0, "e2e_ms": 9000.0, "e2e_ms_low": 8000.0, "e2e_ms_high": 10_500.0,
        "output_tokens_per_second": 900.0, "requests_per_second": 3.0, "step_ms": {"weights": 20.0}, "basis": "fitted",
        "error_band": 0.05, "requests_in_flight": 20.0, "utilization": 0.5,
        "percentiles": {name: {"p95": value} for name, value in (("ttft", 400.0), ("tpot", 45.0), ("e2e", 12_000.0))},
        "saturation": Saturation(concurrency=32, tpot_ms=40.0, output_tokens_per_second=1.5e3, requests_per_second=5.0),
    }  # fmt: skip
    return Performance(**fields | facts)


def target(name: str = "tpot", **facts: Any) -> TargetCheck:
    fields: dict[str, Any] = {
        "name": name, "unit": "ms", "target": 50.0, "predicted": 30.0, "at_confidence": 30.0, "holds": True,
        "probability": 0.999, "close_call": False,
    }  # fmt: skip
    return TargetCheck(**fields | facts)


def read(svg: str) -> Xml.Element:
    """Parse a drawing and check what all of them have: a title, a description, and nothing outside the view box."""
    root = Xml.fromstring(svg)
    assert [child.tag for child in list(root)[:2]] == [f"{SVG}title", f"{SVG}desc"]
    assert all((child.text or "").strip() for child in list(root)[:2])
    _, _, wide, high = (float(one) for one in root.attrib["viewBox"].split())
    for box in root.iter(f"{SVG}rect"):
        if not box.attrib["width"].endswith("%"):
            assert float(box.attrib["x"]) >= 0
            assert float(box.attrib["x"]) + float(box.attrib["width"]) <= wide + 0.5
            assert float(box.attrib["y"]) + float(box.attrib["height"]) <= high
    return root


def words(root: Xml.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


SHAPES = {
    "one GPU": {"gpus_per_node": 1, "tp": 1, "fabric": "single", "scale_up_gpus": 1},
    "tensor parallel": {"gpus_per_node": 2, "tp": 2, "scale_up_gpus": 2},
    "replicas share a node": {"tp": 2, "replicas": 4},
    "idle GPUs": {"tp": 4, "replicas": 3, "nodes": 2},
    "stages in a node": {"tp": 2, "pp": 4},
    "stages across nodes": {"tp": 8, "pp": 2, "nodes": 2, "nodes_per_replica": 2},
    "attention DP with experts": {"tp": 1, "attention_dp": 8, "ep": 8},
    "PCIe, three GPUs": {"gpus_per_node": 3, "tp": 1, "replicas": 3, "fabric": "pcie", "scale_up_gpus": 1},
    "seven GPUs": {"gpus_per_node": 7, "tp": 1, "replicas": 7},
    "sixteen GPUs in two domains": {"gpus_per_node": 16, "tp": 8, "replicas": 2},
    "64 nodes, a replica each": {"nodes": 64, "replicas": 64},
    "64 nodes, 16 replicas": {"tp": 8, "pp": 4, "nodes": 64, "replicas": 16, "nodes_per_replica": 4},
    "64 nodes, one replica": {"tp": 8, "pp": 64, "nodes": 64, "nodes_per_replica": 64},
}


@pytest.mark.parametrize("width", [340.0, 720.0])
@pytest.mark.parametrize("name", SHAPES)
def test_a_layout_of_any_shape_is_drawn_within_its_width(name: str, width: float) -> None:
    root = read(draw_layout(layout(**SHAPES[name]), width=width))
    assert float(root.attrib["viewBox"].split()[2]) == width


@pytest.mark.parametrize("name", [name for name in SHAPES if not name.startswith("64")])
def test_every_rented_gpu_is_drawn_once_and_idle_ones_say_so(name: str) -> None:
    asked = layout(**SHAPES[name])
    said = words(read(draw_layout(asked)))
    assert sum(bool(re.fullmatch(r"GPU \d+", text)) for text in said) == asked.nodes * asked.gpus_per_node
    assert said.count("idle") == asked.nodes * asked.gpus_per_node - asked.gpus_used


@pytest.mark.parametrize("name", [name for name in SHAPES if name.startswith("64")])
def test_many_nodes_are_drawn_as_few_that_stand_for_all(name: str) -> None:
    nodes = nodes_of_layout(layout(**SHAPES[name]))
    assert len(nodes) <= MOST_NODES
    assert sum(node.count * 1 + node.apart for node in nodes) == 64


def test_every_gpu_of_a_replica_has_its_own_place_in_stage_rank_and_group() -> None:
    seats = [seat for node in nodes_of_layout(layout(tp=2, pp=2, attention_dp=2)) for seat in node.seats]
    places = [(seat.stage, seat.attention_rank, seat.rank) for seat in seats if seat is not None]
    assert places == [(stage, dp, rank) for stage in (0, 1) for dp in (0, 1) for rank in (0, 1)]


def test_fabric_and_network_are_named() -> None:
    said = words(read(draw_layout(layout(nodes=2, replicas=2))))
    assert "NVSwitch" in said
    assert "InfiniBand 3,200 Gbit/s between nodes" in said


def test_one_node_has_no_network_drawn() -> None:
    assert not any("between nodes" in said for said in words(read(draw_layout(layout()))))


def test_what_is_drawn_is_told_in_the_description() -> None:
    root = read(draw_layout(layout(tp=4, pp=2, nodes=1)))
    assert "2 pipeline stages, tensor parallel groups of 4" in (root.findtext(f"{SVG}desc") or "")


def test_memory_parts_are_as_long_as_their_share_of_the_gpu() -> None:
    root = read(draw_memory(memory(), width=722.0))
    bars = {
        (box.findtext(f"{SVG}title") or "").partition(":")[0]: float(box.attrib["width"])
        for box in root.iter(f"{SVG}rect")
        if box.find(f"{SVG}title") is not None
    }
    # 720 units are 79.2 GiB
    assert bars["weights"] == pytest.approx(30.0 / 79.2 * 720, abs=0.01)
    assert bars["KV cache"] == pytest.approx(10.0 / 79.2 * 720, abs=0.01)
    assert "17.4 GiB left" in words(root)


def test_memory_that_does_not_fit_is_drawn_whole_and_says_how_much_is_lacking() -> None:
    root = read(draw_memory(memory(weights_gib=130.0, need_gib=146.0, headroom_left_gib=-82.6)))
    assert "82.6 GiB too little" in words(root)


def test_several_memories_share_one_scale() -> None:
    said = words(read(draw_memory([("stage 1", memory()), ("stage 2", memory(gpu_memory_gib=140.0))])))
    assert {"stage 1", "stage 2", "140.0 GiB per GPU"} <= set(said)


def test_a_latency_shows_its_band_and_its_target() -> None:
    said = words(read(draw_latency(performance(), [target()])))
    assert "30 ms (25 ms \u2013 36 ms)" in said
    assert "target 50 ms: holds" in said


def test_a_target_at_a_percentile_is_held_against_that_percentile() -> None:
    said = words(read(draw_latency(performance(), [target(at="p95", predicted=45.0, close_call=True)])))
    # The band is widened as the mean is: 45/30 times 25 and 36.
    assert "45 ms (37.5 ms \u2013 54 ms)" in said
    assert "Time per output token, p95" in said


def test_a_missed_target_says_missed() -> None:
    missed = target(target=20.0, holds=False, probability=0.01)
    assert "target 20 ms: missed" in words(read(draw_latency(performance(), [missed])))


def test_costs_are_drawn_from_zero() -> None:
    root = read(draw_costs([Bar("a", 5.0, chosen=True), Bar("b", 10.0)]))
    short, long = (float(box.attrib["width"]) for box in root.iter(f"{SVG}rect"))
    assert long == pytest.approx(2 * short, abs=0.02)


def test_hostile_names_are_text_and_nothing_else() -> None:
    asked = layout(
        provider=HOSTILE, instance_type=HOSTILE, gpu=HOSTILE, fabric=HOSTILE, network=HOSTILE, nodes=2, replicas=2
    )
    for svg in (
        draw_layout(asked),
        draw_memory([(HOSTILE, memory())]),
        draw_costs([Bar(HOSTILE, 1.0)]),
        draw_latency(performance(), [target(at="p95")]),
    ):
        root = read(svg)
        assert not [one for one in root.iter() if one.tag == f"{SVG}script"]
        assert "<script" not in svg


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    assert escaped("a\x00b\ud800c\x1b") == "a\ufffdb\ufffdc\ufffd"


def test_a_drawing_is_the_same_bytes_every_time() -> None:
    assert draw_layout(layout()) == draw_layout(layout())


def test_a_file_of_its_own_brings_its_colours_along() -> None:
    assert "<style>" in draw_layout(layout(), standalone=True)
    assert "<style>" not in draw_layout(layout())


def test_colours_for_dark_follow_the_system_or_a_selector() -> None:
    assert "prefers-color-scheme: dark" in colours_css()
    assert colours_css(":root", ".dark").count("{") == 2
