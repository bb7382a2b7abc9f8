"""Results of `vllm bench serve --save-result` (and --append-result: one JSON object a line; SGLang's are much alike).

What users add with --metadata stands beside the results: gpu=, tp=, engine_version= and so on are read from there.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optimizer.benchmarks.run import (
    BURST,
    CLOSED,
    MIXED,
    SAME,
    Run,
    amount,
    lengths_of,
    scenario_of,
    text,
    whole_amount,
)
from optimizer.errors import QuestionError
from optimizer.fields import shown

NAME = "vllm-bench"
NEEDED = ("total_input_tokens", "total_output_tokens", "completed")
# Backends of the benchmark that say which engine answers; "openai" and the like say nothing.
ENGINES = {"vllm": "vllm", "sglang": "sglang", "sglang-oai": "sglang", "tensorrt-llm": "trtllm"}


def is_one(record: object) -> bool:
    """Return whether a JSON value looks like a result of `vllm bench serve`."""
    return isinstance(record, Mapping) and "total_output_tokens" in record and "completed" in record


def read(records: Sequence[Mapping[str, Any]], path: Path) -> tuple[Run, ...]:
    """Return the runs of a file, one a record.

    Raises:
        QuestionError: a record lacks a field, or a field is not what it should be.
    """
    many = len(records) > 1
    return tuple(_run(record, path, f"result {number}" if many else "") for number, record in enumerate(records, 1))


def _run(record: Mapping[str, Any], path: Path, where: str) -> Run:
    place = f"{where}: " if where else ""
    missing = [name for name in NEEDED if name not in record]
    if missing:
        raise QuestionError(f"{path}: {place}no field {', '.join(missing)}, which `vllm bench serve` writes")
    inputs, outputs, requests = (amount(record, name, path, place) for name in NEEDED)
    if inputs is None or outputs is None or requests is None:
        raise QuestionError(f"{path}: {place}no request was served, or none had tokens (see completed, total_*_tokens)")
    concurrency, rate = amount(record, "max_concurrency", path, place), _rate(record, path, place)
    if concurrency is not None:
        concurrency = min(concurrency, requests)
    scenario = scenario_of(concurrency, rate)
    if concurrency is not None and rate is not None and _limited(record, concurrency, path, place):
        scenario, rate = CLOSED, None
    return Run(
        where=where,
        scenario=scenario,
        input_tokens=inputs / requests,
        output_tokens=outputs / requests,
        lengths=_lengths(record, outputs / requests),
        concurrency=requests if scenario == BURST else concurrency if scenario == CLOSED else None,
        request_rate=rate,
        requests=requests,
        failed=_failed(record, requests, path, place),
        ttft_ms=amount(record, "mean_ttft_ms", path, place),
        tpot_ms=amount(record, "mean_tpot_ms", path, place),
        output_tokens_per_second=amount(record, "output_throughput", path, place),
        model=text(record, "model_id", "model"),
        engine=text(record, "engine") or ENGINES.get(str(record.get("backend", record.get("endpoint_type")))),
        engine_version=text(record, "engine_version", "vllm_version"),
        gpu=text(record, "gpu"),
        tp=whole_amount(record, "tp", path, place),
        pp=whole_amount(record, "pp", path, place),
        ep=whole_amount(record, "ep", path, place),
        attention_dp=whole_amount(record, "attention_dp", path, place),
        weights=text(record, "weights"),
        kv_cache=text(record, "kv_cache"),
    )


def _rate(record: Mapping[str, Any], path: Path, place: str) -> float | None:
    """Requests per second that were sent; None where all were sent at once (written as "inf")."""
    value = record.get("request_rate")
    if value is None or str(value).strip().lower() in {"inf", "infinity"}:
        return None
    rate = amount(record, "request_rate", path, place)
    if rate is None:
        raise QuestionError(f'{path}: {place}request_rate: expected a rate, or "inf"; got {shown(value)}')
    return rate


def _limited(record: Mapping[str, Any], concurrency: float, path: Path, place: str) -> bool:
    """Whether the limit on requests in flight, and not the rate, decided how many there were (Little's law)."""
    names = ("request_throughput", "mean_ttft_ms", "mean_tpot_ms", "total_output_tokens", "completed")
    rate, ttft, tpot, outputs, requests = (amount(record, name, path, place) or 0.0 for name in names)
    in_flight = rate * (ttft + tpot * (outputs / max(requests, 1.0) - 1.0)) / 1e3
    return in_flight > 0.9 * concurrency


def _failed(record: Mapping[str, Any], served: float, path: Path, place: str) -> float:
    said = amount(record, "failed", path, place)
    if said is not None:
        return said
    return max((amount(record, "num_prompts", path, place) or served) - served, 0.0)


def _lengths(record: Mapping[str, Any], mean: float) -> str:
    """How alike answers were: by their lengths where the file has them, else by whether the mean is whole."""
    known = record.get("output_lens")
    if isinstance(known, list):
        served = [float(one) for one in known if isinstance(one, (int, float)) and one > 0]
        if len(served) > 1:
            return lengths_of(statistics.pstdev(served) / statistics.fmean(served)) or MIXED
    return SAME if abs(mean - round(mean)) < 1e-9 else MIXED
