"""Plan: the answer. What `--json` prints, with a schema version; every field is documented here.

GiB fields are 2^30 bytes, `_ms` fields are milliseconds, money is USD. A value that is not known is null, never zero.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from optimizer.described import Described
from optimizer.display import Shown, flat

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION: Literal["1"] = "1"
HOURS_PER_MONTH = 730  # 365 x 24 / 12, the month that cloud price lists use


class AnswerPart(Described, Shown, BaseModel):
    """Whatever an answer is made of: never changed once it is there."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Layout(AnswerPart):
    """What to rent and how to run the model on it.

    Attributes:
        gpus_per_node, nodes: what is rented: whole nodes.
        gpus_used: GPUs that hold a replica; the rest of gpus_per_node x nodes are paid for and idle.
        price_usd_per_node_hour: after the user's own discounts.
        scale_up_gpus: GPUs per scale-up domain (NVLink, Infinity Fabric) inside a node; 1 where GPUs talk over PCIe.
        tp, pp, ep, attention_dp: the split of one replica (see optimizer.split.Split).
        replicas: copies of the model (data parallel size).
        nodes_per_replica: nodes that one replica spans; 1 when a node holds one or more.
        concurrency_per_replica: the most requests a replica runs at once (an engine's --max-num-seqs).
    """

    provider: str
    provider_kind: str
    region: str
    instance_type: str
    gpu: str
    gpus_per_node: int
    nodes: int
    term: str
    price_usd_per_node_hour: float
    fabric: str
    scale_up_gpus: int
    network: str
    network_gbit_per_s: float | None
    max_nodes: int | None
    weights: str
    kv_cache: str
    tp: int
    pp: int
    ep: int
    attention_dp: int
    replicas: int
    nodes_per_replica: int
    gpus_used: int
    concurrency_per_replica: int
    price_seen_on: date
    price_source: str


class Cost(AnswerPart):
    """What the layout costs.

    Attributes:
        usd_per_million_output_tokens: at this traffic.
        usd_per_million_output_tokens_at_saturation: with every replica at its concurrency limit.
        bound_usd_per_hour: no layout in the catalog that keeps every rule costs less than this.
        gap: (usd_per_hour - bound) / usd_per_hour; 0 when proved optimal.
    """

    usd_per_hour: float
    usd_per_month: float
    usd_per_million_output_tokens: float
    usd_per_million_output_tokens_at_saturation: float
    bound_usd_per_hour: float
    gap: float


class MemoryUse(AnswerPart):
    """Memory per GPU by cause; of a plan, of the fullest pipeline stage at the concurrency limit with full contexts.

    Attributes:
        activations_gib: framework: the estimate, as far as the overhead share covers it. SGLang: only what does not fit
            beside its pool.
        overhead_gib: the rest of the overhead share (framework), or context, collectives' buffers and graphs (engine).
        need_gib: weights + KV cache + activations + overhead.
        available_gib: what the policy lets the engine use.
        headroom_left_gib: available - need; negative where it does not fit.
        gpu_memory_gib: what the driver reports.
        kv_tokens: tokens that a replica's KV cache can hold in all. engine: as vLLM's log counts them. framework: in
            requests of `context_tokens` each.
        context_tokens: tokens kept for each request.
        weights_gib: the model's weights on this GPU.
        kv_cache_gib: the cache of all requests at the concurrency limit, on this GPU.
    """

    policy: str
    weights_gib: float
    kv_cache_gib: float
    activations_gib: float
    overhead_gib: float
    need_gib: float
    available_gib: float
    headroom_left_gib: float
    gpu_memory_gib: float
    kv_tokens: int
    context_tokens: int

    @property
    def fits(self) -> bool:
        """Whether need is within what is available."""
        return self.need_gib <= self.available_gib


class Saturation(AnswerPart):
    """What one replica does at its concurrency limit."""

    concurrency: int
    tpot_ms: float
    output_tokens_per_second: float
    requests_per_second: float


class Calibration(AnswerPart):
    """The user's own calibration, where speeds rest on one.

    Attributes:
        date: when it was fitted.
        runs: how many of the user's runs it rests on.
        gpus: GPU types of those runs.
    """

    date: date
    runs: int
    gpus: tuple[str, ...]


