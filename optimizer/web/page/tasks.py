"""What the page has worked out in a worker process: from the fields of a question to answers."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import date
from typing import Any

from rich.console import Console

from catalogs.models import load_model
from optimizer.errors import QuestionError
from optimizer.owned_offers import listed_offers
from optimizer.plan import Layout, Plan
from optimizer.scenario import Scenario, build_scenario
from optimizer.solve import solve
from optimizer.web.page.history import PriceStood, price_history
from optimizer.whatif.front import find_front
from optimizer.whatif.front_points import BY_DEFAULT, Front
from optimizer.whatif.prices import matching, scaled


def priced(question: Mapping[str, Any], offers: str, factor: float) -> Plan:
    """Answer a question with the list prices of some offers times a factor, without the reasons beside the answer.

    Args:
        question: the fields of a scenario.
        offers: which offers, as `shardwise whatif shock` names them; empty for none.
        factor: what their prices are multiplied by.
    """
    scenario = build_scenario(question)
    today = date.today()
    catalog = listed_offers(scenario.prices, today)
    if offers and factor != 1.0:
        catalog = scaled(catalog, matching(catalog.frame, offers), factor)
    return solve(scenario, model=load_model(scenario.model), catalog=catalog, today=today, reasons=False)


def front_of(question: Mapping[str, Any]) -> Front:
    """Return the front of cost, TPOT and TTFT."""
    return find_front(build_scenario(question), BY_DEFAULT)


def history_of(layout: Layout) -> tuple[PriceStood, ...]:
    """Return how the price of a layout's offer moved."""
    return price_history(layout)
