"""Sound fleets, made by hand, for tests that then break one thing: real capacities, placed and paid for as they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil, floor, sqrt
from typing import Any

import numpy as np
import pandas as pd

from catalogs.gpus import get_gpu
from optimizer.fleet.plan import FleetPlan, Pool, Served
from optimizer.fleet.question import FleetScenario, build_fleet_scenario
from optimizer.memory import breakdown, footprint, memory_policy
from optimizer.performance.distributions import PERCENTILES
from optimizer.performance.intervals import latencies_ms
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.open_loop import Variability
from optimizer.performance.operating_point import predict_open_loop
from optimizer.performance.speed import SpeedModel
from optimizer.plan import Performance, Saturation
from optimizer.split import Split
from tests.optimizer.catalogs import SEEN, TODAY, catalog, offer
from tests.optimizer.plans import llama_8b

Fields = dict[str, Any]
DAY, NIGHT = 12, 12  # hours; by day twice as much arrives
HOURS = DAY + NIGHT
MODELS = {"a": llama_8b(), "by/b": llama_8b()}  # one by what the question calls it, one by its name

QUESTION: Fields = {
    "models": [
        {
            "name": "a",
            "model": "by/a",
            "classes": [
                {"name": "short", "input_tokens": 500, "output_tokens": 100, "request_rate": 3.0},
                {
                    "name": "long",
                    "input_tokens": 3000,
                    "output_tokens": 300,
                    "request_rate": 0.5,
                    "output_cv": 0.5,
                    "targets": {"ttft_ms": 4000, "tpot_ms": 90},
                },
            ],
        },
        {
            "name": "b",
            "model": "by/b",
            "regions": ["east", "home"],
            "classes": [{"name": "main", "input_tokens": 1000, "output_tokens": 200, "request_rate": 1.0}],
        },
    ],
    "targets": {"ttft_ms": 2000, "tpot_ms": 60},
    "profile": [1.0] * NIGHT + [2.0] * DAY,
    "limits": {
        "terms": ["on-demand", "spot"],
        "budget_usd_per_hour": 200.0,
        "max_gpus": 80,
        "max_nodes": 12,
        "quotas": [{"provider": "acme", "max_nodes": 3}, {"gpu": "L40S-48GB", "max_gpus": 16}],
    },
    "fleet": {
        "max_kinds": 4,
        "max_kinds_per_model": 2,
        "min_providers": 2,
        "min_regions": 2,
        "survive": "node",
        "max_spot_share": 0.8,
        "interruptions_per_day": 4.0,
        "min_billing_s": 7200.0,
        "horizon_months": 24.0,
        "capital_rate_percent": 8.0,
    },
    "prices": {
        "max_age_days": 30,
        "discounts": [{"provider": "acme", "percent": 10.0}],
        "owned": [
            {
                "gpu": "L40S-48GB",
                "gpus_per_node": 8,
                "capital_usd_per_node": 100_000,
                "years": 4,
                "residual_share": 0.1,
                "capital_rate_percent": 6,
                "upkeep_percent_per_year": 4,
                "power_kw_per_node": 5,
                "usd_per_kwh": 0.12,
                "hosting_usd_per_kw_month": 100,
                "network": "none",
                "region": "home",
            }
        ],
    },
    "commitments": [{"years": 1, "percent_off": 40, "upfront_share": 0.5, "provider": "acme"}],
}

OFFERS = catalog(
    offer("H100-SXM-80GB", 20.0, 8, max_nodes=3.0),
    offer("L40S-48GB", 1.2, 1, provider="bolt", region="west", term="spot", max_nodes=9.0),
).frame


@dataclass(frozen=True)
class PoolCase:
    """A pool by hand: where it runs; of each class its capacity alone, requests at once then, and requests/s by day."""

    model: str
    site: str
    tp: int
    replicas: tuple[int, ...]
    serves: Mapping[str, tuple[float, int, float]]
    pp: int = 1
    targets: Mapping[str, Any] = field(default_factory=lambda: {"at": "mean", "ttft_ms": 2000, "tpot_ms": 60})
    nodes_per_replica: int = 1


def by_hours(night: int, day: int) -> tuple[int, ...]:
    """So many at night and by day."""
    return (night,) * NIGHT + (day,) * DAY


POOLS = (
    PoolCase("a", "site 1", 2, by_hours(2, 4), {"short": (5.0, 48, 2.0), "long": (1.0, 24, 1.0)}),
    PoolCase("b", "site 1", 4, by_hours(2, 2), {"main": (5.0, 48, 1.0)}),
    PoolCase("a", "site 2", 1, by_hours(3, 3), {"short": (2.0, 16, 4.0)}),
    PoolCase("b", "site 3", 4, by_hours(2, 2), {"main": (2.5, 24, 1.0)}),
)
UPFRONT = 0.5 * 10.8 * 8760  # half of a year of the contract's price
CAPITAL = 100_000.0
H100S = "8x H100-SXM-80GB"


def _sites(owned_usd: float) -> list[Fields]:
    common = {"network": "unknown", "network_gbit_per_s": None}
    contract = 18.0 * 0.6 * (1 + 0.5 * 0.5 * 0.08)  # what is paid on signing is paid half a year early on average
    wasted = 4.0 * 300 / 86_400
    return [
        {
            "id": "site 1", "provider": "acme", "provider_kind": "gpu-cloud", "region": "east",
            "instance_type": H100S, "gpu": "H100-SXM-80GB", "gpus_per_node": 8, "spot": False,
            "fabric": "nvswitch", "scale_up_gpus": 8, **common,
            "purchases": [
                purchase(H100S, "reserved-1y", 10.8, contract, by_hours(1, 1), years=1.0, stock=3, upfront=UPFRONT,
                         contract=0),
                purchase(H100S, "on-demand", 18.0, 18.0, by_hours(1, 2), stock=3),
            ],
        },
        {
            "id": "site 2", "provider": "bolt", "provider_kind": "gpu-cloud", "region": "west",
            "instance_type": "1x L40S-48GB", "gpu": "L40S-48GB", "gpus_per_node": 1, "spot": True, "fabric": "single",
            "scale_up_gpus": 1, **common,
            "purchases": [purchase("1x L40S-48GB", "spot", 1.2, 1.2 / (1 - wasted), by_hours(3, 3), stock=9)],
        },
        {
            "id": "site 3", "provider": "own", "provider_kind": "own", "region": "home",
            "instance_type": "8x L40S-48GB (own)", "gpu": "L40S-48GB", "gpus_per_node": 8, "spot": False,
            "fabric": "pcie", "scale_up_gpus": 1, **common,
            "purchases": [
                # Four years outlast a horizon of two.
                purchase("8x L40S-48GB (own)", "owned", owned_usd, 2 * owned_usd, by_hours(1, 1), years=4.0,
                         upfront=CAPITAL, seen=TODAY, source="owned"),
            ],
        },
    ]  # fmt: skip


def purchase(
    instance_type: str,
    term: str,
    price: float,
    effective: float,
    nodes: Sequence[int],
    *,
    years: float = 0.0,
    stock: int | None = None,
    upfront: float = 0.0,
    contract: int | None = None,
    seen: Any = SEEN,
    source: str = "by-hand",
) -> Fields:
    """A purchase whose figures follow from its price and nodes: 300 s to start, billed by the minute."""
    starts = 0 if years else sum(max(now - nodes[hour - 1], 0) for hour, now in enumerate(nodes)) * (len(nodes) > 1)
    start_usd = 0.0 if years or len(nodes) == 1 else effective / 12
    return {
        "instance_type": instance_type,
        "term": term,
        "price_usd_per_node_hour": price,
        "effective_usd_per_node_hour": effective,
        "committed_years": years,
        "nodes_by_period": tuple(nodes),
        "starts": starts,
        "start_usd": start_usd,
        "usd_per_hour": (sum(nodes) * effective + starts * start_usd) / len(nodes),
        "upfront_usd": upfront,
        "committed_usd": nodes[0] * price * 8760 * years,
        "max_nodes": stock,
        "price_seen_on": seen,
        "price_source": source,
        "contract": contract,
    }


def owned_usd_per_hour() -> float:
    """The node of one's own: $100,000 over four years at 6%, a tenth of it got back; upkeep, power, space."""
    annuity = 0.06 / (1 - 1.06**-4)
    yearly = (100_000 - 10_000 * 1.06**-4) * annuity + 4_000
    return round(yearly / 8760 + 5 * 1.3 * 0.12 + 5 * 100 * 12 / 8760, 6)


