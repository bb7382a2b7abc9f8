"""A fleet's question with all the arithmetic that comes before the solver: traffic, offers, what replicas carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from catalogs.errors import near_matches
from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable, load_offers
from optimizer.candidates import node_shapes
from optimizer.errors import QuestionError
from optimizer.fleet.instance import Posed, pose_fleet
from optimizer.fleet.kinds import ModelKinds, model_kinds
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.sites import rental_sites
from optimizer.fleet.traffic import Traffic, read_traffic
from optimizer.names import check_names
from optimizer.owned_offers import with_owned
from optimizer.programs.fleet_instance import FleetInstance
from optimizer.solve import at_own_prices


@dataclass(frozen=True)
class FleetProblem:
    """A fleet's question with everything it is answered from: `listed` has list prices, `catalog` the user's own."""

    scenario: FleetScenario
    traffic: Traffic
    models: tuple[ModelKinds, ...]
    listed: OfferTable
    catalog: OfferTable
    posed: Posed
    today: date

    @property
    def instance(self) -> FleetInstance:
        """What the program solves."""
        return self.posed.instance


def pose(
    scenario: FleetScenario,
    *,
    models: Mapping[str, ModelSpec] | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
) -> FleetProblem:
    """Do all the arithmetic that comes before the solver: traffic, offers, what replicas carry."""
    day = today or date.today()
    traffic = read_traffic(scenario)
    specs = [(models or {}).get(one.model) or load_model(one.model) for one in scenario.traffic]
    first = scenario.class_scenario(scenario.traffic[0], traffic.demands[0].traffic, traffic.demands[0].targets)
    listed = with_owned(
        catalog or load_offers(scenario.prices.as_of, scenario.prices.offers_files), scenario.prices.owned, day
    )
    offers = at_own_prices(first, listed)
    check_names(first.model_copy(update={"limits": scenario.limits}), offers.frame)
    _check_regions(traffic, offers)
    shapes, shape_of = node_shapes(offers.frame)
    sites = rental_sites(scenario, first, offers.frame, shape_of, traffic.demands, day)
    kinds = tuple(model_kinds(scenario, position, spec, traffic.demands, shapes) for position, spec in enumerate(specs))
    return FleetProblem(scenario, traffic, kinds, listed, offers, pose_fleet(scenario, traffic, kinds, sites), day)


def _check_regions(traffic: Traffic, offers: OfferTable) -> None:
    """Refuse classes that may only be served where nothing is on offer."""
    known = set(offers.frame["region"].unique())
    for one in traffic.demands:
        if unknown := [name for name in one.regions if name not in known]:
            near = near_matches(unknown[0], sorted(known), limit=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise QuestionError(f"class {one.name!r}: regions: no offer is in {unknown[0]!r}{hint}")
