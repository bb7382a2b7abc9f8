"""Benchmark files of each tool, restated: what is read of them, how they are told apart, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.benchmarks.read import read_benchmark
from optimizer.benchmarks.run import Run
from optimizer.errors import QuestionError

DATA = Path(__file__).parents[2] / "data" / "benchmarks"
LLAMA = "meta-llama/Llama-3.1-70B-Instruct"


def vllm_result(**changes: Any) -> dict[str, Any]:
    return {**json.loads((DATA / "vllm_bench_serve.json").read_text(encoding="utf-8")), **changes}


def read_json(folder: Path, *records: Any, form: str | None = None) -> tuple[Run, ...]:
    path = folder / "result.json"
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return read_benchmark(path, form).runs


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("vllm_bench_serve.json", "vllm-bench"),
        ("profile_export_genai_perf.json", "genai-perf"),
        ("profile_export_aiperf.json", "aiperf"),
        ("profile_export_aiperf.csv", "aiperf"),
        ("runs.csv", "csv"),
    ],
)
def test_the_content_says_the_format_whatever_the_file_is_called(tmp_path: Path, name: str, form: str) -> None:
    path = tmp_path / "benchmark.txt"
    path.write_bytes((DATA / name).read_bytes())
    assert read_benchmark(path).format == form
    assert read_benchmark(path, form) == read_benchmark(path)


def test_a_result_of_vllm_bench_is_means_of_a_closed_loop() -> None:
    """160,000 input and 80,000 output tokens of 160 requests; answers of one length keep clients in step."""
    (run,) = read_benchmark(DATA / "vllm_bench_serve.json").runs
    assert (run.input_tokens, run.output_tokens, run.lengths) == (1000, 500, "same")
    assert (run.scenario, run.concurrency, run.request_rate) == ("fixed_concurrency", 16, None)
    assert (run.ttft_ms, run.tpot_ms, run.output_tokens_per_second) == (131.6, 17.61, 894.9)
    assert (run.requests, run.failed, run.model, run.engine) == (160, 0, LLAMA, None)


def test_what_metadata_says_of_the_server_is_taken_over(tmp_path: Path) -> None:
    (run,) = read_json(tmp_path, vllm_result(backend="vllm", gpu="H100-SXM-80GB", tp="4", engine_version="0.19.0"))
    assert (run.engine, run.gpu, run.tp, run.engine_version) == ("vllm", "H100-SXM-80GB", 4, "0.19.0")


def test_results_appended_line_by_line_are_runs_of_their_own(tmp_path: Path) -> None:
    runs = read_json(tmp_path, vllm_result(), vllm_result(max_concurrency=32))
    assert [(run.where, run.concurrency) for run in runs] == [("result 1", 16), ("result 2", 32)]


def test_more_clients_than_requests_are_as_many_as_the_requests(tmp_path: Path) -> None:
    (run,) = read_json(tmp_path, vllm_result(max_concurrency=500))
    assert run.concurrency == 160


@pytest.mark.parametrize(
    ("changes", "scenario"),
    [
        ({"max_concurrency": None}, "offline_burst_all_requests"),
        ({"max_concurrency": None, "request_rate": 2.0}, "server_fixed_qps"),
        # 1.79 requests/s that stay 8.92 s are 16.0 in flight: the limit of 16 decides, of 64 the rate.
        ({"request_rate": 5.0}, "fixed_concurrency"),
        ({"request_rate": 2.0, "max_concurrency": 64}, "server_fixed_qps"),
    ],
)
def test_how_requests_come_is_the_limit_that_was_reached(
    tmp_path: Path, changes: dict[str, Any], scenario: str
) -> None:
    (run,) = read_json(tmp_path, vllm_result(**changes))
    assert run.scenario == scenario


@pytest.mark.parametrize(
    ("changes", "lengths"),
    [
        ({"output_lens": [500] * 160}, "same"),
        ({"output_lens": [450, 550] * 80}, "near"),
        ({"output_lens": [100, 900] * 80}, "mixed"),
        ({"total_output_tokens": 80_007}, "mixed"),
    ],
)
def test_lengths_are_alike_by_what_the_file_has_of_them(tmp_path: Path, changes: dict[str, Any], lengths: str) -> None:
    (run,) = read_json(tmp_path, vllm_result(**changes))
    assert run.lengths == lengths


def test_genai_perf_and_aiperf_say_the_same_in_json_and_csv() -> None:
    """A CSV holds no settings: the model, the engine and the load have to be said."""
    (genai,) = read_benchmark(DATA / "profile_export_genai_perf.json").runs
    (aiperf,) = read_benchmark(DATA / "profile_export_aiperf.json").runs
    (table,) = read_benchmark(DATA / "profile_export_aiperf.csv").runs
    assert (genai.model, genai.engine, genai.concurrency) == (LLAMA, "vllm", 16)
    assert genai.ttft_ms == pytest.approx(134.2)  # given in nanoseconds
    assert (genai.output_tokens, genai.lengths) == (480, "near")  # 60 / 480 = 0.125
    assert (aiperf.model, aiperf.engine, aiperf.concurrency) == (LLAMA, None, 16)
    assert (table.model, table.engine, table.concurrency) == (None, None, None)
    measured = (
        "ttft_ms",
        "tpot_ms",
        "output_tokens_per_second",
        "input_tokens",
        "output_tokens",
        "lengths",
        "requests",
    )
    assert [getattr(table, name) for name in measured] == [getattr(aiperf, name) for name in measured]


def test_settings_are_found_where_versions_of_genai_perf_keep_them(tmp_path: Path) -> None:
    record = json.loads((DATA / "profile_export_genai_perf.json").read_text(encoding="utf-8"))
    old = record | {"input_config": {"model": ["m"], "backend": "OutputFormat.TENSORRTLLM", "concurrency": [8]}}
    rate = record | {"input_config": {"model_names": ["m"], "perf_analyzer": {"stimulus": {"request_rate": 3.5}}}}
    (first,), (second,) = read_json(tmp_path, old), read_json(tmp_path, rate)
    assert (first.model, first.engine, first.concurrency) == ("m", "trtllm", 8)
    assert (second.scenario, second.request_rate, second.concurrency) == ("server_fixed_qps", 3.5, None)


def test_a_file_of_runs_keeps_its_rows_apart() -> None:
    """Lengths of 0.8 to 1 times the nominal one are 0.9 of it on average."""
    runs = read_benchmark(DATA / "runs.csv").runs
    assert [run.where for run in runs] == ["row 2", "row 3", "row 4"]
    assert [run.input_tokens for run in runs] == [1000, 900, 1000]
    assert [run.lengths for run in runs] == ["same", "near", "same"]
    assert [run.scenario for run in runs] == ["fixed_concurrency", "fixed_concurrency", "server_fixed_qps"]


@pytest.mark.parametrize(
    ("content", "form", "said"),
    [
        ("", None, "is empty; accepted"),
        ("hello", None, "is in no known format; accepted"),
        ('{"a": 1,\n "b": ', None, "line 2 is not JSON"),
        ('{"a": 1}\n{"b": ', None, "line 2 is not JSON"),
        ('{"latencies": [1, 2]}', None, r"JSON of no known benchmark \(it has latencies\)"),
        ("{}", "vllm-bench", "no field total_input_tokens, total_output_tokens, completed"),
        ("{}", "aiperf", "is no export of aiperf"),
        ("a,b\n1,2\n", "aiperf", "is no AIPerf export"),
        ("a,b\n1,2\n", "csv", "no column isl, osl"),
        ("isl,osl,tpot_ms\n", None, "no rows"),
        ("isl,osl,tpot_ms\n1000,500,fast\n", None, "row 2: tpot_ms: expected a number above 0; got 'fast'"),
        ("isl,osl,tpot_ms,tp\n1000,500,20,2.5\n", None, "row 2: tp: expected a whole number; got '2.5'"),
    ],
)
def test_a_file_that_is_none_is_refused_by_what_is_wrong(
    tmp_path: Path, content: str, form: str | None, said: str
) -> None:
    path = tmp_path / "bad"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(QuestionError, match=said):
        read_benchmark(path, form)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mean_tpot_ms": "fast"}, "mean_tpot_ms: expected a number above 0; got 'fast'"),
        ({"mean_tpot_ms": -1}, "mean_tpot_ms: expected a number above 0; got -1"),
        ({"mean_ttft_ms": True}, "mean_ttft_ms: expected a number above 0; got true"),
        ({"request_rate": 0}, 'request_rate: expected a rate, or "inf"; got 0'),
        ({"completed": 0}, "no request was served"),
    ],
)
def test_a_value_that_cannot_be_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        read_json(tmp_path, vllm_result(**changes))


def test_a_cancelled_benchmark_and_an_unknown_unit_are_refused(tmp_path: Path) -> None:
    record = json.loads((DATA / "profile_export_aiperf.json").read_text(encoding="utf-8"))
    with pytest.raises(QuestionError, match="was_cancelled: expected a benchmark that ran to its end"):
        read_json(tmp_path, record | {"was_cancelled": True})
    with pytest.raises(QuestionError, match=r"time_to_first_token.unit: expected one of ms, us"):
        read_json(tmp_path, record | {"time_to_first_token": {"unit": "fortnights", "avg": 1.0}})


def test_what_was_not_measured_is_none(tmp_path: Path) -> None:
    (run,) = read_json(tmp_path, vllm_result(mean_tpot_ms=0.0, mean_ttft_ms=float("nan")))
    assert (run.tpot_ms, run.ttft_ms) == (None, None)


def test_a_folder_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match="cannot be read"):
        read_benchmark(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(QuestionError, match="is not text in UTF-8"):
        read_benchmark(tmp_path / "binary")