def held(period: int, site: str, units: int, span: int = 1, **replicas: int) -> Fields:
    """Nodes that hold the same replicas; pools by number as p1, p2."""
    named = {name.replace("p", "pool "): count for name, count in replicas.items()}
    return {"period": period, "site": site, "units": units, "span": span, "replicas": named}


def _nodes() -> list[Fields]:
    found = []
    for hour in range(HOURS):
        found += [held(hour, "site 1", 2, p1=1, p2=1)]
        found += [held(hour, "site 1", 1, p1=2)] if hour >= NIGHT else []
        found += [
            held(hour, "site 2", 3, p3=1),
            held(hour, "site 3", 1, p4=2),
        ]
    return found


@cache
def sound() -> FleetPlan:
    """Two models and three classes on nodes under contract, by the hour, of spot and of one's own; any node may go."""
    return assemble(QUESTION, POOLS, _sites(owned_usd_per_hour()), _nodes())


def assemble(
    question: Fields, pools: Sequence[PoolCase], sites: Sequence[Fields], nodes: Sequence[Fields], **changed: Any
) -> FleetPlan:
    """Return the answer to a question with all figures that follow from pools, purchases and placement."""
    scenario = build_fleet_scenario(question)
    profile = scenario.profile or (1.0,)
    by_id = {site["id"]: site for site in sites}
    built = [
        _pool(scenario, f"pool {number}", case, by_id[case.site], profile) for number, case in enumerate(pools, start=1)
    ]
    classes = [
        _class(scenario, position, one, built, profile)
        for position, model in enumerate(scenario.traffic)
        for one in model.classes
    ]
    bought = [one for site in sites for one in site["purchases"]]
    hourly = sum(one["usd_per_hour"] for one in bought)
    per_s = [(one["requests_per_second_by_period"], one) for one in classes]
    out = sum(float(np.mean(rates)) * one["output_tokens"] for rates, one in per_s)
    both = sum(float(np.mean(rates)) * (one["output_tokens"] + one["input_tokens"]) for rates, one in per_s)
    fields = {
        "shardwise_version": "0",
        "status": "optimal",
        "summary": "by hand",
        "scenario": scenario.model_dump(mode="json"),
        "hours": (1.0,) * len(profile),
        "classes": classes,
        "cost": {
            "usd_per_hour": hourly,
            "peak_usd_per_hour": max(
                sum(one["nodes_by_period"][hour] * one["effective_usd_per_node_hour"] for one in bought)
                for hour in range(len(profile))
            ),
            "usd_per_month": hourly * 730,
            "committed_usd_per_hour": sum(one["usd_per_hour"] for one in bought if one["committed_years"]),
            "upfront_usd": sum(one["upfront_usd"] for one in bought),
            "usd_per_million_output_tokens": hourly / (out * 3600) * 1e6,
            "usd_per_million_tokens": hourly / (both * 3600) * 1e6,
            "bound_usd_per_hour": hourly,
            "gap": 0.0,
        },
        "sites": sites,
        "pools": [pool.model_dump() for pool in built],
        "nodes": nodes,
        "survived": list(_losses(scenario, classes, built, nodes, sites)),
        "prices": {
            "as_of": TODAY,
            "seen_on": SEEN,
            "age_days": 6,
            "stale": False,
            "sources": {"by-hand": "made for this test"},
            "offers_considered": 2,
            "offers_set_aside": {},
        },
        "solver": {"name": "none", "status": "optimal", "seconds": 0.0, "candidates": 4, "choices": 4},
    }
    return FleetPlan.model_validate(fields | changed)


