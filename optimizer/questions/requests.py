"""What can be asked: one model a kind of question. Fields that are not known are refused, as in a scenario file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from catalogs.model_records import WeightFormat
from optimizer.export.targets import TargetName
from optimizer.fields import (
    Count,
    Dollars,
    EngineName,
    Name,
    ParallelSize,
    Part,
    PositiveShare,
    Share,
    Tokens,
    as_list,
    number,
    whole,
)
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.questions.asked import SCENARIO_KINDS, AskedQuestion, AskedScenario, Configs, ModelName

LLAMA = "meta-llama/Llama-3.1-70B-Instruct"
CHAT: dict[str, Any] = {
    "model": LLAMA,
    "workload": {"input_tokens": 2000, "output_tokens": 300, "request_rate": 4},
    "targets": {"ttft_ms": 2000, "tpot_ms": 50},
    "limits": {"gpus": ["H100-SXM-80GB", "H200-SXM-141GB"], "weights": ["fp8"]},
}
REPLICA: dict[str, Any] = {"model": LLAMA, "gpu": "H200-SXM-141GB", "tp": 2, "weights": "fp8"}
MOST_PARTS = 20
MOST_SWEPT = 200

TimeLimit = Annotated[float, number("seconds from 0.1 to 600", lambda x: 0.1 <= x <= 600)]
Pattern = Annotated[str, Field(min_length=1, max_length=200)]
Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(as_list), Field(max_length=MOST_PARTS)]
Kinds = Mapping[str, Mapping[str, type[BaseModel]]]
KvDtype = Literal["bf16", "fp16", "fp8"]


def _kind_of_plan(value: Any) -> str:
    if isinstance(value, FleetPlan):
        return "fleet"
    return "fleet" if isinstance(value, Mapping) and "pools" in value else "layout"


def _finite(value: Any) -> Any:
    """Refuse NaN and infinities, which JSON has no words for, though parsers take them."""
    if isinstance(value, Mapping):
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise ValueError("holds a number that is not finite") from None
        except TypeError:
            pass  # said where it is validated
    return value


AnyPlan = Annotated[
    Annotated[Plan, Tag("layout")] | Annotated[FleetPlan, Tag("fleet")],
    Discriminator(_kind_of_plan),
    BeforeValidator(_finite),
]


def _as_lines(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _shown(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Question(Part):
    """Anything that can be asked.

    Attributes:
        kinds_of: fields that take several kinds of thing, with what pydantic calls those in the places of errors.
    """

    model_config = ConfigDict(defer_build=False)

    kinds_of: ClassVar[Kinds] = {}


class OfModels(Question):
    """A question about models, of which some may come with it."""

    models: Configs = Field(default_factory=dict)


class SolveQuestion(OfModels):
    """The cheapest layout, or the cheapest fleet, that keeps every rule; or why there is none.

    A scenario with `workload` asks for one layout; one with `classes`, `histogram` or several `models` for a fleet.
    """

    model_config = _shown({"scenario": CHAT})
    kinds_of: ClassVar[Kinds] = {"scenario": SCENARIO_KINDS}

    scenario: AskedQuestion
    time_limit_s: TimeLimit = Field(
        default=20.0, description="Most seconds for the solver; after it the best so far is the answer, with its bound."
    )
    reasons: bool = Field(
        default=True,
        description="Also work out what a person reads beside the answer: alternatives, savings, nearest misses.",
    )


class ReplicaQuestion(OfModels):
    """One replica: a model, a GPU type, and how it is split. Precisions not named are the checkpoint's own."""

    model: ModelName
    gpu: Name
    tp: ParallelSize = 1
    pp: ParallelSize = 1
    ep: ParallelSize = 1
    attention_dp: ParallelSize = 1
    weights: WeightFormat | None = None
    kv_cache: KvDtype | None = None


