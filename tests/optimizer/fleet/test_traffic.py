"""Classes, histograms and logs become the same thing: classes with demand by the hour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import QuestionError
from optimizer.fleet.question import build_fleet_scenario
from optimizer.fleet.traffic import bin_lengths, read_traffic

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
CHAT = {"name": "chat", "input_tokens": 1000, "output_tokens": 200, "request_rate": 2}


def log_file(folder: Path, rows: list[tuple[float | None, int, int]]) -> Path:
    """A log of requests; without arrivals where the first has none."""
    timed = rows[0][0] is not None
    lines = ["arrival_s,input_tokens,output_tokens" if timed else "input_tokens,output_tokens"]
    lines += [f"{at},{into},{out}" if timed else f"{into},{out}" for at, into, out in rows]
    path = folder / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def traffic_of(**fields: Any) -> Any:
    return read_traffic(build_fleet_scenario({"model": MODEL} | fields))


def test_a_days_profile_multiplies_each_hours_rate() -> None:
    profile = [0.5] * 12 + [1.5] * 12
    [chat] = traffic_of(classes=[CHAT], profile=profile).demands
    assert chat.rates == tuple([1.0] * 12 + [3.0] * 12)
    assert chat.peak == 3.0


def test_a_class_with_a_day_beside_one_with_a_week_repeats_its_day() -> None:
    night = CHAT | {"name": "night", "profile": [2.0] + [0.0] * 23}
    found = traffic_of(classes=[CHAT | {"profile": [1.0] * 168}, night])
    assert len(found.hours) == 168
    assert found.demands[1].rates[::24] == (4.0,) * 7


def test_without_a_profile_there_is_one_period() -> None:
    found = traffic_of(classes=[CHAT])
    assert (found.hours, found.demands[0].rates) == ((1.0,), (2.0,))


def test_a_histograms_bins_share_its_rate_and_empty_ones_are_left_out() -> None:
    table = {"input_edges": [99, 999], "output_edges": [9, 99], "shares": [[1, 0], [1, 2]], "request_rate": 8}
    found = traffic_of(histogram=table).demands
    # Means of 1-99 and 100-999 are 50 and 549.5, of 1-9 and 10-99 are 5 and 54.5.
    assert [(one.traffic.input_tokens, one.traffic.output_tokens) for one in found] == [(50, 5), (550, 5), (550, 54)]
    assert [one.traffic.request_rate for one in found] == [2.0, 2.0, 4.0]
    # Whole numbers 1 to 99 have a variance of (99^2 - 1) / 12.
    assert found[0].traffic.input_cv == pytest.approx(((99**2 - 1) / 12) ** 0.5 / 50)


def test_a_histogram_may_take_every_request_at_the_upper_end_of_its_bin() -> None:
    table = {"input_edges": [99], "output_edges": [9], "shares": [[3]], "request_rate": 1, "lengths": "upper"}
    [only] = traffic_of(histogram=table).demands
    assert (only.traffic.input_tokens, only.traffic.output_tokens, only.traffic.input_cv) == (99, 9, 0.0)


def test_a_log_keeps_its_rate_and_its_tokens(tmp_path: Path) -> None:
    dice = np.random.default_rng(7)
    rows = [(float(at), int(into), int(out)) for at, into, out in zip(
        range(1001), dice.lognormal(6, 1, 1001) + 1, dice.lognormal(4, 1, 1001) + 1, strict=True
    )]  # fmt: skip
    found = traffic_of(log={"file": str(log_file(tmp_path, rows)), "classes": 6}).demands
    assert len(found) == 6
    assert sum(one.traffic.request_rate for one in found) == pytest.approx(1.0)  # 1,000 gaps of a second
    asked = sum(one.traffic.request_rate * one.traffic.input_tokens for one in found)
    held = sum(into for _, into, _ in rows) / 1001
    assert held <= asked <= held + 1  # means are rounded up to whole tokens


def test_a_log_without_arrivals_needs_a_rate(tmp_path: Path) -> None:
    path = log_file(tmp_path, [(None, 100, 10), (None, 200, 20)])
    [first, second] = traffic_of(log={"file": str(path), "request_rate": 4, "classes": 2}).demands
    assert [first.traffic.request_rate, second.traffic.request_rate] == [2.0, 2.0]
    with pytest.raises(QuestionError, match="has no column arrival_s"):
        traffic_of(log={"file": str(path)})


def test_a_logs_profile_is_the_rate_of_each_hour_over_the_mean(tmp_path: Path) -> None:
    # One request an hour, and one more in the first hour of each of two days: 26 and 24 requests an hour of the day.
    rows = [(hour * 3600.0, 100, 10) for hour in range(48)] + [(60.0, 100, 10), (24 * 3600.0 + 60, 100, 10)]
    [only] = traffic_of(log={"file": str(log_file(tmp_path, rows)), "profile": "day", "classes": 1}).demands
    mean = 25 / 24
    assert only.rates[0] / only.traffic.request_rate == pytest.approx(2 / mean)
    assert only.rates[5] / only.traffic.request_rate == pytest.approx(1 / mean)


def test_a_log_of_an_hour_has_no_profile_of_a_day(tmp_path: Path) -> None:
    path = log_file(tmp_path, [(0.0, 100, 10), (3600.0, 100, 10)])
    with pytest.raises(QuestionError, match=r"arrivals span 1\.0 hours; a profile of a day needs 24"):
        traffic_of(log={"file": str(path), "profile": "day"})


def test_arrivals_at_one_moment_have_no_rate(tmp_path: Path) -> None:
    path = log_file(tmp_path, [(5.0, 100, 10), (5.0, 100, 10)])
    with pytest.raises(QuestionError, match="span no time"):
        traffic_of(log={"file": str(path)})


@pytest.mark.parametrize(
    ("line", "said"),
    [("1,abc,10", "line 3, input_tokens: expected a whole number"), ("1,10,0", "line 3, output_tokens: expected")],
)
def test_a_bad_line_of_a_log_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"arrival_s,input_tokens,output_tokens\n0,10,10\n{line}\n")
    with pytest.raises(QuestionError, match=said):
        traffic_of(log={"file": str(path)})


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**4)), min_size=1, max_size=60), st.integers(1, 12))
def test_every_request_is_in_exactly_one_class(lengths: list[tuple[int, int]], most: int) -> None:
    inputs, outputs = (np.array(column, dtype=np.int64) for column in zip(*lengths, strict=True))
    groups = bin_lengths(inputs, outputs, most)
    assert len(groups) <= most
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))


def test_alike_requests_stay_in_one_class() -> None:
    same = np.full(10, 128, dtype=np.int64)
    assert len(bin_lengths(same, same, 8)) == 1
