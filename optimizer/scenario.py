"""Scenario: the question. A model, its traffic, its targets, and what the user allows.

Read from YAML or built from flags; every field is checked on entry, so that the rest of the house never meets a bad
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from catalogs.errors import UnknownNameError, near_matches
from catalogs.gpus import get_gpu
from optimizer.errors import ScenarioError
from optimizer.fields import (
    LISTED,
    ONE_OR_MORE,
    Cap,
    Confidence,
    Count,
    Day,
    Days,
    Dispersion,
    Dollars,
    EngineName,
    Milliseconds,
    Name,
    Names,
    Part,
    Percent,
    PositiveRate,
    PositiveShare,
    ReplicaCounts,
    Share,
    Sizes,
    Tokens,
    Variation,
    as_list,
    problem,
    whole,
)
from optimizer.owned import OwnedHardware

FLEET_FIELDS = ("models", "classes", "histogram", "log", "profile", "fleet", "commitments")
WEIGHT_FORMATS = ("fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4")
KV_DTYPES = ("bf16", "fp16", "fp8")
TERMS = ("on-demand", "spot", "reserved-1y", "reserved-3y")
PROVIDER_KINDS = ("hyperscaler", "gpu-cloud", "marketplace", "own")


class Workload(Part):
    """The traffic: request lengths, and how much of it there is, said in exactly one way.

    Attributes:
        input_tokens, output_tokens: mean lengths of one request.
        request_rate: requests per second that arrive at random (an interactive service).
        concurrency: requests that are always in flight (a fixed number of busy users).
        output_tokens_per_second: output tokens per second to be produced with no one waiting (offline work).
        context_tokens: the longest context a request may hold; input + output when not given. Memory is kept for it.
        burstiness: squared coefficient of variation of the times between arrivals at a replica: 1 for Poisson, 0 for a
            clock, above 1 for bursts (the inverse of what vLLM's benchmark calls so). Counts for a request rate.
        input_cv, output_cv: standard deviation over mean of the lengths; 0 when all requests are alike, which is what
            a scenario of two means says. Chat is near 1.
        in_flight_tokens: mean context of a request in flight, where long prompts come with long answers; from the
            lengths when not given, as if they did not depend on each other. Counts for a request rate.
    """

    input_tokens: Tokens
    output_tokens: Tokens
    request_rate: PositiveRate | None = None
    concurrency: Count | None = None
    output_tokens_per_second: PositiveRate | None = None
    context_tokens: Tokens | None = None
    burstiness: Dispersion = 1.0
    input_cv: Variation = 0.0
    output_cv: Variation = 0.0
    in_flight_tokens: Tokens | None = None

    @model_validator(mode="after")
    def _one_kind_of_traffic(self) -> Workload:
        kinds = ("request_rate", "concurrency", "output_tokens_per_second")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            said = " and ".join(given) if given else "none of them"
            raise ValueError(f"give exactly one of {', '.join(kinds)}; got {said}")
        if self.context_tokens is not None and self.context_tokens < self.input_tokens + self.output_tokens:
            raise ValueError(
                f"context_tokens {self.context_tokens} is shorter than input_tokens + output_tokens "
                f"= {self.input_tokens + self.output_tokens}; give at least that, or leave it out"
            )
        return self

    @property
    def kind(self) -> Literal["request_rate", "concurrency", "output_tokens_per_second"]:
        """Which of the three ways the traffic is said in."""
        if self.request_rate is not None:
            return "request_rate"
        return "concurrency" if self.concurrency is not None else "output_tokens_per_second"

    @property
    def demand(self) -> float:
        """The amount of traffic in the unit of its kind: requests/s, requests in flight, or output tokens/s."""
        return float(getattr(self, self.kind))

    @property
    def context_in_flight(self) -> float:
        """Tokens that a request in flight attends to, on average, where all are of one length."""
        return float(self.said_in_flight_tokens or self.input_tokens + self.output_tokens / 2)

    @property
    def said_in_flight_tokens(self) -> int | None:
        """The mean context that the question says, where it counts."""
        return self.in_flight_tokens if self.kind == "request_rate" else None

    @property
    def held_tokens(self) -> int:
        """Tokens of context that memory is kept for, per request in flight."""
        return self.context_tokens or self.input_tokens + self.output_tokens


class Targets(Part):
    """Latency targets in milliseconds; a target that is not given is not asked for.

    Attributes:
        at: what they are on: the mean, or a percentile of requests.
        ttft_ms: time to first token, waiting included.
        tpot_ms: time per output token after the first.
        e2e_ms: from arrival to the last token.
        confidence: the probability with which each target has to hold, given how far off predictions are; the
            prediction itself has to meet the target when not given.
    """

    at: Literal["mean", "p50", "p90", "p95", "p99"] = "mean"
    ttft_ms: Milliseconds | None = None
    tpot_ms: Milliseconds | None = None
    e2e_ms: Milliseconds | None = None
    confidence: Confidence | None = None


class Quota(Part):
    """The most GPUs or nodes to be had of what it names; a part that is not named matches everything.

    Attributes:
        max_gpus: the most GPUs of it.
    """

    gpu: Name | None = None
    provider: Name | None = None
    region: Name | None = None
    max_gpus: Cap | None = None
    max_nodes: Cap | None = None

    @model_validator(mode="after")
    def _has_a_limit(self) -> Quota:
        if self.max_gpus is None and self.max_nodes is None:
            raise ValueError("a quota needs max_gpus or max_nodes")
        return self

    @field_validator("gpu")
    @classmethod
    def _known_gpu(cls, name: str | None) -> str | None:
        return None if name is None else _gpu_name(name)


def _gpu_name(name: str) -> str:
    try:
        return get_gpu(name).name
    except UnknownNameError as error:
        raise ValueError(str(error)) from error


def _choices(values: tuple[str, ...], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    for value in values:
        if value not in known:
            near = near_matches(value, known, limit=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"unknown {what} {value!r}{hint} (accepted: {', '.join(known)})")
    return tuple(dict.fromkeys(values))


class Limits(Part):
    """What the user allows. An empty list allows everything, save where a default says otherwise.

    Attributes:
        gpus, providers, regions, instance_types: allow only these.
        exclude_gpus, exclude_providers: never these.
        provider_kinds: kinds of provider to rent from, or "any"; by default no marketplace hosts.
        terms: how to rent, or "any"; by default on-demand only. Hardware of one's own needs no permission.
        weights: weight formats; "checkpoint" is the checkpoint's own, "any" is every format.
        kv_cache: KV cache dtypes; "auto" is the checkpoint's own (its 16-bit dtype, unless it asks for FP8).
        tp, pp, ep, attention_dp, replicas: allow only these sizes.
        max_gpus, max_nodes: the most GPUs and nodes rented in all.
        quotas: the most to be had of a GPU type, provider or region.
        budget_usd_per_hour: the most the layout may cost.
        tp_across_nodes: allow a tensor parallel group to cross nodes (its cost over the network is then charged).
        max_nodes_per_replica: the most nodes one replica may span.
        max_concurrency_per_replica: the most requests one replica runs at once (an engine's --max-num-seqs).
        max_utilization: share of a replica's capacity that the traffic may use; by default 0.85 when requests arrive at
            random, and 1 otherwise.
    """

    gpus: Names = ()
    exclude_gpus: Names = ()
    providers: Names = ()
    exclude_providers: Names = ()
    provider_kinds: Names = ("hyperscaler", "gpu-cloud", "own")
    regions: Names = ()
    instance_types: Names = ()
    terms: Names = ("on-demand",)
    weights: Names = ("checkpoint",)
    kv_cache: Names = ("auto",)
    tp: Sizes = ()
    pp: Sizes = ()
    ep: Sizes = ()
    attention_dp: Sizes = ()
    replicas: ReplicaCounts = ()
    max_gpus: Cap | None = None
    max_nodes: Cap | None = None
    quotas: tuple[Quota, ...] = ()
    budget_usd_per_hour: Dollars | None = None
    tp_across_nodes: bool = False
    max_nodes_per_replica: Annotated[int, whole(1, 64)] = 4
    max_concurrency_per_replica: Annotated[int, whole(1, 4096)] = 512
    max_utilization: PositiveShare | None = None

    @field_validator("gpus", "exclude_gpus")
    @classmethod
    def _known_gpus(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_gpu_name(name) for name in names))

    @model_validator(mode="after")
    def _something_is_left(self) -> Limits:
        for what in ("gpus", "providers"):
            allowed, excluded = set(getattr(self, what)), set(getattr(self, f"exclude_{what}"))
            if allowed and allowed <= excluded:
                raise ValueError(
                    f"exclude_{what} rules out all that {what} allows ({', '.join(sorted(allowed))}); "
                    f"leave at least one, or leave exclude_{what} out"
                )
        return self

    @field_validator("terms")
    @classmethod
    def _known_terms(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _choices_or_any(names, "terms", TERMS, "term")

    @field_validator("provider_kinds")
    @classmethod
    def _known_kinds(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _choices_or_any(names, "provider_kinds", PROVIDER_KINDS, "provider kind")

    @field_validator("weights")
    @classmethod
    def _known_weights(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = ("checkpoint", "any", *WEIGHT_FORMATS)
        return _choices(_not_empty(names, "weights", known), known, "weight format")

    @field_validator("kv_cache")
    @classmethod
    def _known_kv(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = ("auto", "any", *KV_DTYPES)
        return _choices(_not_empty(names, "kv_cache", known), known, "KV cache dtype")


def _choices_or_any(names: tuple[str, ...], field: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    accepted = (*known, "any")
    chosen = _choices(_not_empty(names, field, accepted), accepted, what)
    return known if "any" in chosen else chosen


def _not_empty(names: tuple[str, ...], field: str, known: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError(f"{field} is empty, so nothing would be allowed; accepted: {', '.join(known)}")
    return names


class Memory(Part):
    """How memory is counted (see optimizer.memory).

    Attributes:
        policy: "framework" is the planner's rule (weights + KV) x (1 + overhead) <= VRAM x (1 - headroom);
            "engine" is what a serving engine would do with `gpu_memory_utilization`.
        overhead, headroom: shares used by the framework policy.
        gpu_memory_utilization: the engine's memory fraction, used by the engine policy.
        engine: the engine of the engine policy, with or without its version: "vllm", "vllm@0.19", "sglang", "trtllm".
        max_batched_tokens: tokens one engine step may process; sizes the activations.
    """

    policy: Literal["framework", "engine"] = "framework"
    overhead: Share = 0.15
    headroom: Share = 0.20
    gpu_memory_utilization: PositiveShare = 0.90
    engine: EngineName = "vllm"
    max_batched_tokens: Annotated[int, whole(1, 1_048_576)] = 8192


class DiscountTerms(Part):
    """A discount of the user's own on list prices; a part that is not named matches everything.

    Attributes:
        percent: taken off list prices.
    """

    percent: Percent
    provider: Name | None = None
    gpu: Name | None = None
    instance_type: Name | None = None
    term: Literal["on-demand", "spot", "reserved-1y", "reserved-3y", "owned"] | None = None

    @field_validator("gpu")
    @classmethod
    def _known_gpu(cls, name: str | None) -> str | None:
        return None if name is None else _gpu_name(name)


class Prices(Part):
    """Which prices to use.

    Attributes:
        as_of: the day whose prices count; the newest known when not given.
        stale_after_days: warn when a price used is older than this.
        max_age_days: refuse to answer from prices older than this.
        discounts: the user's own discounts on list prices.
        offers_files: CSV files of the user's own offers, relative to the scenario file.
        owned: hardware that is bought or stands there already, as offers by what it costs (term "owned").
    """

    as_of: Day | None = None
    stale_after_days: Days = 7
    max_age_days: Days | None = None
    discounts: tuple[DiscountTerms, ...] = ()
    offers_files: Annotated[tuple[Path, ...], LISTED, ONE_OR_MORE] = ()
    owned: tuple[OwnedHardware, ...] = ()


class SpeedSource(Part):
    """Where speed figures come from (see optimizer.performance.backends).

    Attributes:
        backend: "roofline" is our own fitted model; "aiconfigurator" is NVIDIA's operator timings wherever they cover;
            "auto" is those only where our calibration had no run on the GPU, engine or model.
        table: a CSV file of steps and prefills that the user measured, relative to the scenario file; it comes first
            for the replicas that it names.
    """

    backend: Literal["roofline", "aiconfigurator", "auto"] = "roofline"
    table: Path | None = None


class Scenario(Part):
    """The whole question.

    Attributes:
        model: a bundled model's Hub name, or the path of a config.json or of a folder that holds one.
        description: a line for people.
        workload: the traffic.
    """

    model: Annotated[str, Field(min_length=1, max_length=4096)]
    description: str = ""
    workload: Workload
    targets: Targets = Targets()
    limits: Limits = Limits()
    memory: Memory = Memory()
    prices: Prices = Prices()
    performance: SpeedSource = SpeedSource()

    @classmethod
    def from_yaml(cls, path: Path | str) -> Scenario:
        """Read a scenario file; paths inside it are relative to it.

        Raises:
            ScenarioError: the file cannot be read, or has bad fields.
        """
        return load_scenario(Path(path))

    def to_yaml(self) -> str:
        """Return the question as a scenario file, without what is as it is by default."""
        from optimizer.yaml_text import without_defaults, yaml_of  # noqa: PLC0415  only a file needs YAML

        return yaml_of(without_defaults(Scenario, self.model_dump(mode="json")))

    @property
    def max_utilization(self) -> float:
        """Share of a replica's capacity that the traffic may use."""
        if self.limits.max_utilization is not None:
            return self.limits.max_utilization
        return 0.85 if self.workload.kind == "request_rate" else 1.0

    def changed(self, section: str, **fields: Any) -> Scenario:
        """Return a copy with fields of one section replaced, checked again."""
        fields_of = self.model_dump()
        return build_scenario(fields_of | {section: fields_of[section] | fields})


def build_scenario(fields: Mapping[str, Any], where: str = "scenario") -> Scenario:
    """Check fields and return the Scenario.

    Raises:
        ScenarioError: naming `where`, and each field with its value and what would be accepted.
    """
    try:
        return Scenario.model_validate(fields)
    except ValidationError as error:
        raise ScenarioError(where, [problem(item, Scenario) for item in error.errors(include_url=False)]) from None


def is_fleet(fields: Mapping[Any, Any]) -> bool:
    """Say whether the fields of a scenario file ask for a fleet (see optimizer.fleet.question)."""
    return any(name in fields for name in FLEET_FIELDS)


def load_scenario(path: Path) -> Scenario:
    """Read a scenario from a YAML file; paths inside it are relative to the file.

    Raises:
        ScenarioError: the file cannot be read, is not YAML, is not a mapping, or has bad fields.
    """
    from optimizer.yaml_file import read_mapping  # noqa: PLC0415  only a file needs YAML

    content = read_mapping(path)
    if is_fleet(content):
        given = ", ".join(name for name in FLEET_FIELDS if name in content)
        raise ScenarioError(
            str(path), [f"{given}: this asks for a fleet; what is asked here takes one layout, with a workload"]
        )
    return build_scenario(absolute_paths(content, path.parent), where=str(path))


def absolute_paths(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of a file with the paths in them taken from the file's folder."""
    fields = dict(content)
    log = fields.get("log")
    if isinstance(log, Mapping) and isinstance(log.get("file"), str):
        fields["log"] = {**log, "file": folder / log["file"]}
    prices = fields.get("prices")
    if isinstance(prices, Mapping) and prices.get("offers_files"):
        files = as_list(prices["offers_files"])
        absolute = [folder / name if isinstance(name, str) else name for name in files]
        fields["prices"] = {**prices, "offers_files": absolute}
    performance = fields.get("performance")
    if isinstance(performance, Mapping) and isinstance(performance.get("table"), str):
        fields["performance"] = {**performance, "table": folder / performance["table"]}
    model = fields.get("model")
    if isinstance(model, str) and model.startswith("."):
        fields["model"] = str(folder / model)
    return fields
