from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from optimizer.errors import QuestionError
from optimizer.validate.speed import validate_speed, write_predicted
from optimizer.validate.speed_decisions import gpu_prices, validate_decisions
from tests.optimizer.command import run

HEAD = (
    "engine,engine_version,model,gpu,n_gpus,tp,weight_precision,isl,osl,len_dist,concurrency,request_rate,scenario,"
    "ttft_ms,tpot_ms,output_tok_s_total"
)
LOOP = "vllm,0.19.0,Qwen/Qwen3-32B,H100-SXM-80GB,{gpus},2,bf16,1000,500,fixed,{requests},,fixed_concurrency,100,20,"


def file_of(folder: Path, *rows: str, head: str = HEAD) -> Path:
    path = folder / "runs.csv"
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return path


def test_every_scenario_is_predicted_in_its_own_way(tmp_path: Path) -> None:
    """A number between its ends for each; a static batch's TTFT is the whole batch's, a burst's mostly waiting."""
    rows = [
        "tensorrt-llm,1.0,meta-llama/Meta-Llama-3.1-8B,H100-SXM-80GB,1,1,fp8,1000,200,fixed,"
        f"{requests},{rate},{name},50,9,900"
        for name, requests, rate in (
            ("fixed_concurrency", 64, ""),
            ("static_batch", 64, ""),
            ("offline_max_throughput", "", ""),
            ("server_fixed_qps", "", 4),
            ("offline_burst_all_requests", "", ""),
        )
    ]
    found, result = validate_speed(file_of(tmp_path, *rows))
    assert found.judged == 5
    for name in ("ttft_ms", "tpot_ms", "output_tok_s_total"):
        value, low, high = (result[f"predicted_{name}{end}"] for end in ("", "_low", "_high"))
        assert ((low <= value) & (value <= high) & (low > 0)).all()
    ttft = result["predicted_ttft_ms"]
    assert ttft[4] > ttft[1] > ttft[3]
    # 4 requests/s of 200 tokens are far from saturating one H100.
    assert result["predicted_output_tok_s_total"][3] == pytest.approx(800)


def test_replicas_share_the_requests(tmp_path: Path) -> None:
    """Four GPUs at TP 2 are two replicas: twice the requests at the same speed, and twice the throughput."""
    _, result = validate_speed(file_of(tmp_path, LOOP.format(gpus=2, requests=8), LOOP.format(gpus=4, requests=16)))
    assert result["predicted_tpot_ms"][1] == pytest.approx(result["predicted_tpot_ms"][0])
    assert result["predicted_output_tok_s_total"][1] == pytest.approx(2 * result["predicted_output_tok_s_total"][0])


def test_what_cannot_be_predicted_is_said_why(tmp_path: Path) -> None:
    rows = [
        LOOP.format(gpus=2, requests=8),
        LOOP.format(gpus=2, requests=8).replace("H100-SXM-80GB", "Z9000"),
        LOOP.format(gpus=2, requests=8).replace("Qwen/Qwen3-32B", "nobody/nothing"),
        LOOP.format(gpus=2, requests=""),
        LOOP.format(gpus=1, requests=8),
        LOOP.format(gpus=2, requests=8).replace("fixed_concurrency", "speculative"),
        LOOP.format(gpus=2, requests=8).replace("100,20,", ",,"),
    ]
    found, result = validate_speed(file_of(tmp_path, *rows))
    assert result["not_judged"].tolist() == [
        "",
        "unknown GPU Z9000",
        "unknown model nobody/nothing",
        "no concurrency",
        "more GPUs in a replica than there are",
        "scenario is none that is predicted",
        "nothing measured",
    ]
    assert found.judged == 1
    assert result["predicted_tpot_ms"].notna().tolist() == [True, False, False, False, False, False, True]


def test_errors_are_relative_to_what_was_measured(tmp_path: Path) -> None:
    """One run measured at exactly its prediction, its twin at half of it: errors 0 and 100%, mean and median 50%."""
    row = LOOP.format(gpus=2, requests=8)
    _, first = validate_speed(file_of(tmp_path, row))
    exact = first["predicted_tpot_ms"][0]
    rows = [row.replace("100,20,", f",{float(tpot)!r},") for tpot in (exact, exact / 2)]
    found, _ = validate_speed(file_of(tmp_path, *rows))
    tpot = next(one for one in found.overall if one.quantity == "tpot_ms")
    assert (tpot.rows, tpot.mean_percent, tpot.median_percent) == pytest.approx((2, 50, 50), rel=1e-6)
    assert tpot.covered == 0.5


def test_the_file_written_holds_the_input_and_the_predictions(tmp_path: Path) -> None:
    _, result = validate_speed(file_of(tmp_path, LOOP.format(gpus=2, requests=8)))
    write_predicted(result, tmp_path / "out.csv")
    columns = list(pd.read_csv(tmp_path / "out.csv").columns)
    assert columns[:3] == ["engine", "engine_version", "model"]
    assert columns[-1] == "not_judged"
    assert {"predicted_ttft_ms_low", "predicted_tpot_ms", "predicted_output_tok_s_total_high"} <= set(columns)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "no column engine, model"),
        (HEAD + "\n", "no rows"),
        ("", "cannot be read as CSV"),
    ],
)
def test_a_file_that_is_none_of_runs_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(QuestionError, match=said):
        validate_speed(path)


