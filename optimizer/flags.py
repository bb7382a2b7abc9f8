"""From flags to a question: every value is checked here, and a wrong one is answered under the flag's own name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from catalogs.errors import near_matches
from optimizer.errors import QuestionError, ScenarioError
from optimizer.fields import (
    Count,
    Day,
    Days,
    Dollars,
    EngineName,
    Hours,
    Name,
    ParallelSize,
    Part,
    Percentage,
    PositiveRate,
    PositiveShare,
    Share,
    Tokens,
    as_list,
    number,
    problem,
    whole,
)
from optimizer.fleet.question import FleetScenario, build_fleet_scenario, fleet_fields
from optimizer.scenario import (
    KV_DTYPES,
    WEIGHT_FORMATS,
    Scenario,
    SpeedSource,
    build_scenario,
    is_fleet,
    load_scenario,
)
from optimizer.yaml_file import read_mapping

TRAFFIC = ("request_rate", "concurrency", "output_tokens_per_second")

# Flag -> section and field of the scenario. A flag that is not given (None, or an empty list) changes nothing.
FIELDS: dict[str, tuple[str, str]] = {
    "input_tokens": ("workload", "input_tokens"),
    "output_tokens": ("workload", "output_tokens"),
    "request_rate": ("workload", "request_rate"),
    "concurrency": ("workload", "concurrency"),
    "output_tokens_per_second": ("workload", "output_tokens_per_second"),
    "context": ("workload", "context_tokens"),
    "burstiness": ("workload", "burstiness"),
    "input_cv": ("workload", "input_cv"),
    "output_cv": ("workload", "output_cv"),
    "at": ("targets", "at"),
    "ttft_ms": ("targets", "ttft_ms"),
    "tpot_ms": ("targets", "tpot_ms"),
    "e2e_ms": ("targets", "e2e_ms"),
    "confidence": ("targets", "confidence"),
    "gpu": ("limits", "gpus"),
    "exclude_gpu": ("limits", "exclude_gpus"),
    "provider": ("limits", "providers"),
    "exclude_provider": ("limits", "exclude_providers"),
    "provider_kind": ("limits", "provider_kinds"),
    "region": ("limits", "regions"),
    "instance_type": ("limits", "instance_types"),
    "term": ("limits", "terms"),
    "weights": ("limits", "weights"),
    "kv_cache": ("limits", "kv_cache"),
    "tp": ("limits", "tp"),
    "pp": ("limits", "pp"),
    "ep": ("limits", "ep"),
    "attention_dp": ("limits", "attention_dp"),
    "replicas": ("limits", "replicas"),
    "max_gpus": ("limits", "max_gpus"),
    "max_nodes": ("limits", "max_nodes"),
    "budget_usd_per_hour": ("limits", "budget_usd_per_hour"),
    "tp_across_nodes": ("limits", "tp_across_nodes"),
    "max_concurrency": ("limits", "max_concurrency_per_replica"),
    "max_utilization": ("limits", "max_utilization"),
    "memory_policy": ("memory", "policy"),
    "headroom": ("memory", "headroom"),
    "overhead": ("memory", "overhead"),
    "gpu_memory_utilization": ("memory", "gpu_memory_utilization"),
    "engine": ("memory", "engine"),
    "as_of": ("prices", "as_of"),
    "max_price_age_days": ("prices", "max_age_days"),
    "offers_file": ("prices", "offers_files"),
    "discount": ("prices", "discounts"),
    "performance": ("performance", "backend"),
    "performance_table": ("performance", "table"),
}
MAXIMIZED = ("traffic", "context", "latency", "precision")  # what a budget buys (see optimizer.whatif.budget)
PERFORMANCE_VARIABLE = "SHARDWISE_PERFORMANCE"  # what --performance is where neither flag nor file say so


def _one_of(known: tuple[str, ...], what: str) -> BeforeValidator:
    """Accept one of some names."""

    def check(value: Any) -> str:
        if value not in known:
            near = near_matches(str(value)[:80], known, limit=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"unknown {what} {value!r}{hint} (accepted: {', '.join(known)})")
        return str(value)

    return BeforeValidator(check)


class ReplicaFlags(Part):
    """What `fit` and `predict` ask alike: one replica. Precisions not named are the checkpoint's own."""

    model: Annotated[str, Field(min_length=1, max_length=4096)]
    gpu: Name
    tp: ParallelSize = 1
    pp: ParallelSize = 1
    ep: ParallelSize = 1
    attention_dp: ParallelSize = 1
    weights: Annotated[str, _one_of(WEIGHT_FORMATS, "weight format")] | None = None
    kv_cache: Annotated[str, _one_of(KV_DTYPES, "KV cache dtype")] | None = None


