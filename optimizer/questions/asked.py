"""Scenarios and models as a request gives them: the scenario's own fields, less those that name a file.

A path or a URL in a request is refused, never opened: a model is named as the catalog names it, or its config.json is
sent along; offers come from the service's own prices; requests of a log are sent as rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, JsonValue, Tag
from pydantic.json_schema import SkipJsonSchema

from catalogs.pulled_models import is_hub_id
from optimizer.fields import Part
from optimizer.fleet.question import FleetScenario, Histogram, ModelTraffic, RequestLog
from optimizer.scenario import Prices, Scenario, SpeedSource, is_fleet

MOST_CONFIGS = 20
MODEL_FORM = "org/name"


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
_NoLog = SkipJsonSchema[Annotated[RequestLog | None, BeforeValidator(_refuse_file)]]


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


class AskedTraffic(ModelTraffic):
    """One model of several, with its traffic as classes or as a histogram."""

    model: ModelName
    log: _NoLog = None


class AskedFleet(FleetScenario):
    """The whole question of a fleet: models, classes of traffic, the hours of a day or week, how it has to be safe."""

    model: ModelName | None = None
    models: tuple[AskedTraffic, ...] = ()
    histogram: Histogram | None = None
    log: _NoLog = None
    prices: AskedPrices = AskedPrices()
    performance: AskedSpeed = AskedSpeed()


def _kind(value: Any) -> str:
    if isinstance(value, FleetScenario):
        return "fleet"
    return "fleet" if isinstance(value, Mapping) and is_fleet(value) else "layout"


AskedQuestion = Annotated[
    Annotated[AskedScenario, Tag("layout")] | Annotated[AskedFleet, Tag("fleet")], Discriminator(_kind)
]


# The two kinds of scenario by pydantic's names in the places of errors.
TAGS: dict[Any, type[Part]] = {"layout": AskedScenario, "fleet": AskedFleet}


def names_of(scenario: Scenario | FleetScenario) -> tuple[str, ...]:
    """Return the models that a scenario names."""
    if isinstance(scenario, Scenario):
        return (scenario.model,)
    return tuple(dict.fromkeys(one.model for one in scenario.traffic))