def test_the_command_prints_json_and_tables(tmp_path: Path) -> None:
    path = file_of(tmp_path, LOOP.format(gpus=2, requests=8))
    printed = json.loads(run("validate", "speed", str(path), "--json").out)
    assert printed["judged"] == 1
    assert {group["by"] for group in printed["groups"]} == {"scenario", "gpu", "engine", "model"}
    assert "1 of 1 runs judged" in run("validate", "speed", str(path)).out


def test_a_decision_costs_what_was_measured_of_it(tmp_path: Path) -> None:
    """Three layouts, measured as predicted: the choice is right. Measured 100 times slower: its target is missed."""
    row = "vllm,0.19.0,Qwen/Qwen3-32B,{gpu},{n},{n},bf16,1000,500,fixed,8,,fixed_concurrency,{ttft},{tpot},"
    layouts = [("H100-SXM-80GB", 2), ("H100-SXM-80GB", 4), ("H200-SXM-141GB", 2)]
    rows = [row.format(gpu=gpu, n=n, ttft=100, tpot=10) for gpu, n in layouts]
    _, first = validate_speed(file_of(tmp_path, *rows))
    columns = ("predicted_ttft_ms", "predicted_tpot_ms")
    seen = [[float(first[name][at]) for name in columns] for at in range(3)]
    prices = {"H100-SXM-80GB": 2.0, "H200-SXM-141GB": 50.0}

    exact = [
        row.format(gpu=gpu, n=n, ttft=ttft, tpot=tpot) for (gpu, n), (ttft, tpot) in zip(layouts, seen, strict=True)
    ]
    found = validate_decisions(file_of(tmp_path, *exact), prices)
    assert found.questions > 0
    assert found.same == found.questions
    assert found.missed == 0
    assert found.worst_regret_percent == 0

    cheapest = min(range(2), key=lambda at: layouts[at][1] * (seen[at][0] + 499 * seen[at][1]))
    slow = [
        line if at != cheapest else line.replace(repr(seen[at][1]), repr(seen[at][1] * 100))
        for at, line in enumerate(exact)
    ]
    fourth = row.format(gpu="H200-SXM-141GB", n=4, ttft=90, tpot=9)
    found = validate_decisions(file_of(tmp_path, *slow, fourth), prices)
    assert found.missed > 0


def test_decisions_need_a_choice(tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match="no model and lengths with 3 measured layouts"):
        validate_decisions(file_of(tmp_path, LOOP.format(gpus=2, requests=8)), {"H100-SXM-80GB": 2.0})


def test_prices_of_a_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("gpu,usd_per_gpu_hour\nH100-SXM-80GB,2.5\n", encoding="utf-8")
    assert gpu_prices(path) == {"H100-SXM-80GB": 2.5}
    path.write_text("name,price\nH100-SXM-80GB,2.5\n", encoding="utf-8")
    with pytest.raises(QuestionError, match="expected a CSV with columns gpu, usd_per_gpu_hour"):
        gpu_prices(path)


def test_the_decision_command_prints_the_regret(tmp_path: Path) -> None:
    row = "vllm,0.19.0,Qwen/Qwen3-32B,H100-SXM-80GB,{n},{n},bf16,1000,500,fixed,8,,fixed_concurrency,100,{tpot},"
    path = file_of(tmp_path, *(row.format(n=n, tpot=20 / n) for n in (2, 4, 8)))
    prices = tmp_path / "prices.csv"
    prices.write_text("gpu,usd_per_gpu_hour\nH100-SXM-80GB,2.5\n", encoding="utf-8")
    printed = json.loads(run("validate", "decisions", str(path), "--prices", str(prices), "--json").out)
    assert printed["questions"] > 0
    assert "regret, mean" in run("validate", "decisions", str(path), "--prices", str(prices)).out


def test_a_run_that_more_requests_would_make_faster_is_not_judged(tmp_path: Path) -> None:
    """5 ms with 64 requests against 20 and 21 ms with fewer; at 15 ms, or against one slow run alone, it is judged."""

    def judged(*tpots_ms: float) -> list[bool]:
        row = "vllm,0.19.0,Qwen/Qwen3-32B,H100-SXM-80GB,2,2,bf16,1000,500,fixed,{c},,fixed_concurrency,100,{tpot},"
        rows = [row.format(c=c, tpot=tpot) for c, tpot in zip((8, 16, 64), tpots_ms, strict=True)]
        _, result = validate_speed(file_of(tmp_path, *rows))
        assert result["predicted_tpot_ms"].notna().all()
        return (result["not_judged"] == "").tolist()

    assert judged(20, 21, 5) == [True, True, False]
    assert judged(20, 21, 15) == [True, True, True]
    assert judged(4, 21, 5) == [True, True, True]


def test_the_plot_is_drawn(tmp_path: Path) -> None:
    runs = file_of(tmp_path, LOOP.format(gpus=2, requests=8), LOOP.format(gpus=2, requests=16))
    for name in ("plot.png", "plot.svg"):
        assert run("validate", "speed", str(runs), "--plot", str(tmp_path / name)).code == 0
        assert (tmp_path / name).stat().st_size > 10_000
    assert "ends in .png" in run("validate", "speed", str(runs), "--plot", str(tmp_path / "plot.nonsense")).err