def _class(scenario: FleetScenario, position: int, one: Any, pools: Sequence[Pool], profile: Sequence[float]) -> Fields:
    model = scenario.traffic[position]
    shares = {
        pool.id: served.share for pool in pools for served in pool.serves
        if (pool.model, served.class_name) == (model.label, one.name)
    }  # fmt: skip
    return {
        "name": one.name,
        "model": model.label,
        "input_tokens": one.input_tokens,
        "output_tokens": one.output_tokens,
        "input_cv": one.input_cv,
        "output_cv": one.output_cv,
        "requests_per_second_by_period": tuple(one.request_rate * factor for factor in profile),
        "targets": (one.targets or scenario.targets).model_dump(),
        "regions": one.regions or model.regions,
        "pools": shares,
    }


def _pool(scenario: FleetScenario, name: str, case: PoolCase, site: Fields, profile: Sequence[float]) -> Pool:
    model = next(one for one in scenario.traffic if one.label == case.model)
    classes = {one.name: one for one in model.classes}
    spec, peak = llama_8b(), max(profile)
    split = {"weights": "bf16", "kv_cache": "bf16", "tp": case.tp, "pp": case.pp, "ep": 1, "attention_dp": 1}
    parts = [(classes[part], *figures) for part, figures in case.serves.items()]
    rates = np.array([rate for *_, rate in parts])
    times = np.array([rate / capacity for _, capacity, _, rate in parts])  # replicas' worth
    loads = [
        float(times.sum()) * factor / peak / count
        for factor, count in zip(profile, case.replicas, strict=True)
        if count
    ]
    at_once = times / times.sum() * np.array([float(at) for _, _, at, _ in parts])
    kept = [one.context_tokens or one.input_tokens + one.output_tokens for one, *_ in parts]
    context = ceil(at_once @ np.array(kept) / at_once.sum() - 1e-9)
    concurrency = floor(at_once.sum() + 1e-9)
    row = {name: site[name] for name in ("gpu", "gpus_per_node", "fabric", "scale_up_gpus", "network")}
    network = float("nan") if site["network_gbit_per_s"] is None else site["network_gbit_per_s"]
    speed = SpeedModel(spec, pd.DataFrame([row | split | {"network_gbit_per_s": network}]))
    # The fullest hour is the one whose replicas have most to do.
    full_hour = max(range(len(profile)), key=lambda hour: profile[hour] / max(case.replicas[hour], 1e-9))
    copies, now = case.replicas[full_hour], rates * profile[full_hour] / peak
    done, lengths = _performance(speed, [one for one, *_ in parts], now, copies, concurrency)
    gpu = get_gpu(site["gpu"])
    held_bytes = footprint(spec, Split(**split), max_batched_tokens=scenario.memory.max_batched_tokens)
    memory = breakdown(memory_policy(scenario.memory), gpu.memory_bytes, held_bytes, concurrency, context)
    prompt = {tokens: float(speed.prefill_seconds(float(tokens))[0]) * 1e3 for tokens in (
        lengths[0], *(one.input_tokens for one, *_ in parts))}  # fmt: skip
    serves = []
    for one, capacity, at, rate in parts:
        ttft = max(done.ttft_ms + prompt[one.input_tokens] - prompt[lengths[0]], prompt[one.input_tokens])
        serves.append(
            Served(
                class_name=one.name,
                share=rate / (one.request_rate * peak),
                requests_per_second_by_period=tuple(rate * factor / peak for factor in profile),
                capacity_requests_per_second=capacity,
                concurrency=at,
                ttft_ms=ttft,
                tpot_ms=done.tpot_ms,
                e2e_ms=ttft + (one.output_tokens - 1) * done.tpot_ms,
                holds=True,
            )
        )
    return Pool(
        id=name, model=case.model, model_id=model.model, site=case.site, **split,
        gpus_per_replica=case.tp * case.pp, nodes_per_replica=case.nodes_per_replica,
        targets=dict(case.targets), replicas_by_period=case.replicas, serves=tuple(serves), utilization=max(loads),
        concurrency_per_replica=concurrency, memory=memory, performance=done,
        communication_share=done.step_ms.get("all_reduce", 0.0) / sum(done.step_ms.values()),
    )  # fmt: skip