class FitQuestion(ReplicaQuestion):
    """Does one replica fit in memory, and how much more would it hold?"""

    model_config = _shown({**REPLICA, "context": 8192, "concurrency": 32})

    context: Tokens = Field(default=8192, description="Tokens kept for each request.")
    concurrency: Count = Field(default=1, description="Requests at once on the whole replica.")
    memory_policy: Literal["framework", "engine"] = "framework"
    headroom: Share = 0.20
    overhead: Share = 0.15
    gpu_memory_utilization: PositiveShare = 0.90
    engine: EngineName = "vllm"


class PredictQuestion(ReplicaQuestion):
    """Latency and throughput of one replica with so many requests always in flight."""

    model_config = _shown({**REPLICA, "concurrency": 32, "input_tokens": 2000, "output_tokens": 300})

    concurrency: Annotated[int, whole(1, 4096)]
    input_tokens: Tokens
    output_tokens: Tokens
    performance: Literal["roofline", "aiconfigurator", "auto"] = "roofline"


class ExplainQuestion(OfModels):
    """What binds in a plan and where its money goes, or why it is not another layout.

    A plan, or a question, may be of a fleet; `why_not` then names nothing.
    """

    model_config = _shown({"scenario": CHAT, "why_not": "4x A100-SXM-80GB tp=4"})
    kinds_of: ClassVar[Kinds] = {"scenario": SCENARIO_KINDS, "plan": {"layout": Plan, "fleet": FleetPlan}}

    scenario: AskedQuestion | None = Field(default=None, description="A question, which is solved first.")
    plan: AnyPlan | None = Field(default=None, description="Instead: a plan, as `solve` answered it.")
    why_not: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None,
        description='A layout in words that the plan is not, as in "4x A100-SXM-80GB tp=4".',
        examples=["4x A100-SXM-80GB tp=4"],
    )
    time_limit_s: TimeLimit = Field(default=20.0, description="Of a fleet: most seconds for solving it again.")

    @model_validator(mode="after")
    def _one_of_both(self) -> ExplainQuestion:
        if (self.scenario is None) == (self.plan is None):
            raise ValueError("give either a scenario or a plan")
        return self


class ParetoQuestion(OfModels):
    """Every layout that no other one beats in cost and latency: the whole front, exact."""

    model_config = _shown({"scenario": CHAT})

    scenario: AskedScenario
    objectives: Annotated[
        tuple[Literal["cost", "tpot", "ttft", "e2e", "throughput"], ...], BeforeValidator(as_list)
    ] = Field(default=(), description="What layouts are compared by, two at least; cost, TPOT and TTFT when empty.")
    up_to_usd_per_hour: Dollars | None = Field(
        default=None, description="The front ends at this cost; the scenario's budget, or ten times the least cost."
    )

    @model_validator(mode="after")
    def _two_objectives(self) -> ParetoQuestion:
        if len(set(self.objectives)) == 1:
            raise ValueError(f"objectives: {self.objectives[0]} alone is no front; name another one, or none")
        return self


class BudgetQuestion(OfModels):
    """What each budget buys at most: traffic, context, latency, precision; of a fleet, traffic alone."""

    model_config = _shown({"scenario": CHAT, "usd_per_hour": [10, 20], "maximize": ["traffic"]})
    kinds_of: ClassVar[Kinds] = {"scenario": SCENARIO_KINDS}

    scenario: AskedQuestion
    usd_per_hour: Annotated[tuple[Dollars, ...], BeforeValidator(as_list), Field(min_length=1, max_length=20)]
    maximize: Annotated[tuple[Literal["traffic", "context", "latency", "precision"], ...], BeforeValidator(as_list)] = (
        Field(default=(), description="What of; all of them when empty.")
    )


class ShockQuestion(OfModels):
    """Prices change, offers go: keep the layout, or the fleet, or move?

    Patterns name a GPU type (`H100*`), a term (`spot`), a provider, or `PROVIDER/INSTANCE_TYPE/REGION/TERM`.
    """

    model_config = _shown({"scenario": CHAT, "price": ["H200*=+40%"]})
    kinds_of: ClassVar[Kinds] = {"scenario": SCENARIO_KINDS}

    scenario: AskedQuestion
    price: Patterns = Field(default=(), description="Changes such as `spot=+40%`, `H100*=-20%`, `aws=x1.5`.")
    remove_provider: Patterns = Field(default=(), description="Nothing of these is to be had.")
    remove_gpu: Patterns = Field(default=(), description="None of these GPU types is to be had.")
    remove_offer: Patterns = Field(default=(), description="None of the offers that these patterns name.")
    time_limit_s: TimeLimit = Field(
        default=20.0,
        description="Of a fleet: most seconds for each solve; after them the best so far counts, with its bound.",
    )


