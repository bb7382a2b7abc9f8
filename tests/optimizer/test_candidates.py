"""The grid of replicas: which splits are placed on which nodes, and which rule keeps the others out."""

from __future__ import annotations

from typing import Any

import pytest

from catalogs.models import ModelSpec, load_model
from optimizer.candidates import (
    Candidates,
    allowed_kv_caches,
    allowed_weights,
    build_candidates,
    next_precision,
    node_shapes,
)
from optimizer.check.audit import Audit
from optimizer.rules import bit, broken_names
from tests.optimizer.catalogs import EXPERTS, MEDIUM, SMALL, catalog, offer, question
from tests.optimizer.plans import changed_model, llama_8b

H100 = "H100-SXM-80GB"
JOINED = {"network": "infiniband", "network_gbit_per_s": 400.0}


def grid(*offers: dict[str, Any], model: ModelSpec | str = MEDIUM, **limits: Any) -> Candidates:
    spec = load_model(model) if isinstance(model, str) else model
    shapes, _ = node_shapes(catalog(*offers).frame)
    return build_candidates(question({"limits": limits}), spec, shapes)


def splits(found: Candidates, weights: str = "bf16") -> set[tuple[int, int]]:
    """(tp, pp) of the candidates in this format that no rule on shape or limits keeps out."""
    rows = found.frame[(found.frame["weights"] == weights) & (found.frame["broken"] == 0)]
    return set(zip(rows["tp"].tolist(), rows["pp"].tolist(), strict=True))


def dead(found: Candidates) -> dict[tuple[str, ...], int]:
    """Sets of rules that kept splits out -> how many."""
    masks = zip(found.dead["broken"].tolist(), found.dead["count"].tolist(), strict=True)
    return {broken_names(mask): count for mask, count in masks}


def test_a_replica_lies_inside_a_node_where_it_fits() -> None:
    # 32 heads and 8 KV heads over 1, 2 or 4 GPUs, not over 3; stages in any number.
    assert splits(grid(offer(H100, 8.0, 4))) == {(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (4, 1)}


def test_a_replica_over_nodes_fills_them_and_crosses_by_its_stages() -> None:
    found = splits(grid(offer(H100, 4.0, 2, **JOINED), max_nodes_per_replica=2))

    # Inside: 1 or 2 GPUs. Over two nodes of two: 4 GPUs, in stages of 1 or 2; a stage of 4 would cross.
    assert found == {(1, 1), (1, 2), (2, 1), (1, 4), (2, 2)}


def test_a_tensor_parallel_group_crosses_nodes_only_where_the_user_says_so() -> None:
    rows = offer(H100, 4.0, 2, **JOINED)

    assert (4, 1) not in splits(grid(rows, max_nodes_per_replica=2))
    assert (4, 1) in splits(grid(rows, max_nodes_per_replica=2, tp_across_nodes=True))


def test_nothing_spans_nodes_whose_network_is_not_known() -> None:
    found = grid(offer(H100, 4.0, 2), max_nodes_per_replica=2)

    assert splits(found) == {(1, 1), (1, 2), (2, 1)}
    assert any(rules[0] == "network_known" for rules in dead(found) if "weights_allowed" not in rules)


def test_a_replica_knows_how_many_lie_on_a_node_or_on_how_many_nodes_it_lies() -> None:
    frame = grid(offer(H100, 8.0, 4, **JOINED), max_nodes_per_replica=2).frame
    rows = frame[frame["tp"] * frame["pp"] == frame["gpus"]].set_index(["tp", "pp"])[
        ["replicas_per_node", "nodes_per_replica"]
    ]

    # Three GPUs leave one of four idle; eight take two nodes.
    expected = {(1, 1): (4, 1), (2, 1): (2, 1), (1, 3): (1, 1), (4, 1): (1, 1), (4, 2): (1, 2), (2, 4): (1, 2)}
    for split, packing in expected.items():
        assert tuple(rows.loc[split].iloc[0]) == packing


def test_what_the_model_refuses_is_counted_and_not_kept() -> None:
    found = grid(offer(H100, 8.0, 4), model=changed_model(llama_8b(), attention={"query_heads": 31}))

    assert splits(found) == {(1, 1), (1, 2), (1, 3), (1, 4)}
    assert any("heads_divisible" in rules for rules in dead(found))


def test_a_gpu_that_does_not_run_the_format_has_no_candidate() -> None:
    found = grid(offer("V100-SXM-32GB", 1.0))

    assert (found.frame["broken"] & bit("weights_allowed") != 0).all()
    assert any("dtype_supported" in rules for rules in dead(found))


def test_limits_are_bits_on_candidates_that_are_kept_so_that_a_conflict_can_name_them() -> None:
    found = grid(offer(H100, 8.0, 4), gpus=["L4-24GB"], tp=[2], weights=["int8"])
    masks = {broken_names(mask) for mask in found.frame["broken"]}

    assert ("gpu_allowed",) in masks
    assert ("gpu_allowed", "weights_allowed", "sizes_allowed") in masks


def test_experts_are_dealt_out_or_sliced_with_attention_ranks_and_without() -> None:
    frame = grid(offer(H100, 4.0, 2), model=EXPERTS).frame
    both = frame[(frame["gpus"] == 2) & (frame["pp"] == 1)]

    # Tensor parallel over both with experts sliced or dealt out; two attention ranks likewise.
    assert set(zip(both["tp"], both["ep"], both["attention_dp"], strict=True)) == {
        (2, 1, 1),
        (2, 2, 1),
        (1, 1, 2),
        (1, 2, 2),
    }


def test_sizes_that_the_user_names_are_tried_though_they_are_uncommon() -> None:
    model = changed_model(llama_8b(), attention={"query_heads": 36, "kv_heads": 9}, mlp={"intermediate_size": 14_400})
    found = grid(offer(H100, 30.0, 9), model=changed_model(model, vocab_size=9 * 64 * 100), tp=[9])

    assert splits(found) == {(9, 1)}


def test_offers_of_one_node_shape_share_their_candidates() -> None:
    table = catalog(
        offer(H100, 2.5), offer(H100, 1.0, term="spot"), offer(H100, 2.0, provider="bolt"), offer(H100, 8, 4)
    )
    shapes, shape_of = node_shapes(table.frame)

    assert len(shapes) == 2
    assert shapes["gpus_per_node"].iloc[shape_of].tolist() == table.frame["gpus_per_node"].tolist()


def test_shapes_with_an_unknown_rate_are_one_shape() -> None:
    shapes, _ = node_shapes(catalog(offer(H100, 2.5), offer(H100, 2.0, provider="bolt")).frame)

    assert len(shapes) == 1


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (["checkpoint"], ("bf16",)),
        (["fp8", "checkpoint"], ("fp8", "bf16")),
        (["bf16", "checkpoint"], ("bf16",)),
        (["any"], ("bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4")),
    ],
)
def test_names_for_formats_are_resolved(weights: list[str], expected: tuple[str, ...]) -> None:
    assert allowed_weights(question({"limits": {"weights": weights}}), load_model(SMALL)) == expected


