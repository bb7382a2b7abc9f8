"""The audit of a fleet's answer: the table of its checks, and all of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pandas as pd

from catalogs.models import ModelSpec
from optimizer.check import fleet_limits, fleet_mix, fleet_money, fleet_nodes, fleet_pools, fleet_status, fleet_survive
from optimizer.check import fleet_traffic as traffic
from optimizer.check.audit import Violation
from optimizer.check.fleet_audit import FleetAudit, FleetCheck, scenario_of, well_formed
from optimizer.fleet.plan import FleetPlan

_ALL: tuple[FleetCheck, ...] = (
    fleet_status.status,
    fleet_status.compared,
    traffic.classes_asked,
    traffic.variations,
    traffic.load_covered,
    traffic.class_regions,
    traffic.own_model,
    fleet_nodes.replica_sizes,
    fleet_pools.replicas,
    fleet_pools.capacity,
    fleet_pools.utilization,
    fleet_pools.pool_targets,
    fleet_mix.mix,
    fleet_mix.pool_memory,
    fleet_nodes.packing,
    fleet_nodes.committed_nodes,
    fleet_nodes.starts,
    fleet_nodes.minimum_billing,
    fleet_limits.offers_allowed,
    fleet_limits.stock,
    fleet_limits.quota,
    fleet_limits.budget,
    fleet_limits.max_kinds,
    fleet_limits.spread,
    fleet_limits.spot_share,
    fleet_survive.survives,
    fleet_money.prices,
    fleet_money.effective_prices,
    fleet_money.start_costs,
    fleet_money.purchase_money,
    fleet_money.fleet_cost,
    fleet_money.bound,
)
FLEET_CHECKS: Mapping[str, FleetCheck] = {check.__name__: check for check in _ALL}


def check_fleet(
    plan: FleetPlan, models: Mapping[str, ModelSpec], offers: pd.DataFrame | None = None, *, today: date
) -> tuple[Violation, ...]:
    """Audit a fleet's answer; empty when it keeps every rule and every figure is right.

    Args:
        plan: the answer.
        models: the models of its question, by what it calls them, or by their Hub name or path.
        offers: the catalog (OfferTable.frame) at LIST prices: the checker takes the user's discounts and contracts off
            by itself, and works out hardware of the user's own by itself. Prices are not compared when not given.
        today: the day that the age of prices is counted to.
    """
    scenario = scenario_of(plan)
    if isinstance(scenario, str):
        return (Violation("question", scenario),)
    audit = FleetAudit(plan, scenario, models, today, offers)
    if malformed := [Violation("well_formed", message) for message in well_formed(audit)]:
        return tuple(malformed)
    return tuple(Violation(name, message) for name, check in FLEET_CHECKS.items() for message in check(audit))
