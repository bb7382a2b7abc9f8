"""What --vary says: values, ranges, the grid, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import QuestionError
from optimizer.whatif.points import Axis, Grid, read_axis, read_grid


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("workload.request_rate=1,2.5,4", (1, 2.5, 4)),
        ("workload.request_rate=1:8:2", (1, 3, 5, 7)),
        ("workload.request_rate=0.1:0.5:0.1", (0.1, 0.2, 0.3, 0.4, 0.5)),
        ("workload.request_rate=5:1:-2", (5, 3, 1)),
        ("workload.request_rate=1:64:x2", (1, 2, 4, 8, 16, 32, 64)),
        ("workload.request_rate=1:60:x2", (1, 2, 4, 8, 16, 32)),
        ("workload.request_rate=8:1:x0.5", (8, 4, 2, 1)),
        ("targets.tpot_ms=10:20:n5", (10, 12.5, 15, 17.5, 20)),
        ("workload.input_tokens=100:200:n4", (100, 133, 167, 200)),
        ("workload.concurrency=1:4:x1.2", (1, 2, 3, 4)),
        ("limits.tp=1:8:x2", (1, 2, 4, 8)),
        ("limits.weights=bf16,fp8", ("bf16", "fp8")),
        ("limits.weights=bf16,bf16+fp8,any", ("bf16", ("bf16", "fp8"), "any")),
        ("limits.gpus=[H100, H200],A100", (("H100", "H200"), "A100")),
        ("limits.tp_across_nodes=true,false", (True, False)),
        ("limits.budget_usd_per_hour=null,20", (None, 20)),
        ("prices.as_of=2026-08-14,2026-08-20", ("2026-08-14", "2026-08-20")),
        ("limits.quotas=[{gpu: H100, max_gpus: 8}],[]", (({"gpu": "H100", "max_gpus": 8},), ())),
        ("price:H100*=0.8:1.2:n5", (0.8, 0.9, 1, 1.1, 1.2)),
        ("price:spot=0.5,2", (0.5, 2.0)),
        ("workload.request_rate=3,3,3", (3,)),
    ],
)
def test_values_and_ranges_are_read_as_they_are_meant(text: str, values: tuple[Any, ...]) -> None:
    assert read_axis(text).values == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workload.rate=1", "did you mean workload.request_rate"),
        ("request_rate=1", "did you mean workload.request_rate?"),
        ("limits=1", "is a part of a scenario, not one field"),
        ("workload.request_rate.x=1", "is not a field"),
        ("limits.gpus.0.x=1", "is not a field"),
        ("nothing", "expected FIELD=VALUES"),
        ("=1", "expected FIELD=VALUES"),
        ("workload.request_rate=", "expected FIELD=VALUES"),
        ("workload.request_rate=1,,2", "expected values joined by commas, or a range"),
        ("workload.request_rate=5:1:1", "never get from 5 to 1"),
        ("workload.request_rate=1:5:0", "never get from 1 to 5"),
        ("workload.request_rate=0:5:x2", "above 0"),
        ("workload.request_rate=1:5:x0.5", "never gets from 1 to 5"),
        ("workload.request_rate=1:5:x1", "never gets from 1 to 5"),
        ("workload.request_rate=1:5:n1", "at least 2 values"),
        ("workload.request_rate=1:5:n2.5", "a whole number"),
        ("workload.request_rate=1:1e9:0.1", "at most 1,000,000"),
        ("workload.request_rate=1:1e999:1", "finite"),
        ("limits.weights=[bf16", "as in YAML"),
        ("price:=0.8", "names no offers"),
        ("price:aws=cheap", "expected a factor"),
        ("price:aws=-1:1:1", "expected a factor"),
    ],
)
def test_what_cannot_be_read_is_answered_with_what_would_be_accepted(text: str, said: str) -> None:
    with pytest.raises(QuestionError, match=said.replace("?", r"\?")):
        read_axis(text)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "needs a field to vary"),
        (["limits.tp=1", "limits.tp=2"], "given twice"),
        (["workload.request_rate=1", "workload.concurrency=2"], "say the traffic twice"),
        (["workload.request_rate=1:1000:1", "targets.tpot_ms=1:1001:1"], "1,000 x 1,001 = 1,001,000 points"),
    ],
)
def test_a_grid_is_refused_before_anything_is_solved(texts: list[str], said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        read_grid(texts)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_points_are_the_product_with_the_last_axis_fastest(sizes: list[int]) -> None:
    grid = Grid(tuple(Axis(f"field{place}", tuple(range(size))) for place, size in enumerate(sizes)))
    expected = list(itertools.product(*map(range, sizes)))
    assert [tuple(grid.at(point).values()) for point in range(len(grid))] == expected
    for axis, size in enumerate(sizes):
        for place in range(size):
            having = [point for point, values in enumerate(expected) if values[axis] == place]
            assert list(grid.with_value(axis, place)) == having