def _performance(
    speed: SpeedModel, classes: Sequence[Any], rates: Any, copies: int, concurrency: int
) -> tuple[Performance, tuple[int, int]]:
    """Predict one workload of the mean lengths of all requests, with the spread about them."""
    shares = rates / rates.sum()

    def mixed(tokens: str, cv: str) -> tuple[int, float]:
        means, spreads = (np.array([float(getattr(one, name)) for one in classes]) for name in (tokens, cv))
        mean = float(shares @ means)
        return round(mean), sqrt(max(float(shares @ (means**2 * (1 + spreads**2))) / mean**2 - 1, 0.0))

    (inputs, input_cv), (outputs, output_cv) = mixed("input_tokens", "input_cv"), mixed("output_tokens", "output_cv")
    answered = rates * np.array([float(one.output_tokens) for one in classes])
    met = np.array([one.input_tokens + one.output_tokens * (1 + one.output_cv**2) / 2 for one in classes])
    in_flight = round(float(answered @ met / answered.sum()))
    vary = Variability(1.0, input_cv, output_cv, in_flight)
    rate = float(rates.sum())
    now = predict_open_loop(speed, rate / copies, concurrency, inputs, outputs, vary=vary, levels=PERCENTILES)
    full = predict_closed_loop(speed, concurrency, inputs, outputs)
    step = speed.decode_breakdown(0, max(float(now.in_flight[0]), 1.0), in_flight)
    done = Performance(
        **latencies_ms(speed, now, 0),
        output_tokens_per_second=rate * outputs,
        requests_per_second=rate,
        requests_in_flight=float(now.in_flight[0]),
        utilization=float(now.utilization[0]),
        step_ms={cause: seconds * 1e3 for cause, seconds in step.items()},
        basis="fitted",
        error_band=0.07,
        saturation=Saturation(
            concurrency=concurrency,
            tpot_ms=float(full.tpot_s[0]) * 1e3,
            output_tokens_per_second=float(full.output_tokens_per_second[0]),
            requests_per_second=float(full.requests_per_second[0]),
        ),
    )
    return done, (inputs, outputs)


