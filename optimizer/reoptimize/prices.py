"""The offers of the day as a plan's question sees them, and a mark of all that could change its answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from catalogs.errors import CatalogError
from catalogs.models import ModelSpec, load_model
from catalogs.offers import Discount, OfferTable, discounted, load_offers
from optimizer.choices import broken_offer_rules
from optimizer.fleet.question import FleetScenario
from optimizer.owned_offers import with_owned
from optimizer.performance.own_calibration import own_calibration
from optimizer.reoptimize.plans import SavedPlan
from optimizer.scenario import Limits, Scenario, Workload
from optimizer.version import __version__

# What an answer depends on of an offer: all but when and by whom its price was seen.
MATTERS = (
    *("provider", "provider_kind", "region", "instance_type", "gpu", "gpus_per_node", "fabric", "scale_up_gpus"),
    *("network", "network_gbit_per_s", "term", "price_usd_per_node_hour", "max_nodes"),
)
_NAMES = {"providers": "provider", "exclude_providers": "provider", "regions": "region"}
_NAMES |= {"instance_types": "instance_type"}

Load = Callable[[date | None, tuple[Path, ...]], OfferTable]


class Catalogs:
    """The offers of one day, loaded once for all plans that name the same files of their own."""

    def __init__(self, as_of: date | None, load: Load = load_offers):
        self.as_of = as_of
        self._load = load
        self._tables: dict[tuple[Path, ...], OfferTable] = {}
        self._models: dict[str, ModelSpec] = {}

    def offers(self, files: tuple[Path, ...]) -> OfferTable:
        """Return the offers at list prices."""
        if files not in self._tables:
            self._tables[files] = self._load(self.as_of, files)
        return self._tables[files]

    def model(self, name: str) -> ModelSpec:
        """Return a model."""
        if name not in self._models:
            self._models[name] = load_model(name)
        return self._models[name]


@dataclass(frozen=True)
class Asked:
    """A plan's question on the offers of the day.

    Attributes:
        scenario: the question, without names that no offer has any more.
        models: by the name that the question gives.
        listed: offers at list prices; own: at the user's own.
        notes: what was left out of the question, and why.
        no_offers: why none of what the question allows is to be had at all; "" where some may be.
    """

    scenario: Scenario | FleetScenario
    models: dict[str, ModelSpec]
    listed: OfferTable
    own: pd.DataFrame
    today: date
    notes: tuple[str, ...]
    no_offers: str


def ask(saved: SavedPlan, catalogs: Catalogs, today: date, max_age_days: int | None = None) -> Asked:
    """Return a saved plan's question on the offers of the day.

    Raises:
        QuestionError, CatalogError: the model, or a file that the question names, is not usable any more.
    """
    scenario = saved.scenario
    if max_age_days is not None:
        prices = scenario.prices.model_copy(update={"max_age_days": max_age_days})
        scenario = scenario.model_copy(update={"prices": prices})
    names = [one.model for one in scenario.traffic] if isinstance(scenario, FleetScenario) else [scenario.model]
    listed = with_owned(catalogs.offers(scenario.prices.offers_files), scenario.prices.owned, today)
    scenario, notes, no_offers = _with_known_names(scenario, listed)
    discounts = [Discount(**terms.model_dump()) for terms in scenario.prices.discounts]
    own = discounted(listed, discounts).frame
    return Asked(scenario, {name: catalogs.model(name) for name in names}, listed, own, today, notes, no_offers)


def _with_known_names(
    scenario: Scenario | FleetScenario, listed: OfferTable
) -> tuple[Scenario | FleetScenario, tuple[str, ...], str]:
    """Leave names out that were known when the plan was saved and that no offer has any more.

    A name among several that are allowed may go: the others are still allowed. Where all of them are gone, nothing is.
    """
    known = {column: set(listed.frame[column].unique()) for column in ("provider", "region", "instance_type")}
    limits, notes, no_offers = scenario.limits, [], ""
    changed: dict[str, Any] = {}
    for field, column in _NAMES.items():
        names = getattr(limits, field)
        left = tuple(name for name in names if name in known[column])
        if gone := [name for name in names if name not in known[column]]:
            notes.append(f"no offer of {column.replace('_', ' ')} {', '.join(gone)} is listed any more")
            changed[field] = left
        if names and not left and not field.startswith("exclude"):
            no_offers = f"no offer of {column.replace('_', ' ')} {', '.join(names)} is listed"
    quotas = tuple(
        one
        for one in limits.quotas
        if (one.provider is None or one.provider in known["provider"])
        and (one.region is None or one.region in known["region"])
    )
    if len(quotas) < len(limits.quotas):
        changed["quotas"] = quotas
    terms = tuple(one for one in scenario.prices.discounts if _applies(one.model_dump(), listed))
    if len(terms) < len(scenario.prices.discounts):
        notes.append("a discount is left out: no offer that it names is listed any more")
        prices = scenario.prices.model_copy(update={"discounts": terms})
        scenario = scenario.model_copy(update={"prices": prices})
    if changed and not no_offers:
        scenario = scenario.model_copy(update={"limits": limits.model_copy(update=changed)})
    return scenario, tuple(notes), no_offers


def _applies(terms: dict[str, Any], listed: OfferTable) -> bool:
    try:
        discounted(listed, [Discount(**terms)])
    except CatalogError:
        return False
    return True


def one_layout(scenario: Scenario | FleetScenario) -> Scenario:
    """Return a question of one layout that allows the same offers."""
    if isinstance(scenario, Scenario):
        return scenario
    limits = Limits(**scenario.limits.model_dump())
    work = Workload(input_tokens=1, output_tokens=1, request_rate=1.0)
    return Scenario(model="any", workload=work, limits=limits, prices=scenario.prices)


def mark(saved: SavedPlan, asked: Asked, own_offers: Iterable[tuple[str, ...]]) -> str:
    """Return a digest of all that could change a plan's answer or what it costs.

    That is the question, the plan, the models and files behind them, this program's version, the user's calibration,
    and every offer that the question's limits allow (no other can be in an answer), with the plan's own offers.

    Args:
        saved: the plan.
        asked: its question on the offers of the day.
        own_offers: provider, region, instance type and term of each offer that the plan rents.
    """
    limits, frame = asked.scenario.limits, asked.own
    matters = broken_offer_rules(one_layout(asked.scenario), frame, asked.today) == 0
    if limits.gpus:
        matters &= frame["gpu"].isin(limits.gpus).to_numpy()
    matters &= ~frame["gpu"].isin(limits.exclude_gpus).to_numpy()
    mine = set(own_offers)
    keys = zip(*(frame[name] for name in ("provider", "region", "instance_type", "term")), strict=True)
    matters |= np.fromiter((key in mine for key in keys), dtype=bool, count=len(frame))
    digest = hashlib.sha256()
    for part in (
        __version__,
        saved.sha256,
        asked.scenario.model_dump_json(),
        json.dumps([asked.no_offers, *asked.notes]),
        *(model.model_dump_json() for model in asked.models.values()),
        *_files_behind(asked.scenario),
        frame.loc[matters, list(MATTERS)].to_csv(index=False),
    ):
        digest.update(part.encode("utf-8") + b"\0")
    return digest.hexdigest()


def _files_behind(scenario: Scenario | FleetScenario) -> list[str]:
    """Return digests of the files that answers rest on beside prices: measured speeds, a log of requests, runs."""
    files = [scenario.performance.table]
    if isinstance(scenario, FleetScenario):
        files += [one.log.file for one in scenario.traffic if one.log is not None]
    if (own := own_calibration()) is not None:
        files.append(own.path)
    return [_file_digest(path) for path in files if path is not None]


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return f"{path} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError:
        return f"{path} cannot be read"