@pytest.mark.parametrize("kv_cache", [["auto"], ["any"], ["fp8"], ["fp16", "auto"]])
def test_a_cache_is_allowed_here_exactly_where_the_checker_allows_it(kv_cache: list[str]) -> None:
    from optimizer.check import CHECKS  # noqa: PLC0415
    from tests.optimizer.plans import Case  # noqa: PLC0415

    scenario = question({"limits": {"kv_cache": kv_cache}})
    model = load_model(SMALL)
    layouts = {name: Case(layout={"kv_cache": name}).answer for name in ("bf16", "fp16", "fp8")}
    kept = {
        name
        for name, layout in layouts.items()
        if not any(CHECKS["kv_cache_allowed"](Audit(scenario, model, layout, layout.price_seen_on)))
    }

    assert set(allowed_kv_caches(scenario, model)) == kept


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (("fp32",), ("bf16", "fp16")),
        (("bf16",), ("fp8", "int8")),
        (("bf16", "int8"), ("int4", "nvfp4", "mxfp4")),
        (("int4",), ()),
    ],
)
def test_the_next_precision_is_the_next_narrower_than_the_narrowest(
    allowed: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert next_precision(allowed) == expected


def test_a_grid_that_is_kept_answers_only_the_same_question() -> None:
    """Contexts of other lengths hold other caches, however the questions on one table of shapes follow each other."""
    spec = load_model(MEDIUM)
    shapes, _ = node_shapes(catalog(offer(H100, 4.0, 2)).frame)

    def held(context: int) -> list[float]:
        found = build_candidates(question({"workload": {"context_tokens": context}}), spec, shapes)
        return found.frame["kv_bytes_per_sequence"].tolist()

    short, long, again = held(4096), held(8192), held(4096)
    assert short == again
    assert long == [2 * size for size in short]
