"""Calibrating with one's own runs: predictions move towards them, elsewhere too, and what looks wrong is set aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizer.errors import QuestionError
from optimizer.flags import CalibrateFlags
from optimizer.own_runs import store
from optimizer.own_runs.answer import CalibrationReport
from optimizer.own_runs.calibrate import calibrate, kept_calibration, remove, reset
from optimizer.performance.efficiency import (
    Setting,
    bundled_efficiencies,
    load_efficiencies,
    used_calibration,
)
from optimizer.performance.own_calibration import calibration_file, calibration_folder
from optimizer.performance.speed import SpeedModel
from optimizer.replica import name_replica, replica_columns
from optimizer.validate.speed_rows import BURST
from tests.optimizer.own_runs.runs import GPU, MODEL, OWN, measured_on, off_by, slower, vllm_result

SEEN = [(1, 1000, 500), (8, 1000, 500), (32, 1000, 500), (16, 4000, 500)]
HELD_OUT = [(4, 2000, 200), (64, 500, 1000), (24, 6000, 300)]
FLAGS = CalibrateFlags(gpu=GPU, tp=4, weights="fp8", engine="vllm", engine_version="0.19.0")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DATA_DIR", str(tmp_path / "data"))


def result_file(folder: Path, *, name: str = "bench.json", **changes: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(vllm_result(**{"tpot_ms": 17.0, "ttft_ms": 170.0, **changes})), encoding="utf-8")
    return path


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(times=st.floats(0.85, 1.35))
def test_predictions_move_towards_another_machine_at_lengths_that_were_not_measured_too(
    tmp_path: Path, times: float
) -> None:
    reset()
    machine = slower(times)
    calibrate([measured_on(machine, SEEN, tmp_path / "seen.csv")], FLAGS)
    for loads, share in ((SEEN, 0.5), (HELD_OUT, 0.6)):
        path = measured_on(machine, loads, tmp_path / "check.csv")
        before, after = (off_by(path, one).mean() for one in (bundled_efficiencies(), load_efficiencies()))
        assert after <= share * before + 0.005


def test_one_run_moves_predictions_part_of_the_way_and_more_runs_further(tmp_path: Path) -> None:
    """A run that is 20% slower is believed by half or more, and never overshot; a run as predicted changes little."""
    machine = slower(1.2)
    held_out = measured_on(machine, HELD_OUT, tmp_path / "held_out.csv")
    left = [off_by(held_out, bundled_efficiencies()).mean()]
    for count in (1, 4):
        calibrate([measured_on(machine, SEEN[:count], tmp_path / f"{count}.csv")], FLAGS)
        left.append(off_by(held_out, load_efficiencies()).mean())
    assert left[0] > left[1] > left[2]
    reset()
    same = measured_on(bundled_efficiencies(), SEEN, tmp_path / "same.csv")
    calibrate([same], FLAGS)
    assert off_by(same, load_efficiencies()).max() < 0.01


def test_a_wild_run_among_good_ones_pulls_little(tmp_path: Path) -> None:
    """Its pull is bounded: with one of five runs 2.5 times as slow, the others stay within a tenth."""
    good = measured_on(bundled_efficiencies(), SEEN, tmp_path / "good.csv")
    wild = measured_on(slower(2.5), [(12, 1000, 500)], tmp_path / "wild.csv")
    calibrate([good, wild], FLAGS)
    assert off_by(good, load_efficiencies()).max() < 0.1


def test_other_gpus_and_engines_stay_as_they_were(tmp_path: Path) -> None:
    calibrate([measured_on(slower(1.2), SEEN, tmp_path / "seen.csv")], FLAGS)
    for gpu, engine in (("B200-SXM-180GB", "vllm"), (GPU.replace("H100-SXM-80GB", "A100-SXM-80GB"), "sglang")):
        setting = Setting(gpu, engine, "2026", "64x5120-kv8-33B", "bf16")
        assert load_efficiencies().coefficients(setting) == bundled_efficiencies().coefficients(setting)


def test_a_setting_with_own_runs_is_measured_and_its_band_as_narrow_as_any(tmp_path: Path) -> None:
    """Qwen3-32B on four RTX 4090, which no bundled run had."""
    gpu = "RTX4090-24GB"
    replica = name_replica(_model("Qwen/Qwen3-32B"), gpu, tp=4, weights="fp8")
    table = pd.DataFrame(replica_columns(replica))
    wide = SpeedModel(replica.model, table).width[0]
    path = measured_on(bundled_efficiencies(), SEEN[:2], tmp_path / "seen.csv", model="Qwen/Qwen3-32B", gpu=gpu)
    calibrate([path], FLAGS)
    assert wide > 1.0
    assert SpeedModel(replica.model, table).width[0] == 1.0
    other = name_replica(_model(MODEL), gpu, tp=8, weights="fp8")
    assert SpeedModel(other.model, pd.DataFrame(replica_columns(other))).width[0] > 1.0


def _model(name: str) -> Any:
    from catalogs.models import load_model  # noqa: PLC0415

    return load_model(name)


def test_predictions_without_a_release_take_that_of_the_users_runs(tmp_path: Path) -> None:
    calibrate([measured_on(bundled_efficiencies(), SEEN[:1], tmp_path / "seen.csv")], FLAGS)
    known = load_efficiencies()
    assert known.own == {OWN: ("2026", "0.19.0")}
    setting = Setting(GPU, "vllm", "2026", OWN.rpartition(" ")[2], "fp8")
    said = Setting(GPU, "vllm", "2026", OWN.rpartition(" ")[2], "fp8", "0.19.0")
    assert known.coefficients(setting) == known.coefficients(said)


def test_the_same_file_counts_once_and_more_files_are_fitted_together(tmp_path: Path) -> None:
    first = measured_on(slower(1.2), SEEN[:2], tmp_path / "first.csv")
    second = measured_on(slower(1.2), SEEN[2:], tmp_path / "second.csv")
    once = calibrate([first], FLAGS)
    copied = tmp_path / "copy.csv"
    copied.write_bytes(first.read_bytes())
    again = calibrate([copied], FLAGS)
    assert (once.runs_used, again.runs_used, len(again.sources)) == (2, 2, 1)
    assert again.factors == once.factors
    both = calibrate([second], FLAGS)
    assert (both.runs_used, len(both.sources)) == (4, 2)
    assert [error.left_out_mean_percent is None for error in both.errors] == [False] * 3
    assert [error.left_out_mean_percent is None for error in once.errors] == [True] * 3
    assert remove("second.csv").factors == once.factors


def test_errors_are_honest_after_is_better_than_left_out_and_that_than_before(tmp_path: Path) -> None:
    found = calibrate([measured_on(slower(1.25), [*SEEN, *HELD_OUT], tmp_path / "seen.csv")], FLAGS)
    tpot = next(error for error in found.errors if error.quantity == "tpot_ms")
    assert tpot.left_out_mean_percent is not None
    assert tpot.after_mean_percent <= tpot.left_out_mean_percent < tpot.before_mean_percent


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    found = calibrate([measured_on(slower(1.2), SEEN, tmp_path / "seen.csv")], FLAGS, dry_run=True)
    assert found.runs_used == 4
    assert not found.written
    assert not calibration_folder().exists()


def test_what_is_written_says_what_it_rests_on_and_reads_back(tmp_path: Path) -> None:
    found = calibrate([result_file(tmp_path, name='odd "name" \\ Ä.json')], FLAGS)
    text = calibration_file().read_text(encoding="utf-8")
    assert found.sources[0].sha256 in text
    for field in ("before_mean_percent", "after_mean_percent", "tpot_before_percent", "bundled_sha256", "date = "):
        assert field in text
    own = used_calibration()
    assert own is not None
    assert (own.runs, own.gpus, own.day) == (1, (GPU,), found.date)
    assert own.factors == found.factors
    listed = kept_calibration()
    assert listed.sources == found.sources
    assert listed.factors == found.factors
    assert not listed.written


def test_a_crash_while_writing_leaves_the_calibration_as_it_was(tmp_path: Path) -> None:
    calibrate([result_file(tmp_path)], FLAGS)
    text = calibration_file().read_text(encoding="utf-8")
    second = result_file(tmp_path, name="second.json", tpot_ms=19.0)
    full = OSError(28, "No space left on device")
    with (
        mock.patch("optimizer.user_files.os.fsync", side_effect=full),
        pytest.raises(QuestionError, match="cannot be written: No space left on device"),
    ):
        calibrate([second], FLAGS)
    assert calibration_file().read_text(encoding="utf-8") == text
    assert [path.name for path in calibration_folder().rglob(".*")] == []
    assert len(store.load_sources()) == 1


def test_removing_the_last_file_leaves_the_bundled_coefficients(tmp_path: Path) -> None:
    calibrate([result_file(tmp_path)], FLAGS)
    assert load_efficiencies() is not bundled_efficiencies()
    found = remove("bench.json")
    assert found.runs == ()
    assert load_efficiencies() is bundled_efficiencies()


def reasons(found: CalibrationReport) -> list[str]:
    return [run.why for run in found.runs]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tpot_ms": 2.0}, "TPOT of 2.0 ms is beyond the data sheet: reading weights and cache once takes"),
        ({"ttft_ms": 4.0}, "TTFT of 4 ms is beyond the data sheet: computing 1,000 tokens takes"),
        ({"tpot_ms": 80.0}, r"TPOT is 5\.\d times what is predicted: perhaps another GPU, --tp, --weights"),
        ({"failed": 40}, "more than 5% of the requests failed"),
        ({"max_concurrency": 100}, "fewer than 2 requests for each in flight"),
        ({"max_concurrency": None, "request_rate": 9.0}, "the server did not keep up with the rate"),
    ],
)
def test_a_run_that_looks_wrong_is_set_aside_unless_forced(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    path = result_file(tmp_path, **changes)
    with pytest.raises(QuestionError, match=rf"none of these runs can be used[^~]*- bench.json: {why}"):
        calibrate([path], FLAGS)
    assert not calibration_folder().exists()
    good = measured_on(bundled_efficiencies(), SEEN[:1], tmp_path / "good.csv")
    calibrate([good], FLAGS)
    assert calibrate([path], FLAGS.model_copy(update={"force": True})).runs_used == 2


@pytest.mark.parametrize(
    ("changes", "flags", "why"),
    [
        ({"max_concurrency": None}, {}, "all requests were sent at once"),
        ({"mean_tpot_ms": 0.0, "mean_ttft_ms": None}, {}, "neither TPOT nor TTFT was measured"),
        ({"total_output_tokens": 160}, {}, "answers of a single token"),
        ({}, {"tp": 5}, "engines do not load this layout: it needs 64 query heads to divide by tp 5"),
        ({}, {"tp": 1, "weights": "bf16"}, "bf16 weights take 166% of the GPUs' memory"),
    ],
)
def test_a_run_that_cannot_be_predicted_is_set_aside_for_good(
    tmp_path: Path, changes: dict[str, Any], flags: dict[str, Any], why: str
) -> None:
    with pytest.raises(QuestionError, match=why):
        calibrate([result_file(tmp_path, **changes)], FLAGS.model_copy(update={"force": True, **flags}))


def test_rows_of_names_that_are_not_known_are_set_aside_among_others(tmp_path: Path) -> None:
    path = measured_on(slower(1.1), SEEN, tmp_path / "seen.csv")
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[1], lines[2] = lines[1].replace(GPU, "Z9000"), lines[2].replace(MODEL, "nobody/nothing")
    lines[3] = lines[3].replace(",500,", ",,")
    path.write_text("\n".join(lines), encoding="utf-8")
    lacks = "does not say the answers' length; give --output-tokens"
    assert reasons(calibrate([path], FLAGS)) == ["unknown GPU Z9000", "unknown model nobody/nothing", lacks, ""]
    path.write_text("\n".join([lines[0], lines[4].replace(",fp8,", ",fp3,")]), encoding="utf-8")
    with pytest.raises(QuestionError, match=r"seen.csv, row 2: weights or KV cache in a format that is none of"):
        calibrate([path], FLAGS)


def test_a_model_of_ones_own_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "vocab_size": 32000,
              "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "torch_dtype": "bfloat16",
              "num_key_value_heads": 32, "max_position_embeddings": 4096}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    flags = FLAGS.model_copy(update={"model": "./config.json", "tp": 1, "weights": None})
    assert calibrate([result_file(tmp_path, ttft_ms=300.0)], flags).runs_used == 1
    monkeypatch.chdir(tmp_path.parent)
    assert calibrate([], CalibrateFlags()).runs_used == 1


def test_good_runs_of_a_file_are_used_and_the_others_said(tmp_path: Path) -> None:
    path = measured_on(slower(1.1), SEEN, tmp_path / "seen.csv")
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].replace("fixed_concurrency", BURST)
    path.write_text("\n".join(lines), encoding="utf-8")
    found = calibrate([path], FLAGS)
    assert [run.used for run in found.runs] == [True, False, True, True]
    assert reasons(found)[1].startswith("all requests were sent at once")


def test_a_ttft_that_is_mostly_waiting_is_left_out_and_the_rest_is_used(tmp_path: Path) -> None:
    found = calibrate([result_file(tmp_path, ttft_ms=2500.0)], FLAGS)
    (run,) = found.runs
    assert run.used
    assert run.notes[0].startswith("TTFT of 2,500 ms is left out")
    assert [error.quantity for error in found.errors] == ["tpot_ms", "output_tok_s_total"]


def test_one_run_written_in_two_formats_counts_once(tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "data" / "benchmarks"
    flags = FLAGS.model_copy(update={"model": MODEL, "concurrency": 16})
    found = calibrate([data / "profile_export_aiperf.json", data / "profile_export_aiperf.csv"], flags)
    assert found.runs_used == 1
    assert "measured once already, in another of the files" in reasons(found)


def test_requests_at_a_rate_are_calibrated_by_what_was_in_flight(tmp_path: Path) -> None:
    """1.5 requests/s that stay about 9 s."""
    path = result_file(tmp_path, max_concurrency=None, request_rate=1.5, request_throughput=1.5, output_throughput=750)
    found = calibrate([path], FLAGS)
    (run,) = found.runs
    assert run.load == "1.5/s"
    assert run.tpot_ms.before is not None
    assert run.tpot_ms.after is not None
    assert abs(run.tpot_ms.after - 17.0) < abs(run.tpot_ms.before - 17.0)


def test_all_that_neither_file_nor_options_say_is_asked_for_at_once(tmp_path: Path) -> None:
    path = result_file(tmp_path, backend="openai")
    with pytest.raises(QuestionError, match=r"bench.json: does not say the GPU, .* the engine; give --gpu, --tp"):
        calibrate([path], CalibrateFlags())


def test_a_model_under_another_name_and_a_quantized_one(tmp_path: Path) -> None:
    path = result_file(tmp_path, model_id="my-llama")
    with pytest.raises(QuestionError, match=r"Unknown model 'my-llama'[^~]*--model says which model it is"):
        calibrate([path], FLAGS)
    assert calibrate([path], FLAGS.model_copy(update={"model": MODEL})).runs_used == 1
    named = result_file(tmp_path, name="named.json", model_id="nvidia/Llama-3.3-70B-Instruct-FP8", tpot_ms=17.5)
    found = calibrate([named], FLAGS.model_copy(update={"weights": None}))
    assert found.runs[-1].layout == "fp8 TP4"


def test_replicas_share_the_requests(tmp_path: Path) -> None:
    """Twice the requests on twice the GPUs are the same run twice over."""
    one = calibrate([result_file(tmp_path)], FLAGS, dry_run=True).runs[0]
    path = result_file(tmp_path, name="two.json", max_concurrency=32)
    two = calibrate([path], FLAGS.model_copy(update={"replicas": 2}), dry_run=True).runs[0]
    assert two.tpot_ms == one.tpot_ms
    assert two.layout == "fp8 TP4 x 2"
