"""Figures of an answer, added up anew: whole nodes, money in decimals, and every number that is printed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from math import isfinite, isnan

from optimizer.check.audit import SPEED_TOLERANCE, TOLERANCE, Audit, Offer, close, exceeds
from optimizer.check.floors import least_kv_bytes, least_weight_bytes
from optimizer.check.layout import GIB, memory_use
from optimizer.plan import HOURS_PER_MONTH, Cost, Layout, MemoryUse, Performance
from optimizer.scenario import Prices

MICRO_DOLLAR = Decimal("0.000001")  # prices are counted in whole ones
SIZES = ("gpus_per_node", "nodes", "tp", "pp", "ep", "attention_dp", "replicas", "nodes_per_replica", "gpus_used")
OFFER_FACTS = ("provider_kind", "gpus_per_node", "fabric", "scale_up_gpus", "network")


def is_sane(audit: Audit) -> Iterator[str]:
    """Say what keeps a layout from being looked at any further: sizes below one, a price that is none."""
    for name in (*SIZES, "concurrency_per_replica", "scale_up_gpus"):
        if getattr(audit.layout, name) < 1:
            yield f"{name} is {getattr(audit.layout, name)}"
    price = audit.layout.price_usd_per_node_hour
    if not (isfinite(price) and price > 0):
        yield f"a price of {price} is none"


def whole_nodes(audit: Audit) -> Iterator[str]:
    """As many nodes are rented as the replicas fill, placed one by one, and no more."""
    layout, size = audit.layout, audit.gpus_per_replica
    if size <= layout.gpus_per_node:
        on_a_node, free = 0, layout.gpus_per_node
        while free >= size:
            on_a_node, free = on_a_node + 1, free - size
        spanned, needed = 1, -(-layout.replicas // on_a_node)
    else:
        if size % layout.gpus_per_node:
            yield f"a replica of {size} GPUs does not fill nodes of {layout.gpus_per_node}"
        spanned = audit.nodes_spanned
        needed = layout.replicas * spanned
    if layout.nodes_per_replica != spanned:
        yield f"a replica of {size} GPUs lies on {spanned} nodes, not {layout.nodes_per_replica}"
    if layout.nodes != needed:
        what = f"{layout.replicas} replicas of {size} GPUs on nodes of {layout.gpus_per_node}"
        yield f"{what} take {needed} nodes, not {layout.nodes}"


def cost(audit: Audit) -> Iterator[str]:
    """The price is the catalog's less the user's discounts, and all money follows from it."""
    if audit.offers is not None:
        yield from _price(audit, [offer for offer in audit.offers if _is_of(audit, offer)])
    if audit.cost is not None:
        yield from _money(audit, audit.cost)


def _is_of(audit: Audit, offer: Offer) -> bool:
    names = ("provider", "region", "instance_type", "gpu", "term")
    return all(str(offer[name]) == getattr(audit.layout, name) for name in names)


def _price(audit: Audit, offers: list[Offer]) -> Iterator[str]:
    layout = audit.layout
    what = f"{layout.provider} {layout.region} {layout.instance_type} ({layout.gpu}, {layout.term})"
    if not offers:
        yield f"no offer of {what} in the catalog"
        return
    said = Decimal(str(layout.price_usd_per_node_hour))
    priced = [offer for offer in offers if abs(discounted(audit.scenario.prices, offer) - said) <= MICRO_DOLLAR]
    if not priced:
        asked = ", ".join(f"${discounted(audit.scenario.prices, offer):.6f}" for offer in offers)
        yield f"${said:.6f} a node hour of {what}, where the catalog with the user's discounts has {asked}"
        return
    problems = [list(facts(audit.layout, offer)) for offer in priced]
    if all(problems):
        yield from problems[0]


def discounted(prices: Prices, offer: Offer) -> Decimal:
    """Return the list price with every discount that matches taken off, one after another."""
    price = Decimal(str(offer["price_usd_per_node_hour"]))
    for terms in prices.discounts:
        named = {name: getattr(terms, name) for name in ("provider", "gpu", "instance_type", "term")}
        if all(value is None or str(offer[name]) == value for name, value in named.items()):
            price *= 1 - Decimal(str(terms.percent)) / 100
    return price


def facts(layout: Layout, offer: Offer) -> Iterator[str]:
    """Say where what a layout says of its node is not what the offer says."""
    said = {name: getattr(layout, name) for name in (*OFFER_FACTS, "network_gbit_per_s", "max_nodes")}
    said |= {"seen_on": layout.price_seen_on, "source": layout.price_source}
    for name, value in said.items():
        listed = offer[name]
        if name == "seen_on":
            listed = listed.date() if hasattr(listed, "date") else listed
        elif isinstance(listed, float) and isnan(listed):
            listed = None
        if value != listed:
            yield f"{name} is {value}, the offer says {listed}"


def _money(audit: Audit, said: Cost) -> Iterator[str]:
    hourly = audit.layout.nodes * Decimal(str(audit.layout.price_usd_per_node_hour))
    expected = {"usd_per_hour": float(hourly), "usd_per_month": float(hourly * HOURS_PER_MONTH)}
    predicted = audit.predicted
    if predicted is not None:
        expected["usd_per_million_output_tokens"] = _per_million(hourly, predicted.output_tokens_per_s)
        full = audit.layout.replicas * predicted.full_tokens_per_s
        expected["usd_per_million_output_tokens_at_saturation"] = _per_million(hourly, full)
    if said.usd_per_hour > 0:
        expected["gap"] = (said.usd_per_hour - said.bound_usd_per_hour) / said.usd_per_hour
    yield from _differences("cost", said, expected, SPEED_TOLERANCE if predicted is not None else TOLERANCE)
    if exceeds(said.bound_usd_per_hour, said.usd_per_hour):
        yield f"the bound ${said.bound_usd_per_hour:.6f} is above the cost ${said.usd_per_hour:.6f}"


def _per_million(usd_per_hour: Decimal, tokens_per_second: float) -> float:
    tokens_per_hour = Decimal(tokens_per_second) * 3600
    return float(usd_per_hour / tokens_per_hour * 1_000_000) if tokens_per_hour > 0 else float("inf")


def arithmetic(audit: Audit) -> Iterator[str]:
    """Every other figure adds up."""
    layout = audit.layout
    used, rented = layout.replicas * audit.gpus_per_replica, layout.nodes * layout.gpus_per_node
    if layout.gpus_used != used:
        yield f"{layout.replicas} replicas of {audit.gpus_per_replica} GPUs use {used} GPUs, not {layout.gpus_used}"
    if used > rented:
        yield f"{used} GPUs are used and {rented} rented"
    if audit.memory is not None and audit.gpu is not None:
        yield from _memory_adds_up(audit, audit.memory)
    if audit.performance is not None and audit.predicted is not None:
        yield from _speed_adds_up(audit, audit.performance)
    yield from _targets_agree(audit)


def _memory_adds_up(audit: Audit, said: MemoryUse) -> Iterator[str]:
    anew = memory_use(audit)
    names = ("weights_gib", "kv_cache_gib", "activations_gib", "overhead_gib", "need_gib", "available_gib")
    expected = {name: float(getattr(anew, name)) for name in names}
    expected["kv_tokens"] = anew.kv_tokens * audit.layout.attention_dp
    expected["context_tokens"] = audit.scenario.workload.held_tokens
    expected["gpu_memory_gib"] = audit.gpu.memory_gib if audit.gpu is not None else 0.0
    yield from _differences("memory", said, expected)
    parts = said.weights_gib + said.kv_cache_gib + said.activations_gib + said.overhead_gib
    if not close(parts, said.need_gib):
        yield f"memory parts add up to {parts:.4f} GiB, not {said.need_gib:.4f}"
    if abs(said.available_gib - said.need_gib - said.headroom_left_gib) > 1e-6 * said.available_gib:
        yield f"{said.available_gib:.4f} GiB less {said.need_gib:.4f} leave no {said.headroom_left_gib:.4f}"
    if said.policy != audit.scenario.memory.policy:
        yield f"memory is counted by the policy {said.policy}, {audit.scenario.memory.policy} was asked for"
    least = {
        "weights_gib": least_weight_bytes(audit.model, audit.split),
        "kv_cache_gib": audit.requests_per_rank
        * least_kv_bytes(audit.model, audit.split, audit.scenario.workload.held_tokens),
    }
    for name, floor in least.items():
        if exceeds(floor / GIB, getattr(said, name)):
            yield f"memory.{name} is {getattr(said, name):.4f}, less than the least there can be: {floor / GIB:.4f}"


def _speed_adds_up(audit: Audit, said: Performance) -> Iterator[str]:
    predicted, work = audit.predicted, audit.scenario.workload
    if predicted is None:
        return
    expected = {
        "ttft_ms": predicted.ttft_s * 1e3,
        "tpot_ms": predicted.tpot_s * 1e3,
        "e2e_ms": predicted.e2e_s * 1e3,
        "output_tokens_per_second": predicted.output_tokens_per_s,
        "requests_per_second": predicted.output_tokens_per_s / work.output_tokens,
        "requests_in_flight": predicted.in_flight,
        "utilization": predicted.utilization,
    }
    yield from _differences("performance", said, expected, SPEED_TOLERANCE)
    at_limit = {
        "concurrency": audit.layout.concurrency_per_replica,
        "output_tokens_per_second": predicted.full_tokens_per_s,
        "requests_per_second": predicted.full_tokens_per_s / work.output_tokens,
        "tpot_ms": predicted.full_tpot_s * 1e3,
    }
    yield from _differences("performance.saturation", said.saturation, at_limit, SPEED_TOLERANCE)
    for name in ("decode_from", "prefill_from"):
        if getattr(said, name) != getattr(predicted, name):
            yield f"performance.{name} is {getattr(said, name)}, not {getattr(predicted, name)}"
    for name in ("ttft", "tpot", "e2e"):
        value, low, high = (getattr(said, f"{name}_ms{end}") for end in ("", "_low", "_high"))
        if not low <= value <= high:
            yield f"performance.{name}_ms {value:.6g} lies outside its interval of {low:.6g} to {high:.6g}"
    for index, (name, levels) in enumerate(said.percentiles.items()):
        for level, figure in levels.items():
            value = predicted.at(level)[index] * 1e3
            if not close(figure, value, SPEED_TOLERANCE):
                yield f"performance.percentiles.{name}.{level} is {figure:.6g}, not {value:.6g}"
    whole = said.ttft_ms + (work.output_tokens - 1) * said.tpot_ms
    # The average over requests of a time per token is that of the tokens only where answers are of one length.
    if work.output_cv == 0.0 and not close(said.e2e_ms, whole):
        yield f"TTFT and {work.output_tokens - 1:,} more tokens take {whole:.3f} ms, not {said.e2e_ms:.3f}"
    step = sum(said.step_ms.values())
    # The loads that the step and the token are of come from two bisections.
    if work.output_tokens > 1 and exceeds(step, said.tpot_ms * (1 + 10 * SPEED_TOLERANCE)):
        yield f"a decode step of {step:.4f} ms is longer than a token's {said.tpot_ms:.4f} ms"


def _targets_agree(audit: Audit) -> Iterator[str]:
    """Targets are those of the question, against the predictions that are printed."""
    wanted = {name: getattr(audit.scenario.targets, f"{name}_ms") for name in ("ttft", "tpot", "e2e")}
    for target in audit.targets:
        if wanted.get(target.name) != target.target:
            yield f"target {target.name} is {target.target} {target.unit}, the question says {wanted.get(target.name)}"
        elif target.at != audit.scenario.targets.at:
            yield f"target {target.name} is held at {target.at}, the question asks for {audit.scenario.targets.at}"
        elif audit.performance is not None and target.predicted != audit.performance.latency_ms(target.name, target.at):
            yield f"target {target.name} is held against {target.predicted}, not against the prediction"
        if target.holds != (target.at_confidence <= target.target * (1 + TOLERANCE)):
            yield f"target {target.name}: {target.at_confidence} against {target.target} is called {target.holds}"
        if audit.predicted is not None:
            sure = target.predicted * getattr(audit.predicted, f"sure_{target.name}")
            if not close(target.at_confidence, sure, SPEED_TOLERANCE):
                yield f"target {target.name} is held against {target.at_confidence} at its confidence, not {sure}"


def _differences(what: str, said: object, expected: dict[str, float], tolerance: float = TOLERANCE) -> Iterator[str]:
    for name, value in expected.items():
        figure = float(getattr(said, name))
        if not close(figure, value, tolerance):
            yield f"{what}.{name} is {figure:.6g}, not {value:.6g}"
