"""Exports of GenAI-Perf and of AIPerf, which came from it: profile_export_genai_perf.json, profile_export_aiperf.json
and profile_export_aiperf.csv. Metrics have the same names and units in all three; a CSV holds nothing but metrics.
"""  # noqa: D205  the names of the files fill the first line

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from optimizer.benchmarks.run import BURST, CLOSED, Run, amount, lengths_of, scenario_of, text
from optimizer.errors import QuestionError
from optimizer.fields import shown

GENAI_PERF, AIPERF = "genai-perf", "aiperf"
METRICS = ("time_to_first_token", "inter_token_latency", "request_latency", "output_token_throughput")
TO_MS = {"": 1.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6, "s": 1e3, "sec": 1e3, "seconds": 1e3}
ENGINES = {"vllm": "vllm", "tensorrtllm": "trtllm", "trtllm": "trtllm", "sglang": "sglang"}
# A metric in a CSV, and the name that it has in JSON.
HEADERS = {
    "time to first token": "time_to_first_token",
    "inter token latency": "inter_token_latency",
    "request latency": "request_latency",
    "output token throughput": "output_token_throughput",
    "input sequence length": "input_sequence_length",
    "output sequence length": "output_sequence_length",
    "request count": "request_count",
    "error request count": "error_request_count",
}


def is_one(record: object) -> bool:
    """Return whether a JSON value looks like an export of GenAI-Perf or AIPerf."""
    return isinstance(record, Mapping) and any(
        isinstance(record.get(name), Mapping) and "avg" in record[name] for name in METRICS
    )


def format_of(record: Mapping[str, Any]) -> str:
    """Return which of the two wrote a JSON export."""
    config = record.get("input_config")
    signs = ("aiperf_version", "was_cancelled", "benchmark_duration")
    loads = isinstance(config, Mapping) and ("loadgen" in config or "cli_command" in config)
    return AIPERF if loads or any(name in record for name in signs) else GENAI_PERF


def read(record: Mapping[str, Any], path: Path) -> tuple[Run, ...]:
    """Return the run of a JSON export.

    Raises:
        QuestionError: a metric is not what it should be, or the benchmark was cancelled.
    """
    if record.get("was_cancelled") is True:
        raise QuestionError(f"{path}: was_cancelled: expected a benchmark that ran to its end; got true")
    config = record.get("input_config")
    config = config if isinstance(config, Mapping) else {}
    rate = _setting(config, "request_rate", path)
    concurrency = None if rate is not None else _setting(config, "concurrency", path)
    found = _of_metrics(record, path, concurrency, rate)
    return (found,)


def read_csv(rows: list[list[str]], path: Path) -> tuple[Run, ...]:
    """Return the run of an AIPerf CSV: sections of "Metric,avg,..." and of "Metric,Value", blank lines between.

    Raises:
        QuestionError: a metric is not a number.
    """
    metrics: dict[str, dict[str, Any]] = {}
    header: list[str] = []
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            header = []
        elif cells[0] == "Metric":
            header = ["avg" if name == "Value" else name for name in cells]
        elif header:
            label, _, unit = cells[0].partition(" (")
            name = HEADERS.get(label.lower())
            if name is not None:
                metrics[name] = {"unit": unit.rstrip(")"), **dict(zip(header[1:], cells[1:], strict=False))}
    return (_of_metrics(metrics, path, None, None),)


def is_csv(rows: list[list[str]]) -> bool:
    """Return whether the rows of a CSV are those of an AIPerf export."""
    first = next((row for row in rows if any(row)), [])
    return len(first) > 1 and first[0].strip() == "Metric" and first[1].strip() in {"avg", "Value"}


def _of_metrics(record: Mapping[str, Any], path: Path, concurrency: float | None, rate: float | None) -> Run:
    config = record.get("input_config")
    outputs = _metric(record, "output_sequence_length", path)
    spread = _metric(record, "output_sequence_length", path, "std")
    known = outputs is not None and _has(record, "output_sequence_length", "std")
    scenario = scenario_of(concurrency, rate)
    return Run(
        where="",
        # Neither is what a CSV says; options then do.
        scenario=CLOSED if scenario == BURST else scenario,
        input_tokens=_metric(record, "input_sequence_length", path),
        output_tokens=outputs,
        lengths=lengths_of((spread or 0.0) / outputs) if known and outputs else None,
        concurrency=concurrency,
        request_rate=rate,
        requests=_metric(record, "request_count", path),
        failed=_metric(record, "error_request_count", path),
        ttft_ms=_milliseconds(record, "time_to_first_token", path),
        tpot_ms=_milliseconds(record, "inter_token_latency", path),
        output_tokens_per_second=_metric(record, "output_token_throughput", path),
        model=_model(config) if isinstance(config, Mapping) else None,
        engine=_engine(config) if isinstance(config, Mapping) else None,
    )


def _has(record: Mapping[str, Any], name: str, statistic: str) -> bool:
    metric = record.get(name)
    return isinstance(metric, Mapping) and metric.get(statistic) not in (None, "")


def _metric(record: Mapping[str, Any], name: str, path: Path, statistic: str = "avg") -> float | None:
    metric = record.get(name)
    return amount(metric, statistic, path, f"{name}.") if isinstance(metric, Mapping) else None


def _milliseconds(record: Mapping[str, Any], name: str, path: Path) -> float | None:
    value = _metric(record, name, path)
    if value is None:
        return None
    unit = str(record[name].get("unit", "")).strip().lower()
    if unit not in TO_MS:
        raise QuestionError(f"{path}: {name}.unit: expected one of {', '.join(filter(None, TO_MS))}; got {shown(unit)}")
    return value * TO_MS[unit]


def _places(config: Mapping[str, Any], field: str) -> Iterator[Any]:
    """Every value of a field, in the sections where versions of the two keep it, at any depth."""
    if field in config:
        yield config[field]
    for section in config.values():
        if isinstance(section, Mapping):
            yield from _places(section, field)
        elif isinstance(section, list):
            for part in section:
                if isinstance(part, Mapping):
                    yield from _places(part, field)


def _setting(config: Mapping[str, Any], field: str, path: Path) -> float | None:
    for value in _places(config, field):
        one = value[0] if isinstance(value, list) and len(value) == 1 else value
        if isinstance(one, (int, float)) and not isinstance(one, bool) and one > 0:
            return amount({field: one}, field, path, "input_config.")
    return None


def _model(config: Mapping[str, Any]) -> str | None:
    for field in ("model_names", "model"):
        for value in _places(config, field):
            one = value[0] if isinstance(value, list) and len(value) == 1 else value
            if isinstance(one, str) and one:
                return one
    return None


def _engine(config: Mapping[str, Any]) -> str | None:
    for value in _places(config, "backend"):
        said = text({"backend": str(value).rpartition(".")[2].lower()}, "backend")
        if said in ENGINES:
            return ENGINES[said]
    return None