def _losses(
    scenario: FleetScenario, classes: Sequence[Fields], pools: Sequence[Pool], nodes: Sequence[Fields], sites: Any
) -> list[Fields]:
    """Take each node, or provider, away and deal the traffic over what is left in proportion to what it carries."""
    what = scenario.fleet.survive
    losses: list[Fields] = []
    provider = {site["id"]: site["provider"] for site in sites}
    if what == "node":
        for one in nodes:
            loss = {"period": one["period"], "what": what, "site": one["site"], "lost": one["replicas"]}
            if one["replicas"] and loss not in losses:
                losses.append(loss)
    elif what == "provider":
        for period in sorted({one["period"] for one in nodes}):
            for name in sorted(set(provider.values())):
                lost: dict[str, int] = {}
                for one in nodes:
                    if one["period"] == period and provider[one["site"]] == name:
                        for pool, count in one["replicas"].items():
                            lost[pool] = lost.get(pool, 0) + one["units"] * count
                losses.append({"period": period, "what": what, "provider": name, "lost": lost})
    return [loss | _dealt(loss, classes, pools) for loss in losses]


def _dealt(loss: Fields, classes: Sequence[Fields], pools: Sequence[Pool]) -> Fields:
    period = loss["period"]
    left = {pool.id: pool.replicas_by_period[period] - loss["lost"].get(pool.id, 0) for pool in pools}
    rates: dict[str, dict[str, float]] = {}
    used = dict.fromkeys(left, 0.0)
    for one in classes:
        able = {
            pool.id: served.capacity_requests_per_second
            for pool in pools for served in pool.serves
            if (pool.model, served.class_name) == (one["model"], one["name"]) and left[pool.id]
        }  # fmt: skip
        total = sum(left[name] * capacity for name, capacity in able.items())
        for name, capacity in able.items():
            replicas = one["requests_per_second_by_period"][period] * left[name] / total
            rates.setdefault(name, {})[one["name"]] = replicas * capacity
            used[name] += replicas
    fullest = max((use / left[name] for name, use in used.items() if left[name]), default=0.0)
    return {"requests_per_second": rates, "utilization": fullest}


def edited(plan: FleetPlan, change: Callable[[Fields], Any]) -> FleetPlan:
    """The plan with its fields changed in place."""
    fields = _in_lists(plan.model_dump())
    change(fields)
    return FleetPlan.model_validate(fields)


def _in_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_lists(one) for name, one in value.items()}
    return [_in_lists(one) for one in value] if isinstance(value, (list, tuple)) else value
