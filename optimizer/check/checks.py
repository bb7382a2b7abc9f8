"""The table of checks, and the audit of one layout or of many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import pandas as pd

from catalogs.models import ModelSpec
from optimizer.check import layout as layouts
from optimizer.check import numbers, offer, speed
from optimizer.check.audit import Audit, Check, Offer, Violation
from optimizer.check.predict import Prediction, predict
from optimizer.plan import Cost, Layout, MemoryUse, Performance
from optimizer.scenario import Scenario

# Without these a replica cannot run at all, so there is nothing to predict.
RUNNABLE: tuple[Check, ...] = (
    layouts.dtype_supported,
    layouts.attention_dp_divisible,
    layouts.layers_over_stages,
    layouts.heads_divisible,
    layouts.ffn_divisible,
    layouts.vocabulary_divisible,
    layouts.experts_divisible,
    layouts.quantization_blocks,
    layouts.tp_scale_up,
    layouts.network_known,
)

_ALL: tuple[Check, ...] = (
    layouts.gpu_allowed,
    layouts.weights_allowed,
    layouts.kv_cache_allowed,
    layouts.sizes_allowed,
    *RUNNABLE,
    layouts.nodes_per_replica,
    layouts.context_length,
    layouts.vram_headroom,
    speed.ttft,
    speed.tpot,
    speed.e2e,
    offer.provider_allowed,
    offer.provider_kind_allowed,
    offer.region_allowed,
    offer.instance_type_allowed,
    offer.term_allowed,
    offer.price_age,
    speed.traffic,
    offer.budget,
    offer.quota,
    offer.replicas_allowed,
    numbers.whole_nodes,
    numbers.cost,
    numbers.arithmetic,
)
CHECKS: Mapping[str, Check] = {check.__name__: check for check in _ALL}


def check_layout(
    scenario: Scenario,
    model: ModelSpec,
    layout: Layout,
    *,
    cost: Cost | None = None,
    memory: MemoryUse | None = None,
    performance: Performance | None = None,
    offers: pd.DataFrame | None = None,
    today: date | None = None,
) -> tuple[Violation, ...]:
    """Audit one layout against its question; empty when it keeps every rule and every figure is right.

    Args:
        scenario: the question.
        model: its model.
        layout: what is to be rented and how it runs.
        cost: what the answer says that it costs; not looked at when not given. So for the next two.
        memory: what the answer says that a GPU holds.
        performance: what the answer says that it does.
        offers: the catalog (OfferTable.frame) at LIST prices: the checker takes the user's discounts off by itself.
            Prices are not compared when not given.
        today: the day that the age of prices is counted to; the machine's date when not given.
    """
    today = today or date.today()
    audit = Audit(scenario, model, layout, today, cost, memory, performance, offers=offers_of([layout], offers))
    return check_all([audit])[0].violations


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit came to: what is wrong, and the prediction it was held against (None where it cannot run)."""

    violations: tuple[Violation, ...]
    predicted: Prediction | None


def check_all(audits: Sequence[Audit]) -> list[Audited]:
    """Audit layouts of one question together: the speed model is asked once for all of them.

    Their questions may differ in how much traffic there is, and in the values of the targets.
    """
    insane = [[Violation("arithmetic", message) for message in numbers.is_sane(audit)] for audit in audits]
    runnable = [
        index
        for index, audit in enumerate(audits)
        if not insane[index] and not any(message for check in RUNNABLE for message in check(audit))
    ]
    filled = list(audits)
    if runnable:
        first = audits[runnable[0]]
        demands = [audits[index].scenario.workload.demand for index in runnable]
        predictions = predict(first.scenario, first.model, [audits[index].layout for index in runnable], demands)
        for index, predicted in zip(runnable, predictions, strict=True):
            filled[index] = replace(audits[index], predicted=predicted)
    return [Audited(tuple(insane[index] or _violations(audit)), audit.predicted) for index, audit in enumerate(filled)]


def _violations(audit: Audit) -> list[Violation]:
    return [Violation(name, message) for name, check in CHECKS.items() for message in check(audit)]


def offers_of(wanted: Sequence[Layout], offers: pd.DataFrame | None) -> list[Offer] | None:
    """Return the catalog's rows that could be those of the layouts; None without a catalog."""
    if offers is None:
        return None
    names = ["instance_type", "region", "provider"]
    of_layouts = {tuple(getattr(layout, name) for name in names) for layout in wanted}
    keys = zip(*(offers[name].tolist() for name in names), strict=True)
    rows = offers.iloc[[row for row, key in enumerate(keys) if key in of_layouts]]
    found: list[Offer] = rows.to_dict("records")  # type: ignore[assignment]
    return found
