"""A fleet's question: several models, several classes of traffic, a day or a week, and how the purchase has to be safe.

It shares its parts (targets, limits, memory, prices) with the question about one layout (optimizer.scenario).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from optimizer.errors import ScenarioError
from optimizer.fields import (
    LISTED,
    ONE_OR_MORE,
    Dispersion,
    Name,
    Names,
    Part,
    PositiveRate,
    Sizes,
    Tokens,
    Variation,
    number,
    problem,
    whole,
)
from optimizer.scenario import Limits, Memory, Prices, Scenario, SpeedSource, Targets, Workload, absolute_paths
from optimizer.yaml_file import read_mapping

ONE_LAYOUT_LIMITS = ("replicas",)
PROFILES = (24, 168)

Load = Annotated[float, number("a number from 0 to 1,000,000", lambda x: 0 <= x <= 1e6)]
Profile = Annotated[tuple[Load, ...], LISTED, ONE_OR_MORE]
ModelName = Annotated[str, Field(min_length=1, max_length=4096)]


def _checked_profile(values: tuple[float, ...]) -> tuple[float, ...]:
    if values and len(values) not in PROFILES:
        raise ValueError(f"expected 24 values (hours of a day) or 168 (of a week), got {len(values)}")
    if values and not any(values):
        raise ValueError("expected an hour with some traffic, got zeros only")
    return values


class TrafficClass(Part):
    """Requests that are alike.

    Attributes:
        name: how the answer calls them; by number when not given.
        input_tokens, output_tokens: mean lengths of one request.
        request_rate: requests per second; with a profile, that of an hour whose value is 1.
        context_tokens: tokens kept for each request; input + output when not given.
        burstiness, input_cv, output_cv: as of a workload (see optimizer.scenario.Workload).
        targets: their own; those of their model, or of the question, when not given.
        regions: where they may be served, for latency or the law; everywhere when empty.
        profile: their own, instead of the question's.
    """

    name: Name | None = None
    input_tokens: Tokens
    output_tokens: Tokens
    request_rate: PositiveRate
    context_tokens: Tokens | None = None
    burstiness: Dispersion = 1.0
    input_cv: Variation = 0.0
    output_cv: Variation = 0.0
    targets: Targets | None = None
    regions: Names = ()
    profile: Profile = ()

    @field_validator("profile")
    @classmethod
    def _day_or_week(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        return _checked_profile(values)

    @model_validator(mode="after")
    def _holds_a_request(self) -> TrafficClass:
        self.workload  # noqa: B018  raises where the lengths do not fit the context
        return self

    @property
    def workload(self) -> Workload:
        """The class as the workload of one layout."""
        return Workload(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            request_rate=self.request_rate,
            context_tokens=self.context_tokens,
            burstiness=self.burstiness,
            input_cv=self.input_cv,
            output_cv=self.output_cv,
        )


class Histogram(Part):
    """Traffic as counts by length.

    Attributes:
        input_edges, output_edges: upper ends of the bins in tokens, rising; the first bin begins at 1 token.
        shares: a row for each input bin, a column for each output bin: any counts or shares, 0 for none.
        request_rate: requests per second of all bins together.
        lengths: where in its bin a request is taken to be: spread evenly over it, or all at its upper end.
    """

    input_edges: Annotated[tuple[Tokens, ...], LISTED, ONE_OR_MORE]
    output_edges: Annotated[tuple[Tokens, ...], LISTED, ONE_OR_MORE]
    shares: tuple[tuple[Load, ...], ...]
    request_rate: PositiveRate
    lengths: Literal["spread", "upper"] = "spread"

    @model_validator(mode="after")
    def _is_a_table(self) -> Histogram:
        for name in ("input_edges", "output_edges"):
            edges = getattr(self, name)
            if not edges or any(low >= high for low, high in pairwise(edges)):
                raise ValueError(f"{name}: expected rising numbers of tokens, at least one; got {list(edges)}")
        rows, columns = len(self.input_edges), len(self.output_edges)
        if len(self.shares) != rows or any(len(row) != columns for row in self.shares):
            got = f"{len(self.shares)} rows of {sorted({len(row) for row in self.shares})}"
            raise ValueError(f"shares: expected {rows} rows (input bins) of {columns} values (output bins), got {got}")
        if not any(map(any, self.shares)):
            raise ValueError("shares: expected a bin with some traffic, got zeros only")
        return self


class RequestLog(Part):
    """Traffic as a file of requests (see optimizer.trace for its columns); the arrival is optional.

    Attributes:
        file: the CSV file, relative to the scenario file.
        classes: classes to bin it into, at the most.
        request_rate: requests per second, instead of the log's own; needed where the log has no arrivals.
        profile: read the hours of the day (from a day of arrivals on) or of the week (from a week on) off the log.
        burstiness: of arrivals at a replica, as of a workload.
    """

    file: Path
    classes: Annotated[int, whole(1, 64)] = 8
    request_rate: PositiveRate | None = None
    profile: Literal["none", "day", "week"] = "none"
    burstiness: Dispersion = 1.0


class ModelTraffic(Part):
    """One model of several, with its traffic in one of three ways; what it does not say the question says.

    Attributes:
        name: how the answer calls it; the last part of the model's name when not given.
        model: a bundled model's Hub name, or the path of a config.json or of a folder that holds one.
        weights, kv_cache, tp, pp, ep, attention_dp: its own limits, instead of the question's.
        regions: where its requests may be served; everywhere when empty.
        classes: its traffic, by kinds of requests.
        histogram: its traffic as a table of lengths and rates.
        log: its traffic as a file of requests.
        profile: its own hours, instead of the question's.
    """

    name: Name | None = None
    model: ModelName
    classes: tuple[TrafficClass, ...] = ()
    histogram: Histogram | None = None
    log: RequestLog | None = None
    profile: Profile = ()
    targets: Targets | None = None
    regions: Names = ()
    weights: Names | None = None
    kv_cache: Names | None = None
    tp: Sizes | None = None
    pp: Sizes | None = None
    ep: Sizes | None = None
    attention_dp: Sizes | None = None

    @field_validator("profile")
    @classmethod
    def _day_or_week(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        return _checked_profile(values)

    @model_validator(mode="after")
    def _one_kind_of_traffic(self) -> ModelTraffic:
        given = [name for name in ("classes", "histogram", "log") if getattr(self, name)]
        if len(given) != 1:
            said = " and ".join(given) if given else "none of them"
            raise ValueError(f"give the traffic as exactly one of classes, histogram, log; got {said}")
        names = [one.name for one in self.classes if one.name is not None]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"classes: {', '.join(twice)} is the name of two; each needs its own")
        return self

    @property
    def label(self) -> str:
        """How the answer calls it."""
        return self.name or self.model.rstrip("/").split("/")[-1].removesuffix(".json")


class Commitment(Part):
    """A contract that the user could sign: nodes at a discount, paid in every hour of one or three years.

    Attributes:
        years: how long.
        percent_off: what is taken off the on-demand price.
        upfront_share: share of the whole that is due on signing.
        provider, gpu, instance_type: which on-demand offers it holds for; a part that is not named matches everything.
    """

    years: Literal[1, 3]
    percent_off: Annotated[float, number("a percentage from 0 to 99", lambda x: 0 <= x <= 99)]
    upfront_share: Annotated[float, number("a share from 0 to 1 (half is 0.5)", lambda x: 0 <= x <= 1)] = 0.0
    provider: Name | None = None
    gpu: Name | None = None
    instance_type: Name | None = None


class Fleet(Part):
    """How the purchase has to be.

    Attributes:
        max_kinds: the most different replica kinds (hardware and how the model runs on it), over all models.
        max_kinds_per_model: the most for one model.
        min_providers, min_regions: nodes come from at least so many.
        survive: the load still fits, within its targets, when any one node, or everything of one provider, is gone.
        max_spot_share: the most of a model's requests that may be served on spot nodes (terms have to allow spot).
        interruptions_per_day: how often a spot node is taken back; each time it is paid for and useless for a start-up.
        startup_s: from renting a node to its first token.
        billing_s: what is rented by the hour of the profile is paid in whole steps of so many seconds.
        min_billing_s: and for at least so long.
        horizon_months: how long the traffic is there; a contract or machine that outlasts it is paid for to its end.
        capital_rate_percent: what a year of money paid in advance costs.
    """

    max_kinds: Annotated[int, whole(1, 1000)] | None = None
    max_kinds_per_model: Annotated[int, whole(1, 1000)] | None = None
    min_providers: Annotated[int, whole(1, 50)] = 1
    min_regions: Annotated[int, whole(1, 50)] = 1
    survive: Literal["nothing", "node", "provider"] = "nothing"
    max_spot_share: Annotated[float, number("a share from 0 to 1 (half is 0.5)", lambda x: 0 <= x <= 1)] = 1.0
    interruptions_per_day: Annotated[float, number("a number from 0 to 100", lambda x: 0 <= x <= 100)] = 1.0
    startup_s: Annotated[float, number("seconds from 0 to 86,400", lambda x: 0 <= x <= 86_400)] = 300.0
    billing_s: Annotated[float, number("seconds from 1 to 86,400", lambda x: 1 <= x <= 86_400)] = 60.0
    min_billing_s: Annotated[float, number("seconds from 0 to 604,800", lambda x: 0 <= x <= 604_800)] = 0.0
    horizon_months: Annotated[float, number("months from 0.1 to 240", lambda x: 0.1 <= x <= 240)] | None = None
    capital_rate_percent: Annotated[float, number("a percentage from 0 to 100", lambda x: 0 <= x <= 100)] = 0.0


class FleetScenario(Part):
    """The whole question of a fleet.

    Attributes:
        model: where there is one model only; its traffic then stands here, as classes, histogram or log.
        models: where there are several.
        targets: of classes that have none of their own.
        profile: 24 or 168 values, by which each hour's traffic is multiplied; the hours of the fleet's cycle.
        limits: as for one layout; quotas, max_gpus, max_nodes and the budget hold for the whole fleet.
        commitments: contracts that could be signed.
        classes: traffic by kinds of requests.
        histogram: traffic as a table of lengths and rates.
        log: traffic as a file of requests.
        fleet: how the purchase is made and how safe it has to be.
    """

    description: str = ""
    model: ModelName | None = None
    models: tuple[ModelTraffic, ...] = ()
    classes: tuple[TrafficClass, ...] = ()
    histogram: Histogram | None = None
    log: RequestLog | None = None
    profile: Profile = ()
    targets: Targets = Targets()
    limits: Limits = Limits()
    memory: Memory = Memory()
    prices: Prices = Prices()
    performance: SpeedSource = SpeedSource()
    fleet: Fleet = Fleet()
    commitments: tuple[Commitment, ...] = ()

    @field_validator("profile")
    @classmethod
    def _day_or_week(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        return _checked_profile(values)

    @model_validator(mode="after")
    def _models_or_one(self) -> FleetScenario:
        traffic = [name for name in ("classes", "histogram", "log") if getattr(self, name)]
        if (self.model is None) == (not self.models):
            raise ValueError("give either model, with its traffic, or models, each with its own")
        if self.models and traffic:
            raise ValueError(f"{' and '.join(traffic)}: with models, each model has its own traffic")
        if self.model is not None:
            self.traffic  # noqa: B018  raises where there is none, or two
        labels = [one.label for one in self.traffic]
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise ValueError(f"models: {', '.join(twice)} is the name of two; give each a name")
        for name in ONE_LAYOUT_LIMITS:
            if getattr(self.limits, name):
                raise ValueError(f"limits.{name} is for one layout; a fleet counts its own")
        return self

    @classmethod
    def from_yaml(cls, path: Path | str) -> FleetScenario:
        """Read a fleet's scenario file; paths inside it are relative to it.

        Raises:
            ScenarioError: the file cannot be read, or has bad fields.
        """
        return load_fleet_scenario(Path(path))

    def to_yaml(self) -> str:
        """Return the question as a scenario file, without what is as it is by default."""
        from optimizer.yaml_text import without_defaults, yaml_of  # noqa: PLC0415

        return yaml_of(without_defaults(FleetScenario, self.model_dump(mode="json")))

    @property
    def traffic(self) -> tuple[ModelTraffic, ...]:
        """The models with their traffic, also where there is one only."""
        if self.model is None:
            return self.models
        return (ModelTraffic(model=self.model, classes=self.classes, histogram=self.histogram, log=self.log),)

    def class_scenario(self, model: ModelTraffic, one: TrafficClass, targets: Targets) -> Scenario:
        """Return the question of one layout that serves this class alone, within these targets, at any price."""
        own = {name: getattr(model, name) for name in ("weights", "kv_cache", "tp", "pp", "ep", "attention_dp")}
        limits = {
            **self.limits.model_dump(),
            **{name: value for name, value in own.items() if value is not None},
            "budget_usd_per_hour": None,
            "quotas": (),
            "max_gpus": None,
            "max_nodes": None,
        }
        return Scenario(
            model=model.model,
            workload=one.workload,
            targets=targets,
            limits=Limits(**limits),
            memory=self.memory,
            prices=self.prices,
            performance=self.performance,
        )

    def any_class(self) -> Scenario:
        """Return a question of one layout that allows the same offers, for any traffic."""
        limits = {name: value for name, value in self.limits.model_dump().items() if name not in ONE_LAYOUT_LIMITS}
        model = self.traffic[0].model
        work = Workload(input_tokens=1, output_tokens=1, request_rate=1.0)
        return Scenario(model=model, workload=work, limits=Limits(**limits), prices=self.prices)

    def targets_of(self, model: ModelTraffic, one: TrafficClass) -> Targets:
        """Return the targets of a class: its own, else its model's, else the question's."""
        return one.targets or model.targets or self.targets

    def profile_of(self, model: ModelTraffic, one: TrafficClass) -> tuple[float, ...]:
        """Return the profile of a class: its own, else its model's, else the question's; empty where none has one."""
        return one.profile or model.profile or self.profile


def build_fleet_scenario(fields: Mapping[str, Any], where: str = "scenario") -> FleetScenario:
    """Check fields and return the question.

    Raises:
        ScenarioError: naming `where`, and each field with its value and what would be accepted.
    """
    try:
        return FleetScenario.model_validate(fields)
    except ValidationError as error:
        problems = [problem(item, FleetScenario) for item in error.errors(include_url=False)]
        raise ScenarioError(where, problems) from None


def load_fleet_scenario(path: Path) -> FleetScenario:
    """Read a fleet's question from a YAML file; paths inside it are relative to the file.

    Raises:
        ScenarioError: the file cannot be read, is not YAML, is not a mapping, or has bad fields.
    """
    return build_fleet_scenario(fleet_fields(read_mapping(path), path.parent), where=str(path))


def fleet_fields(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of a fleet's file with paths from the folder of the file."""
    fields = absolute_paths(content, folder)
    if isinstance(models := fields.get("models"), list):
        fields["models"] = [absolute_paths(one, folder) if isinstance(one, Mapping) else one for one in models]
    return fields