class BreakEvenQuestion(OfModels):
    """At which price an offer, and each GPU type, starts or stops being the answer: exactly, by re-solves."""

    model_config = _shown({"scenario": CHAT, "offer": "H100-SXM-80GB"})

    scenario: AskedScenario
    offer: Pattern | None = Field(default=None, description="A pattern of offers; only the table of GPU types without.")


class ApiQuestion(OfModels):
    """Self-hosting against a managed API, and the traffic from which it pays."""

    model_config = _shown({"scenario": CHAT, "against": "openai/gpt-4o-mini", "duty_cycle": 0.5})

    scenario: AskedScenario
    against: Annotated[str, Field(min_length=3, max_length=200)] = Field(
        description="PROVIDER/MODEL as genai-prices calls them."
    )
    cached_share: Annotated[float, number("a share from 0 to 1 (30% is 0.3)", lambda x: 0 <= x <= 1)] = 0.0
    duty_cycle: PositiveShare | None = None
    hours_per_day: Annotated[float, number("hours above 0 and at most 24", lambda x: 0 < x <= 24)] | None = None
    profile: Annotated[
        tuple[Annotated[float, number("traffic from 0 to 1,000,000,000", lambda x: 0 <= x <= 1e9)], ...],
        BeforeValidator(as_list),
        Field(max_length=168),
    ] = Field(default=(), description="Traffic by hour, 24 or 168 values; the largest is the scenario's.")


class SweepQuestion(OfModels):
    """One question over a small grid of values."""

    model_config = _shown({"scenario": CHAT, "vary": ["workload.request_rate=1:16:x2"]})

    scenario: AskedScenario
    vary: Annotated[tuple[Annotated[str, Field(min_length=3, max_length=2000)], ...], BeforeValidator(_as_lines)] = (
        Field(
            min_length=1,
            max_length=6,
            description="FIELD=VALUES each: `a,b,c`, START:STOP:STEP, START:STOP:xFACTOR, START:STOP:nCOUNT; "
            f"`price:H100*=0.8:1.2:n5` are factors on list prices. At most {MOST_SWEPT} points in all.",
        )
    )


class ExportQuestion(OfModels):
    """The commands or manifests that start exactly the layout, or the fleet, of a plan."""

    model_config = _shown({"scenario": CHAT, "to": "kubernetes"})
    kinds_of: ClassVar[Kinds] = {"scenario": SCENARIO_KINDS, "plan": {"layout": Plan, "fleet": FleetPlan}}

    scenario: AskedQuestion | None = Field(default=None, description="A question, which is solved first.")
    plan: AnyPlan | None = Field(default=None, description="Instead: a plan, as `solve` answered it.")
    to: TargetName = Field(description="What to write.")
    engine: Literal["vllm", "sglang", "trtllm"] | None = Field(default=None, description="The plan's when not given.")
    engine_version: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="Its release; the plan's, or the newest known, when not given."
    )
    image: Annotated[str, Field(max_length=500)] | None = Field(default=None, description="A container image.")
    model: ModelName | None = Field(default=None, description="Hub name of the checkpoint to load, if not the plan's.")
    trust_remote_code: bool = Field(default=False, description="Let the engine run code of the checkpoint's.")
    port: Annotated[int, whole(1, 65_000)] = 8000
    name: Annotated[str, Field(max_length=40)] | None = Field(
        default=None, description="What the deployment is called; from the model when not given."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> ExportQuestion:
        if (self.scenario is None) == (self.plan is None):
            raise ValueError("give either a scenario or a plan")
        return self