class FitFlags(ReplicaFlags):
    """The question of `shardwise fit`."""

    context: Tokens = 8192
    concurrency: Count = 1
    memory_policy: Literal["framework", "engine"] = "framework"
    headroom: Share = 0.20
    overhead: Share = 0.15
    gpu_memory_utilization: PositiveShare = 0.90
    engine: EngineName = "vllm"


class PerformanceFlags(Part):
    """Where speed figures come from (see optimizer.scenario.SpeedSource)."""

    performance: Literal["roofline", "aiconfigurator", "auto"] = "roofline"
    performance_table: Path | None = None

    @property
    def source(self) -> SpeedSource:
        """The same as a part of a scenario."""
        return SpeedSource(backend=self.performance, table=self.performance_table)


class PredictFlags(ReplicaFlags, PerformanceFlags):
    """The question of `shardwise predict`."""

    concurrency: Annotated[int, whole(1, 4096)]
    input_tokens: Tokens
    output_tokens: Tokens


class CalibrateFlags(Part):
    """What `shardwise calibrate` is told of the server behind a benchmark; what is None the file has to say."""

    model: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    gpu: Name | None = None
    tp: ParallelSize | None = None
    pp: ParallelSize | None = None
    ep: ParallelSize | None = None
    attention_dp: ParallelSize | None = None
    replicas: Annotated[int, whole(1, 100_000)] = 1
    weights: Annotated[str, _one_of(WEIGHT_FORMATS, "weight format")] | None = None
    kv_cache: Annotated[str, _one_of(KV_DTYPES, "KV cache dtype")] | None = None
    engine: EngineName | None = None
    engine_version: Name | None = None
    concurrency: Count | None = None
    request_rate: PositiveRate | None = None
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    format: Literal["vllm-bench", "genai-perf", "aiperf", "csv"] | None = None
    force: bool = False


HOURS_PER_DAY = 24


