"""Scenarios and models as a request gives them: the scenario's own fields, less those that name a file.

A path or a URL in a request is refused, never opened: a model is named as the catalog names it, or its config.json is
sent along; offers come from the service's own prices; the requests of a log are sent as rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from catalogs.pulled_models import is_hub_id
from optimizer.errors import QuestionError
from optimizer.fields import Dispersion, Part, PositiveRate, Tokens, number, problem, whole
from optimizer.fleet.question import FleetScenario, Histogram, ModelTraffic, RequestLog
from optimizer.scenario import Prices, Scenario, SpeedSource, is_fleet

MOST_CONFIGS = 20
MOST_REQUESTS = 20_000
MOST_SAID = 5


def _as_model_name(value: Any) -> str:
    if isinstance(value, str) and is_hub_id(value.strip()):
        return value.strip()
    raise ValueError(
        "expected a model's name, as in meta-llama/Llama-3.1-70B-Instruct: one of the catalog's models, or one whose "
        "config.json the request holds in `models`; paths and URLs are not opened"
    )


def _refuse_files(value: Any) -> Any:
    if value in (None, "", (), []):
        return ()
    raise ValueError("expected no file: a request's files are not opened")


def _refuse_file(value: Any) -> None:
    if value is None:
        return
    raise ValueError("expected no file: a request's files are not opened")


ModelName = Annotated[str, BeforeValidator(_as_model_name), Field(examples=["meta-llama/Llama-3.1-70B-Instruct"])]
Configs = Annotated[
    dict[ModelName, dict[str, JsonValue]],
    Field(
        max_length=MOST_CONFIGS,
        description="Models of your own, by the name that the scenario calls them: each is its decoded config.json.",
        examples=[{}],
    ),
]
_NoFiles = SkipJsonSchema[Annotated[tuple[Path, ...], BeforeValidator(_refuse_files)]]
_NoFile = SkipJsonSchema[Annotated[Path | None, BeforeValidator(_refuse_file)]]
LoggedRequest = tuple[Annotated[float, number("seconds of 0 or more", lambda x: 0 <= x <= 1e10)], Tokens, Tokens]


class AskedPrices(Prices):
    """Which prices to use: of which day, how old at most, with which discounts, beside hardware of your own."""

    offers_files: _NoFiles = ()


class AskedSpeed(SpeedSource):
    """Where speed figures come from: "roofline", "aiconfigurator" or "auto"."""

    table: _NoFile = None


class AskedScenario(Scenario):
    """The whole question of one layout: a model, its traffic, its targets, and what is allowed."""

    model: ModelName
    prices: AskedPrices = AskedPrices()
    performance: AskedSpeed = AskedSpeed()


class AskedLog(Part):
    """Traffic as requests that were seen, which are put into classes by their lengths."""

    requests: tuple[LoggedRequest, ...] = Field(
        min_length=2,
        max_length=MOST_REQUESTS,
        description="Of each request: seconds of its arrival, input tokens, output tokens; in any order.",
        examples=[[[0.0, 1200, 150], [0.4, 300, 80], [1.1, 2500, 200]]],
    )
    classes: Annotated[int, whole(1, 64)] = Field(default=8, description="Classes at the most.")
    request_rate: PositiveRate | None = Field(default=None, description="Instead of the rate of the arrivals.")
    profile: Literal["none", "day", "week"] = Field(default="none", description="Hours to read off the arrivals.")
    burstiness: Dispersion = 1.0
    file: _NoFile = None


def _with_classes(fields: Any) -> Any:
    """Put the classes and the profile of logged requests in their place: an answer's scenario then says them."""
    if not isinstance(fields, Mapping) or fields.get("log") is None:
        return fields
    try:
        logged = AskedLog.model_validate(fields["log"])
    except ValidationError as error:
        said = "; ".join(problem(item, AskedLog) for item in error.errors(include_url=False)[:MOST_SAID])
        raise ValueError(f"log: {said}") from None
    if fields.get("classes") or fields.get("histogram"):
        raise ValueError("give the traffic as exactly one of classes, histogram, log")
    from optimizer.fleet.traffic import classes_of  # noqa: PLC0415  needs numpy
    from optimizer.trace import trace_of  # noqa: PLC0415

    about = RequestLog(file=Path("the log"), **logged.model_dump(exclude={"requests", "file"}))
    try:
        classes, profile, _ = classes_of(about, trace_of(logged.requests))
    except QuestionError as error:
        raise ValueError(f"log: {error}") from None
    found = {name: value for name, value in fields.items() if name != "log"} | {"classes": classes}
    return found if fields.get("profile") else {**found, "profile": profile}


# What is left of a log after its classes are spelled out.
_Log = Annotated[RequestLog | None, WithJsonSchema({"anyOf": [AskedLog.model_json_schema(), {"type": "null"}]})]


class AskedTraffic(ModelTraffic):
    """One model of several, with its traffic as classes, as a histogram, or as logged requests."""

    model: ModelName
    log: _Log = None

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, fields: Any) -> Any:
        return _with_classes(fields)


class AskedFleet(FleetScenario):
    """The whole question of a fleet: models, classes of traffic, the hours of a day or week, how it has to be safe."""

    model: ModelName | None = None
    models: tuple[AskedTraffic, ...] = ()
    histogram: Histogram | None = None
    log: _Log = None

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, fields: Any) -> Any:
        return _with_classes(fields)

    prices: AskedPrices = AskedPrices()
    performance: AskedSpeed = AskedSpeed()


def _kind(value: Any) -> str:
    if isinstance(value, FleetScenario):
        return "fleet"
    return "fleet" if isinstance(value, Mapping) and is_fleet(value) else "layout"


AskedQuestion = Annotated[
    Annotated[AskedScenario, Tag("layout")] | Annotated[AskedFleet, Tag("fleet")], Discriminator(_kind)
]


# What pydantic calls the two kinds in the places of errors.
SCENARIO_KINDS: dict[str, type[Part]] = {"layout": AskedScenario, "fleet": AskedFleet}


def names_of(scenario: Scenario | FleetScenario) -> tuple[str, ...]:
    """Return the models that a scenario names."""
    if isinstance(scenario, Scenario):
        return (scenario.model,)
    return tuple(dict.fromkeys(one.model for one in scenario.traffic))
