"""Runs completed by what the user says of the server, and stored runs as rows to predict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from catalogs.errors import CatalogError
from catalogs.models import ModelSpec, bundled_models, load_model
from optimizer.benchmarks.run import CLOSED, MIXED, OPEN, Run, scenario_of
from optimizer.errors import QuestionError
from optimizer.flags import CalibrateFlags
from optimizer.own_runs.store import Source, StoredRun
from optimizer.performance.calibration.observations import canonical_gpu, model_name
from optimizer.performance.calibration.overlay import with_eras
from optimizer.replica import Replica, name_replica
from optimizer.scenario import KV_DTYPES, WEIGHT_FORMATS
from optimizer.validate.speed_predict import QUANTITIES
from optimizer.validate.speed_rows import runs_to_predict

ENGINES = {"trtllm": "tensorrt-llm", "tensorrtllm": "tensorrt-llm", "trt-llm": "tensorrt-llm"}
# What the names of quantized checkpoints say of them.
_QUANTIZED = (("nvfp4|fp4", "nvfp4"), ("fp8", "fp8"), ("w8a8|int8", "int8"), ("awq|gptq|int4|w4a16", "int4"))


def complete(run: Run, given: CalibrateFlags, path: Path) -> StoredRun:
    """Complete a run by what was given, and check the names in it.

    In a file of one run, what is given counts; in a file of many, it fills what a row leaves open.
    """
    place = f"{path}: {run.where}: " if run.where else f"{path}: "
    first = given.model_dump(exclude_none=True, exclude={"format", "force", "replicas"})
    engine, _, version = (first.pop("engine", None) or "").partition("@")
    first |= {"engine": engine or None, "engine_version": first.get("engine_version") or version or None}
    own = {name: getattr(run, name) for name in first}
    known = {
        name: own[name] if _is_row(run) and own[name] is not None else (first[name] or own[name]) for name in first
    }
    run = replace(run, **known)
    if given.request_rate is not None or given.concurrency is not None:
        run = replace(run, scenario=scenario_of(run.concurrency, run.request_rate) if not run.where else run.scenario)
    lacks = _lacks(run)
    if lacks and not _is_row(run):
        raise QuestionError(place + lacks)
    if lacks:
        return _as_named(run).model_copy(update={"lacks": lacks})
    try:
        run = _with_formats(run, place)
        replica = _replica(run, place)
    except QuestionError:
        if not _is_row(run):
            raise
        return _as_named(run)  # one of many rows: set aside, with the reason, when runs are judged
    split = replica.split
    named = StoredRun(**_measured(run), **_sizes(run), n_gpus=run.gpus or split.gpus * given.replicas)
    return named.model_copy(
        update={
            "gpu": replica.gpu.name,
            "weight_precision": split.weights,
            "kv_precision": split.kv_cache,
            "ep": split.ep,
        }
    )


def _is_row(run: Run) -> bool:
    return run.where.startswith("row")


def _as_named(run: Run) -> StoredRun:
    """Return a run that cannot be used, with the names that it has."""
    sizes = _sizes(run)
    gpus = run.gpus or sizes["tp"] * sizes["pp"] * sizes["attn_dp"]
    return StoredRun(**_measured(run), **sizes, n_gpus=gpus)


def _sizes(run: Run) -> dict[str, Any]:
    return {
        "gpu": run.gpu or "",
        "tp": run.tp or 1,
        "pp": run.pp or 1,
        "ep": run.ep or 1,
        "attn_dp": run.attention_dp or 1,
        "weight_precision": run.weights or "bf16",
        "kv_precision": run.kv_cache or "bf16",
    }


def _measured(run: Run) -> dict[str, Any]:
    return {
        "where": run.where,
        "engine": ENGINES.get(run.engine or "", run.engine or ""),
        "engine_version": run.engine_version,
        "model": _lasting_name(run.model or ""),
        "isl": float(run.input_tokens or 0.0),
        "osl": float(run.output_tokens or 0.0),
        "lengths": run.lengths or MIXED,
        "concurrency": run.concurrency,
        "batch": run.batch,
        "request_rate": run.request_rate,
        "scenario": run.scenario,
        "ttft_ms": run.ttft_ms,
        "tpot_ms": run.tpot_ms,
        "output_tok_s_total": run.output_tokens_per_second,
        "completed": run.requests,
        "failed": run.failed,
    }


def _lasting_name(model: str) -> str:
    """Return the name of a model under which it is found from any folder."""
    path = Path(model).expanduser()
    if not model or model.lower() in {name.lower() for name in bundled_models()} or not path.exists():
        return model
    return str(path.resolve())


def _with_formats(run: Run, place: str) -> Run:
    """Take formats in the catalog's words.

    Raises:
        QuestionError: a format is none that the catalog has.
    """
    weights = run.weights
    if weights == "fp4":
        weights = "mxfp4" if "gpt-oss" in str(run.model) else "nvfp4"
    for value, known, field in ((weights, WEIGHT_FORMATS, "weights"), (run.kv_cache, KV_DTYPES, "KV cache")):
        if value is not None and value not in known:
            raise QuestionError(f"{place}{field}: expected one of {', '.join(known)}; got {value!r}")
    return replace(run, weights=weights)


_MUST_SAY = {
    "model": ("the model", "--model"),
    "gpu": ("the GPU", "--gpu"),
    "tp": ("the tensor parallel size", "--tp"),
    "engine": ("the engine", "--engine"),
    "input_tokens": ("the prompts' length", "--input-tokens"),
    "output_tokens": ("the answers' length", "--output-tokens"),
}


def _lacks(run: Run) -> str:
    """Return all that neither file nor options say, and the options that would; "" where nothing is missing."""
    missing = {words: flag for name, (words, flag) in _MUST_SAY.items() if getattr(run, name) is None}
    if run.scenario == CLOSED and run.concurrency is None and run.batch is None:
        missing["how many requests were in flight"] = "--concurrency (or --request-rate)"
    return f"does not say {', '.join(missing)}; give {', '.join(missing.values())}" if missing else ""


def _model(run: Run, place: str) -> tuple[ModelSpec, str | None]:
    """Return the model, and the format that its name says of a checkpoint that is filed under its plain name."""
    name = str(run.model)
    filed = model_name(name, run.weights or "")
    try:
        model = load_model(filed)
    except CatalogError as error:
        raise QuestionError(
            f"{place}model: {error}\n--model says which model it is, whatever name it is served under"
        ) from None
    said = next((weights for pattern, weights in _QUANTIZED if re.search(pattern, name, re.IGNORECASE)), None)
    return model, run.weights or (said if filed != name else None)


def _replica(run: Run, place: str) -> Replica:
    model, weights = _model(run, place)
    try:
        gpu = canonical_gpu(str(run.gpu))
        tp, pp, dp = run.tp or 1, run.pp or 1, run.attention_dp or 1
        ep = run.ep or 1
        if _is_row(run) and ep > 1:
            ep = tp * dp  # files of runs say how many GPUs share the experts, in their own ways
        return name_replica(model, gpu, tp=tp, pp=pp, ep=ep, attention_dp=dp, weights=weights, kv_cache=run.kv_cache)
    except (CatalogError, QuestionError) as error:
        raise QuestionError(f"{place}{error}") from None


def rows_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return stored runs as replicas to predict; where requests came at a rate, `batch` is what was in flight."""
    rows = with_eras(runs_to_predict(table))
    rows["lengths"] = table["lengths"]
    stay = rows["ttft_s"].fillna(0.0) + (rows["output_tokens"] - 1.0) * rows["tpot_s"]
    in_flight = (rows["rate"] * stay).clip(lower=1.0)
    rows["batch"] = rows["batch"].where((rows["scenario"] != OPEN) | in_flight.isna(), in_flight)
    return rows


def table_of(sources: Sequence[Source]) -> pd.DataFrame:
    """All kept runs, one a row, in the columns of files of runs, with the file that each is from."""
    records = [
        {"source": source.name, "sha256": source.sha256, "forced": source.forced, **run.model_dump()}
        for source in sources
        for run in source.runs
    ]
    table = pd.DataFrame(records)
    table["set"], table["len_dist"] = "own", "not_stated"  # `lengths` says more
    for name in ("engine_version", "weight_precision", "kv_precision"):
        table[name] = table[name].astype(object).where(table[name].notna(), np.nan)
    for name in (*QUANTITIES, "concurrency", "batch", "request_rate", "completed", "failed"):
        table[name] = table[name].astype(float)
    return table