class Prediction(AnswerPart):
    """Predicted speed; means unless said otherwise.

    Attributes:
        ttft_ms: arrival to first token, waiting included.
        tpot_ms: time per output token after the first.
        e2e_ms: arrival to last token.
        ttft_ms_low, ttft_ms_high: 80% of measured runs lie between these; likewise for the others. Wider for hardware,
            models and engines that were never measured.
        step_ms: one decode step by cause (weights, kv_cache, all_reduce, ...), at the requests in flight or one.
        basis: "fitted" when the GPU's family was calibrated on measured runs, "borrowed" when it was not; else the
            backend that the decode step comes from: "aiconfigurator", or "table" where the user measured it.
        error_band: share by which TPOT is off on average, from held-out runs; null where that is not known.
        decode_from, prefill_from: the backends that decode steps and prefills at this traffic come from.
    """

    ttft_ms: float
    ttft_ms_low: float
    ttft_ms_high: float
    tpot_ms: float
    tpot_ms_low: float
    tpot_ms_high: float
    e2e_ms: float
    e2e_ms_low: float
    e2e_ms_high: float
    output_tokens_per_second: float
    requests_per_second: float
    step_ms: dict[str, float]
    basis: str
    error_band: float | None
    decode_from: str = "roofline"
    prefill_from: str = "roofline"


class Performance(Prediction):
    """Predicted speed of the whole deployment at this traffic.

    Attributes:
        percentiles: "ttft", "tpot" and "e2e", each by "p50", "p90", "p95" and "p99", in milliseconds.
        requests_in_flight: per replica.
        utilization: traffic over capacity at the concurrency limit.
        saturation: what one replica does when it is full.
    """

    percentiles: dict[str, dict[str, float]] = {}
    requests_in_flight: float
    utilization: float
    saturation: Saturation

    def latency_ms(self, name: str, at: str) -> float:
        """Return the "ttft", "tpot" or "e2e" in milliseconds, at the mean or at a percentile."""
        return float(getattr(self, f"{name}_ms")) if at == "mean" else self.percentiles[name][at]


class TargetCheck(AnswerPart):
    """One target against its prediction.

    Attributes:
        at: whether target and prediction are means or a percentile of requests.
        at_confidence: what the latency stays below with the probability asked for; the prediction where none is asked.
        holds: whether `at_confidence` meets the target.
        probability: that the target holds, given how far off such predictions are.
        close_call: the target lies inside the prediction's 80% interval, or short of it.
        target: what is asked for.
        predicted: what is predicted, at the level of the target.
    """

    name: str
    unit: str
    at: str = "mean"
    target: float
    predicted: float
    at_confidence: float
    holds: bool
    probability: float
    close_call: bool


class PriceBasis(AnswerPart):
    """Which prices the answer stands on.

    Attributes:
        as_of: the day asked for, or today.
        seen_on: the day the chosen price was seen (null when infeasible).
        age_days: from seen_on (or, when infeasible, from the newest price) to today.
        sources: short source name -> citation, of every source in the catalog that day.
        stale: age_days is over the scenario's stale_after_days.
        offers_considered, offers_set_aside: counts.
    """

    as_of: date
    seen_on: date | None
    age_days: int
    stale: bool
    sources: dict[str, str]
    offers_considered: int
    offers_set_aside: dict[str, int]


class Alternative(AnswerPart):
    """The cheapest layout on another GPU type, or why there is none.

    Attributes:
        extra_usd_per_hour: what it costs more than the answer.
        why: why it lost, or which rule left nothing on this GPU.
    """

    gpu: str
    summary: str
    usd_per_hour: float | None
    extra_usd_per_hour: float | None
    usd_per_million_output_tokens: float | None
    usd_per_million_output_tokens_at_saturation: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    utilization: float | None
    why: str
    layout: Layout | None


class CheaperIf(AnswerPart):
    """A cheaper answer that one of the user's (or the defaults') limits rules out.

    Attributes:
        saving_usd_per_hour: how much less it costs than the answer.
    """

    change: str
    summary: str
    usd_per_hour: float
    saving_usd_per_hour: float
    flag: str


