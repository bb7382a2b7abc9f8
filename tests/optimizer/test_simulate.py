from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.simulate import Replay, queue_peak, replay
from optimizer.trace import Trace, TraceError, read_trace
from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run
from tests.optimizer.performance.traffic import random_requests


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One replica for 4 requests/s of 2,000 tokens in and 300 out, first token within 1.5 s, others 50 ms apart."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    ran = run(
        "solve",
        LLAMA_70B,
        *TRAFFIC,
        *SPHERON,
        "--ttft-ms",
        "1500",
        "--tpot-ms",
        "50",
        "--at",
        "p90",
        "--replicas",
        "1",
        "--json",
    )
    path.write_text(ran.out, encoding="utf-8")
    return path


def write_trace(path: Path, rate: float, count: int = 3000) -> Path:
    """A trace of Poisson arrivals in our own columns."""
    drawn = random_requests(count, rate, 2000, 300, seed=7)
    rows = zip(drawn.arrival_s, drawn.input_tokens, drawn.output_tokens, strict=True)
    lines = ["arrival_s,input_tokens,output_tokens", *(f"{at:.4f},{i},{o}" for at, i, o in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_traffic_as_planned_meets_the_targets_and_is_as_predicted(plan: Path, tmp_path: Path) -> None:
    """Poisson arrivals at the planned rate: targets hold, and means and p90 are within 20% of the closed form."""
    found = replay(plan, write_trace(tmp_path / "t.csv", 4.0))
    assert [(one.name, one.at, one.holds) for one in found.targets] == [("ttft", "p90", True), ("tpot", "p90", True)]
    assert all(one.attained >= 0.9 for one in found.targets)
    assert found.closed_form is not None
    assert not found.saturated
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        simulated, closed = getattr(found.simulated, name), getattr(found.closed_form, name)
        for level in ("mean", "p90"):
            assert closed[level] == pytest.approx(simulated[level], rel=0.20)
    assert found.traffic.burstiness == pytest.approx(1.0, abs=0.1)
    assert found.output_tokens_per_second == pytest.approx(1200, rel=0.03)
    assert 0 < found.utilization <= 1


def test_a_balancer_is_better_than_chance(tmp_path: Path) -> None:
    """Three replicas: the closed form deals requests at random, which is no better than to the least loaded one."""
    path = tmp_path / "plan.json"
    path.write_text(run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--tp", "2", "--json").out, encoding="utf-8")
    found = replay(path, write_trace(tmp_path / "t.csv", 4.0))
    assert "replicas" in found.summary
    assert found.closed_form is not None
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        for level in ("mean", "p90", "p99"):
            assert getattr(found.closed_form, name)[level] >= 0.95 * getattr(found.simulated, name)[level]


def test_more_than_it_serves_is_said_to_be_saturated(plan: Path, tmp_path: Path) -> None:
    """Five times as fast: the first token is late, requests queue up, and there is no closed form, not a large one."""
    found = replay(plan, write_trace(tmp_path / "t.csv", 4.0), speedup=5.0)
    assert found.saturated
    assert found.load > 1
    assert found.closed_form is None
    assert [one.name for one in found.targets if not one.holds] == ["ttft"]  # slots keep TPOT within its target
    assert found.queue_peak > 100


def test_a_request_that_is_too_long_is_refused_and_breaks_the_target(plan: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,100,10\n1,2000000,10\n", encoding="utf-8")
    found = replay(plan, path)
    assert found.refused == 1
    assert [one.attained for one in found.targets] == [0.5, 0.5]
    assert not any(one.holds for one in found.targets)


def test_columns_of_the_azure_traces_are_accepted(tmp_path: Path) -> None:
    """Moments with seven digits, out of order; 4.25 s between the first and the last."""
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:50.9300000,396,109\n2023-11-16 18:15:46.6800000,374,44\n2023-11-16 18:15:49,10,1\n",
        encoding="utf-8",
    )
    trace = read_trace(path)
    assert trace.arrival_s == pytest.approx([0, 2.32, 4.25])
    assert trace.input_tokens.tolist() == [374, 10, 396]
    assert trace.output_tokens.tolist() == [44, 1, 109]
    assert read_trace(path, speedup=2.0).arrival_s == pytest.approx([0, 1.16, 2.125])
    assert len(read_trace(path, limit=2).arrival_s) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not CSV"),
        ("arrival_s,input_tokens,output_tokens\n", "holds no request"),
        ("time,input_tokens\n1,2\n", "has no column output_tokens (also accepted: generatedtokens"),
        (
            "arrival_s,input_tokens,output_tokens\n0,5,5\n1,0,5\n2,x,5\n",
            "line 3, input_tokens: expected a whole number",
        ),
        ("arrival_s,input_tokens,output_tokens\n0,5,5\n1,0,5\n2,x,5\n", "got '0' (and 1 more lines)"),
        ("arrival_s,input_tokens,output_tokens\n0,5,5\nsoon,5,5\n", "line 3, arrival_s: expected seconds, or a moment"),
        ("arrival_s,input_tokens,output_tokens\nnan,5,5\n", "line 2, arrival_s: expected seconds"),
        ("arrival_s,input_tokens,output_tokens\n0,5,1.5\n", "got '1.5'"),
        ("arrival_s,input_tokens,output_tokens\n0,5,99999999\n", "from 1 to 10,000,000; got '99999999'"),
        ('a,b\n"unclosed', "is not CSV"),
    ],
)
def test_a_bad_trace_is_answered_with_the_line_and_what_is_accepted(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00\x01", b"\x00" * 100])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "binary.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError):
        read_trace(path)


def test_files_that_are_not_there_or_are_no_plan_are_bad_input(plan: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", 4.0, 20)
    other = tmp_path / "other.json"
    contents = {"": "is empty", "{}": "is not a plan", "not JSON": "is not JSON", "[1]": "is not a plan"}
    for content, words in contents.items():
        other.write_text(content, encoding="utf-8")
        ran = run("simulate", str(other), "--trace", str(trace))
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
    for arguments in ((str(tmp_path / "none.json"), str(trace)), (str(plan), str(tmp_path / "none.csv"))):
        ran = run("simulate", arguments[0], "--trace", arguments[1])
        assert ran.code == 2
        assert "cannot be read: No such file" in ran.err
    ran = run("simulate", str(plan), "--trace", str(trace), "--speedup", "0", "--limit", "x")
    assert ran.code == 2
    assert "--speedup: expected a number from 0.001" in ran.err
    assert "--limit: expected a whole number" in ran.err


def test_a_plan_without_a_layout_cannot_be_replayed(tmp_path: Path) -> None:
    ran = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--ttft-ms", "1", "--json")
    assert ran.code == 3
    path = tmp_path / "none.json"
    path.write_text(ran.out, encoding="utf-8")
    ran = run("simulate", str(path), "--trace", str(write_trace(tmp_path / "t.csv", 4.0, 20)))
    assert ran.code == 2
    assert "is infeasible and has no layout to replay on" in ran.err


def test_json_and_tables_say_the_same(plan: Path, tmp_path: Path) -> None:
    trace = str(write_trace(tmp_path / "t.csv", 4.0))
    ran = run("simulate", str(plan), "--trace", trace, "--limit", "500", "--json")
    assert ran.code == 0
    found = Replay.model_validate(ran.json)
    assert found.traffic.requests == 500
    assert json.loads(ran.out) == ran.json
    table = run("simulate", str(plan), "--trace", trace, "--limit", "500")
    assert table.code == 0
    assert "500 requests" in table.out
    assert "time to first token, p90" in table.out
    assert max(map(len, table.out.splitlines())) <= 80


def test_one_request_has_no_rate_and_no_closed_form(plan: Path, tmp_path: Path) -> None:
    found = replay(plan, write_trace(tmp_path / "t.csv", 4.0), limit=1)
    assert found.closed_form is None
    assert found.traffic.requests_per_second == 0
    assert found.simulated.ttft_ms["p99"] == found.simulated.ttft_ms["mean"]


def test_the_queue_is_counted_at_its_longest() -> None:
    """Waiting from 0 to 2, 1 to 3 and 2 to 4, and one that does not wait: two at once, as the first leaves at 2."""
    assert queue_peak(np.array([0.0, 1.0, 2.0, 2.5]), np.array([2.0, 2.0, 2.0, 0.0])) == 2
    assert queue_peak(np.array([0.0, 1.0]), np.zeros(2)) == 0


# Targets at a percentile


def solved(*flags: str) -> Any:
    """The plan of the common question with more flags."""
    return run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, *flags, "--json").json


def test_a_percentile_is_never_cheaper_than_the_mean() -> None:
    """The same numbers at p99 and with chat's lengths cost at least as much; the plan says which figure it held."""
    targets = ("--ttft-ms", "1000", "--tpot-ms", "45")
    mean, p99 = solved(*targets), solved(*targets, "--at", "p99", "--input-cv", "1", "--output-cv", "1")
    assert p99["cost"]["usd_per_hour"] >= mean["cost"]["usd_per_hour"]
    assert [target["at"] for target in p99["targets"]] == ["p99", "p99"]
    for name, target in zip(("ttft", "tpot"), p99["targets"], strict=True):
        assert target["predicted"] == p99["performance"]["percentiles"][name]["p99"] <= target["target"] * (1 + 1e-6)


@pytest.mark.parametrize(
    "traffic", [("--request-rate", "4"), ("--concurrency", "60"), ("--output-tokens-per-second", "900")]
)
def test_every_kind_of_traffic_has_percentiles_in_order(traffic: tuple[str, str]) -> None:
    flags = ("--input-tokens", "2000", "--output-tokens", "300", *traffic, "--at", "p95", "--tpot-ms", "60")
    plan = run("solve", LLAMA_70B, *flags, "--output-cv", "0.5", *SPHERON, "--json").json
    assert plan["status"] == "optimal"
    for levels in plan["performance"]["percentiles"].values():
        assert list(levels) == ["p50", "p90", "p95", "p99"]
        assert list(levels.values()) == sorted(levels.values())


def test_bursts_raise_percentiles_and_wrong_values_are_refused() -> None:
    calm, bursts = solved("--replicas", "3"), solved("--replicas", "3", "--burstiness", "6")
    assert bursts["performance"]["percentiles"]["ttft"]["p95"] > calm["performance"]["percentiles"]["ttft"]["p95"]
    ran = run("solve", LLAMA_70B, *TRAFFIC, "--at", "p97", "--burstiness", "-1", "--input-cv", "9")
    assert ran.code == 2
    assert "--at: expected 'mean', 'p50', 'p90', 'p95' or 'p99'; got 'p97'" in ran.err
    assert "--burstiness: expected a number from 0 to 100; got '-1'" in ran.err
    assert "--input-cv: expected a number from 0 to 4; got '9'" in ran.err


def test_the_trace_is_an_immutable_record() -> None:
    with pytest.raises(AttributeError):
        Trace(np.zeros(1), np.ones(1, dtype=np.int64), np.ones(1, dtype=np.int64)).arrival_s = np.ones(1)  # type: ignore[misc]
