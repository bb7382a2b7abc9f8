"""`shardwise calibrate`, and what the other commands say of a calibration."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from pathlib import Path

import pytest

from tests.optimizer.command import run
from tests.optimizer.own_runs.runs import GPU, MODEL, SERVER, measured_on, slower, vllm_result

LOAD = ("--input-tokens", "1000", "--output-tokens", "500", "--concurrency", "16")
PREDICT = ("predict", MODEL, "--gpu", GPU, "--tp", "4", "--weights", "fp8", *LOAD)
SOLVE = ("solve", MODEL, "--gpu", GPU, "--weights", "fp8", *LOAD, "--as-of", "2026-08-14")
SAID = f"Own calibration of {date.today()} used: 1 run on {GPU}."


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def bench(tmp_path: Path) -> str:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(vllm_result(19.0, 170.0)), encoding="utf-8")
    return str(path)


def test_it_prints_the_runs_and_the_errors_before_and_after(bench: str) -> None:
    done = run("calibrate", bench, *SERVER)
    assert done.code == 0
    assert done.err == ""
    for words in ("1 of 1 run used", f"{MODEL}, fp8 TP4, {GPU}, vllm 0.19.0:", "before", "after", "Written to"):
        assert words in done.out
    assert "left out of the fit" not in done.out


def test_json_holds_the_same(bench: str) -> None:
    found = run("calibrate", bench, *SERVER, "--json").json
    assert found["written"]
    assert found["runs_used"] == 1
    tpot = next(error for error in found["errors"] if error["quantity"] == "tpot_ms")
    assert tpot["after_mean_percent"] < tpot["before_mean_percent"]


def test_every_report_says_that_it_is_used_and_none_once_it_is_left_out(bench: str, tmp_path: Path) -> None:
    before = run(*PREDICT, "--json").json
    assert before["calibration"] is None
    run("calibrate", bench, *SERVER)
    after = run(*PREDICT, "--json").json
    assert after["calibration"] == {"date": str(date.today()), "runs": 1, "gpus": [GPU]}
    assert before["tpot_ms"] < after["tpot_ms"] < 19.5
    fit = ("fit", MODEL, "--gpu", GPU, "--tp", "4", "--weights", "fp8")
    plan = tmp_path / "plan.json"
    plan.write_text(run(*SOLVE, "--json").out, encoding="utf-8")
    assert json.loads(plan.read_text(encoding="utf-8"))["calibration"] == after["calibration"]
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,input_tokens,output_tokens\n0,1000,50\n1,1000,50\n", encoding="utf-8")
    runs = str(measured_on(slower(1.0), [(16, 1000, 500)], tmp_path / "runs.csv"))
    commands = (
        PREDICT,
        fit,
        SOLVE,
        (*SOLVE, "--explain"),
        (*SOLVE, "--ttft-ms", "1"),  # infeasible
        ("simulate", str(plan), "--trace", str(trace)),
        ("validate", "speed", runs),
    )
    for command in commands:
        assert SAID in " ".join(run(*command).out.split()), command
        assert "Own calibration" not in run(*command, SHARDWISE_CALIBRATION="off").out, command
        if command != fit:
            assert "Own calibration" not in run(*command, "--no-calibration").out, command
    assert run(*PREDICT, "--no-calibration", "--json").json == before


def test_answers_pass_their_audit_with_it_without_it_and_with_it_again(bench: str) -> None:
    """Speeds are kept between questions; they must not outlive a change of the calibration."""
    run("calibrate", bench, *SERVER)
    codes, figures = [], []
    for switch in ("on", "off", "on"):
        done = run(*SOLVE, "--tpot-ms", "60", "--json", SHARDWISE_CALIBRATION=switch)
        codes.append(done.code)
        figures.append(done.json["performance"]["tpot_ms"])
    assert codes == [0, 0, 0]
    assert figures[0] == figures[2] > figures[1]


def test_a_calibration_on_other_coefficients_is_not_used_and_says_how_to_mend_it(bench: str, tmp_path: Path) -> None:
    before = run(*PREDICT, "--json").json
    run("calibrate", bench, *SERVER)
    path = tmp_path / "data" / "calibration" / "calibration.toml"
    text = path.read_text(encoding="utf-8")
    digest = tomllib.loads(text)["calibration"]["bundled_sha256"]
    path.write_text(text.replace(digest, "0" * 64), encoding="utf-8")
    stale = run(*PREDICT, "--json").json
    assert stale["tpot_ms"] == before["tpot_ms"]
    assert stale["calibration"] is None
    assert "`shardwise calibrate --refit` fits your runs anew" in stale["warnings"][0]
    assert "is not used: the bundled coefficients have changed" in " ".join(run(*SOLVE).out.split())
    assert run("calibrate", "--refit").code == 0
    assert SAID in run(*PREDICT).out


@pytest.mark.parametrize("text", ["nonsense", "[calibration]\n", '[calibration]\ndate = "today"\n', "\xff"])
def test_a_damaged_calibration_is_named_and_mended_from_the_runs_that_are_kept(
    bench: str, tmp_path: Path, text: str
) -> None:
    run("calibrate", bench, *SERVER)
    path = tmp_path / "data" / "calibration" / "calibration.toml"
    path.write_bytes(text.encode("latin-1"))
    done = run(*PREDICT)
    assert done.code == 2
    assert f"{path}: is not a calibration that `shardwise calibrate` wrote" in done.err
    assert run(*PREDICT, SHARDWISE_CALIBRATION="off").code == 0
    assert run("calibrate", "--refit").code == 0
    assert run(*PREDICT).code == 0


def test_a_damaged_run_is_named_and_reset_forgets_it(bench: str, tmp_path: Path) -> None:
    run("calibrate", bench, *SERVER)
    (kept,) = (tmp_path / "data" / "calibration" / "runs").glob("*.json")
    kept.write_text("{}", encoding="utf-8")
    done = run("calibrate", "--list")
    assert done.code == 2
    assert f"{kept}: is not what `shardwise calibrate` keeps" in done.err
    assert run("calibrate", "--reset").code == 0
    assert "No runs of your own are kept" in run("calibrate", "--list").out


def test_kept_files_are_listed_and_removed_by_name_or_hash(bench: str, tmp_path: Path) -> None:
    run("calibrate", bench, *SERVER)
    second = measured_on(slower(1.2), [(1, 1000, 500), (8, 1000, 500)], tmp_path / "second.csv")
    assert "2 of 2 runs used" not in run("calibrate", str(second), "--dry-run").out
    run("calibrate", str(second))
    listed = run("calibrate", "--list")
    assert "bench.json" in listed.out
    assert "second.csv" in listed.out
    sources = run("calibrate", "--list", "--json").json["sources"]
    digest = next(one["sha256"] for one in sources if one["name"] == "second.csv")
    assert run("calibrate", "--remove", digest[:12]).code == 0
    assert "second.csv" not in run("calibrate", "--list").out
    done = run("calibrate", "--remove", "second.csv")
    assert (done.code, done.err) == (2, "shardwise: --remove 'second.csv': no such file is kept (kept: bench.json)\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "calibrate: nothing is asked for; give benchmark files, or one of --list, --refit, --remove, --reset"),
        (("x.json", "--reset"), "calibrate: FILE and --reset are asked for"),
        (("--refit",), "no runs are kept yet; give benchmark files"),
        (("no.json", *SERVER), "no.json: cannot be read: No such file or directory"),
        (("{bench}",), "does not say the GPU, the tensor parallel size; give --gpu, --tp"),
        (("{bench}", "--gpu", GPU, "--tp", "3x"), "--tp: expected a whole number from 1 to 1,024; got '3x'"),
        (("{bench}", "--gpu", "H10000", "--tp", "4"), "bench.json: Unknown GPU 'H10000'. Did you mean H100"),
        (("{bench}", *SERVER, "--ep", "3"), "bench.json: --ep 3: expected 1, or tp x attention_dp = 4"),
        (("{bench}", *SERVER, "--format", "xml"), "--format: expected 'vllm-bench', 'genai-perf', 'aiperf' or 'csv'"),
        (("{bench}", *SERVER, "--format", "csv"), "bench.json: is JSON, and --format csv asks for a CSV"),
        (("{bench}", *SERVER, "--engine", "llama.cpp"), "--engine: expected vllm, sglang or trtllm"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(bench: str, arguments: tuple[str, ...], said: str) -> None:
    done = run("calibrate", *(argument.replace("{bench}", bench) for argument in arguments))
    assert done.code == 2
    assert done.out == ""
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_folder_that_cannot_be_written_is_named(bench: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file, not a folder", encoding="utf-8")
    done = run("calibrate", bench, *SERVER)
    assert done.code == 2
    assert "cannot be written" in done.err
    assert "SHARDWISE_DATA_DIR names another folder" in done.err


def test_other_engines_are_said_to_say_little_of_vllm(bench: str) -> None:
    done = run("calibrate", bench, *SERVER[:-2], "--engine", "sglang@0.5.9")
    assert "solve and predict speak of vllm" in " ".join(done.out.split())