class Conflict(AnswerPart):
    """One rule of a smallest set of rules that cannot hold together.

    Attributes:
        meaning: what the rule demands.
        needs: what it comes to here: asked, and at best to be had.
    """

    rule: str
    meaning: str
    needs: str


class Miss(AnswerPart):
    """A layout that breaks few rules by little, with the numbers of what it breaks.

    Attributes:
        usd_per_hour: what the traffic takes at the least, once the rules that it breaks are given up; null where it
            does not fit in memory, or carries the traffic in no number.
        breaks: rule -> by how much.
    """

    summary: str
    usd_per_hour: float | None
    breaks: dict[str, str]


class LeastChange(AnswerPart):
    """The least change to one target or limit, or to a set of them, that makes it feasible, and the cost then.

    Attributes:
        rules: what is changed, by name.
    """

    rules: tuple[str, ...]
    change: str
    flag: str
    summary: str
    usd_per_hour: float


class LadderStep(AnswerPart):
    """One step of the four-step ladder that explains an answer.

    Attributes:
        title: the step.
        lines: what it comes to here, a sentence each.
    """

    title: str
    lines: tuple[str, ...]


class SolverRun(AnswerPart):
    """What the constraint program did.

    Attributes:
        candidates: layouts (replica shapes on node shapes) looked at; choices: rows that entered the program.
    """

    name: str
    status: str
    seconds: float
    candidates: int
    choices: int


class SpeedCoverage(AnswerPart):
    """Where speed figures come from.

    Attributes:
        backend: the one asked for: "roofline", "aiconfigurator" or "auto".
        table: the user's measured table, if any.
        candidates: layouts by the backend that has figures of their replica; outside what those cover the roofline
            answers.
        not_covered: {why aiconfigurator has no figures of a layout: layouts}.
    """

    backend: str = "roofline"
    table: str | None = None
    candidates: dict[str, int] = {}
    not_covered: dict[str, int] = {}


class Plan(AnswerPart):
    """The answer to a Scenario.

    Attributes:
        calibration: the user's own, where speeds rest on one.
        alternatives: the cheapest layout on each other GPU type, or why there is none.
        cheaper_if: limits that rule out a cheaper answer, each alone.
        ruled_out: rule -> layouts that break it first.
        explanation: the four steps that lead to the answer.
        speed: where speed figures come from.
    """

    schema_version: Literal["1"] = SCHEMA_VERSION
    shardwise_version: str
    status: Literal["optimal", "feasible", "infeasible"]
    summary: str
    scenario: dict[str, Any]
    layout: Layout | None = None
    cost: Cost | None = None
    memory: MemoryUse | None = None
    performance: Performance | None = None
    calibration: Calibration | None = None
    targets: tuple[TargetCheck, ...] = ()
    prices: PriceBasis
    alternatives: tuple[Alternative, ...] = ()
    cheaper_if: tuple[CheaperIf, ...] = ()
    ruled_out: dict[str, int] = {}
    conflict: tuple[Conflict, ...] = ()
    nearest_misses: tuple[Miss, ...] = ()
    least_changes: tuple[LeastChange, ...] = ()
    explanation: tuple[LadderStep, ...] = ()
    warnings: tuple[str, ...] = ()
    speed: SpeedCoverage = SpeedCoverage()
    solver: SolverRun

    def to_frame(self) -> pd.DataFrame:
        """Return the answer and its alternatives as a table, a row each, with the columns of their layouts.

        The answer is the first row, where there is one; alternatives without a layout come last and say why.
        """
        import pandas as pd  # noqa: PLC0415  answers are read without tables

        rows = [flat(one) for one in self.alternatives]
        if self.layout is not None and self.cost is not None and self.performance is not None:
            done = self.performance
            speeds = {"ttft_ms": done.ttft_ms, "tpot_ms": done.tpot_ms, "utilization": done.utilization}
            best = flat(self.cost) | speeds | self.layout.model_dump()
            said = {"summary": self.summary, "extra_usd_per_hour": 0.0, "why": "the answer"}
            rows = [said | best, *rows]
        columns = dict.fromkeys([*Alternative.model_fields, *Layout.model_fields])
        return pd.DataFrame(rows, columns=[name for name in columns if name != "layout"])