def whole_days(hours: float | None) -> int | None:
    """Return an age of prices in days, as they are dated by day: hours are whole days, rounded down."""
    return None if hours is None else int(hours // HOURS_PER_DAY)


Seconds = Annotated[float, number("seconds from 0.1 to 86,400", lambda x: 0.1 <= x <= 86_400)]


class RunFlags(Part):
    """How `shardwise solve` runs."""

    time_limit: Seconds = 20.0
    max_price_age: Hours | None = None


class ApiFlags(Part):
    """What `shardwise whatif api` asks beside the scenario."""

    against: Annotated[str, Field(min_length=1, max_length=200)]
    cached_share: Annotated[float, number("a share from 0 to 1 (30% is 0.3)", lambda x: 0 <= x <= 1)] = 0.0
    duty_cycle: PositiveShare | None = None
    hours_per_day: Annotated[float, number("hours above 0 and at most 24", lambda x: 0 < x <= 24)] | None = None
    profile: Annotated[
        tuple[Annotated[float, number("traffic from 0 to 1,000,000,000", lambda x: 0 <= x <= 1e9)], ...],
        BeforeValidator(as_list),
    ] = ()


class SweepFlags(Part):
    """How `shardwise whatif sweep` runs and prints."""

    jobs: Annotated[int, whole(1, 1024)] | None = None
    limit: Annotated[int, whole(0, 1_000_000)] = 40


class SimulateFlags(Part):
    """What `shardwise simulate` replays."""

    plan: Path
    trace: Path
    speedup: Annotated[float, number("a number from 0.001 to 1,000", lambda x: 1e-3 <= x <= 1e3)] = 1.0
    limit: Annotated[int, whole(1, 100_000_000)] | None = None


class BudgetFlags(Part):
    """What `shardwise whatif budget` asks."""

    usd_per_hour: Annotated[tuple[Dollars, ...], BeforeValidator(as_list), Field(min_length=1, max_length=20)]
    maximize: Annotated[tuple[Annotated[str, _one_of(MAXIMIZED, "lever")], ...], BeforeValidator(as_list)] = MAXIMIZED


class ParetoFlags(Part):
    """How far `shardwise pareto` goes."""

    up_to_usd_per_hour: Dollars | None = None


def performance_asked(performance: str | None, table: Path | None) -> SpeedSource | None:
    """Return where flags and environment have speed figures come from; None where neither says so.

    Raises:
        ScenarioError: a value is none that is accepted.
    """
    values = {"performance": performance or environment_performance(), "performance_table": table}
    return read_flags(PerformanceFlags, values).source if any(values.values()) else None


def environment_performance() -> str | None:
    """Return what SHARDWISE_PERFORMANCE says; None where it is not set, or empty."""
    return os.environ.get(PERFORMANCE_VARIABLE) or None


class ReoptimizeFlags(RunFlags):
    """How `shardwise reoptimize` and `shardwise watch` weigh a switch."""

    switch_cost_usd: Annotated[float, number("dollars from 0 to 1,000,000,000", lambda x: 0 <= x <= 1e9)] = 200.0
    min_saving: Percentage = 0.05
    horizon: Hours = 720.0
    as_of: Day | None = None
    max_price_age_days: Days | None = None

    @property
    def most_days(self) -> int | None:
        """The oldest that a price may be, in days; None where neither flag says so."""
        given = [one for one in (self.max_price_age_days, whole_days(self.max_price_age)) if one is not None]
        return min(given, default=None)


class McpFlags(Part):
    """How `shardwise mcp` serves."""

    workers: Annotated[int, whole(1, 256)] | None = None
    time_limit: Seconds = 120.0


class WatchFlags(Part):
    """How `shardwise watch` runs."""

    metrics_port: Annotated[int, whole(1, 65_535)] | None = None


class OffersFlags(Part):
    """What `shardwise catalog offers` reads."""

    as_of: Day | None = None
    limit: Annotated[int, whole(0, 1_000_000)] = 50


class PricesFlags(Part):
    """What the commands of `shardwise prices` read."""

    as_of: Day | None = None
    since: Day | None = None
    until: Day | None = None
    before: Day | None = None
    after: Day | None = None
    date: Day | None = None
    limit: Annotated[int, whole(0, 1_000_000)] = 50


Flags = TypeVar("Flags", bound=Part)


def read_flags(part: type[Flags], values: Mapping[str, Any]) -> Flags:
    """Check the flags of a command that asks no scenario; one that is None was not given.

    Raises:
        ScenarioError: naming each flag with its value and what would be accepted.
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return part.model_validate(given)
    except ValidationError as error:
        problems = [problem(item, part) for item in error.errors(include_url=False)]
        raise ScenarioError("flags", [_under_flag(text, _flag) for text in problems]) from None


def read_question(question: str, flags: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a YAML file with flags applied, or the one that a model's name and the flags make.

    Args:
        question: a scenario file (.yaml or .yml), or a model: a bundled name, a config.json or its folder.
        flags: values by flag name (keys of FIELDS); None and empty lists were not given.

    Raises:
        QuestionError: the file or a value is wrong, or two kinds of traffic are given as flags.
    """
    given = {name: _read(name, value) for name, value in flags.items() if _is_given(value)}
    if len(kinds := [name for name in TRAFFIC if name in given]) > 1:
        raise QuestionError(f"{' and '.join(map(_flag, kinds))} say the traffic twice; give one of them")
    path, default = Path(question).expanduser(), environment_performance()
    if path.suffix.lower() in (".yaml", ".yml"):
        scenario = load_scenario(path)
        if "backend" in scenario.performance.model_fields_set:
            default = None  # the file says so itself
        if default is not None:
            given.setdefault("performance", default)
        if not given:
            return scenario
        fields, where = scenario.model_dump(), f"{question} with flags"
    else:
        if default is not None:
            given.setdefault("performance", default)
        fields, where = {"model": question}, "flags"
        _require(given)
    if kinds:
        fields["workload"] = {**fields.get("workload", {}), **dict.fromkeys(TRAFFIC)}
    if {"input_tokens", "output_tokens"} & set(given) and "context" not in given and "workload" in fields:
        fields["workload"]["context_tokens"] = None
    for name, value in given.items():
        section, field = FIELDS[name]
        fields.setdefault(section, {})[field] = value
    try:
        return build_scenario(fields, where)
    except ScenarioError as error:
        names = {".".join(FIELDS[name]): _flag(name) for name in given} | {"model": "MODEL"}
        raise ScenarioError(where, [_under_flag(text, names.get) for text in error.problems]) from None


def read_fleet_question(question: str, flags: Mapping[str, Any]) -> FleetScenario | None:
    """Return the fleet's question of a YAML file with flags applied; None where the file asks for one layout.

    Args:
        question: what stands for the scenario on the command line.
        flags: values by flag name (keys of FIELDS); None and empty lists were not given.

    Raises:
        QuestionError: the file or a value is wrong, or a flag says traffic, which a fleet has by classes.
    """
    path = Path(question).expanduser()
    if path.suffix.lower() not in (".yaml", ".yml"):
        return None
    content = read_mapping(path)
    if not is_fleet(content):
        return None
    given = {name: _read(name, value) for name, value in flags.items() if _is_given(value)}
    if traffic := [name for name in given if FIELDS[name][0] == "workload"]:
        said = ", ".join(map(_flag, traffic))
        raise QuestionError(f"{said}: {question} asks for a fleet, whose traffic stands in the file, by classes")
    if (default := environment_performance()) and "performance" not in content:
        given.setdefault("performance", default)
    scenario = build_fleet_scenario(fleet_fields(content, path.parent), question)
    if not given:
        return scenario
    fields = scenario.model_dump()
    for name, value in given.items():
        section, field = FIELDS[name]
        fields[section][field] = value
    try:
        return build_fleet_scenario(fields, f"{question} with flags")
    except ScenarioError as error:
        names = {".".join(FIELDS[name]): _flag(name) for name in given}
        raise ScenarioError(error.where, [_under_flag(text, names.get) for text in error.problems]) from None


def _is_given(value: Any) -> bool:
    return value is not None and value not in ([], ())


def _flag(name: str) -> str:
    return "MODEL" if name == "model" else f"--{name.replace('_', '-')}"


def _under_flag(text: str, flag_of: Callable[[str], str | None]) -> str:
    """Name the flag instead of the field in a problem ("limits.tp.0: expected ..."), where a flag gave the value."""
    place, colon, said = text.partition(": ")
    parts = place.split(".")
    flag = flag_of(".".join(parts[:2])) or flag_of(parts[0])
    return f"{flag}{colon}{said}" if flag and colon else text


def _require(given: Mapping[str, Any]) -> None:
    """Say which flags a question without a file still needs."""
    missing = [_flag(name) for name in ("input_tokens", "output_tokens") if name not in given]
    if not set(TRAFFIC) & set(given):
        missing.append(f"one of {', '.join(map(_flag, TRAFFIC))}")
    if missing:
        raise QuestionError(
            f"a question about a model also needs {', '.join(missing)} (or give a scenario file that ends in .yaml)"
        )


def _read(name: str, value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    if name == "discount":
        return [_discount(text) for text in value]
    if name == "offers_file":  # a file's name may hold a comma
        return [Path(item) for item in value]
    parts = [part.strip() for item in value for part in str(item).split(",")]
    if "" in parts:
        raise QuestionError(
            f"{_flag(name)} {','.join(map(str, value))!r}: expected values joined by commas, none empty"
        )
    return parts


def _discount(text: str) -> dict[str, Any]:
    """Read "aws=20" or "20": percent off one provider's list prices, or off all."""
    provider, equals, percent = text.rpartition("=")
    try:
        value = float(percent.rstrip("%"))
    except ValueError:
        raise QuestionError(f"--discount {text!r}: expected PROVIDER=PERCENT, as in aws=20") from None
    if equals and not provider:
        raise QuestionError(f"--discount {text!r}: expected PROVIDER=PERCENT, as in aws=20; the provider is missing")
    return {"provider": provider or None, "percent": value}
