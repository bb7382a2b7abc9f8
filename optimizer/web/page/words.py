"""What the page says in words: pure functions from answers to sentences and cells of tables."""

from __future__ import annotations

from optimizer.plan import Alternative, Plan
from optimizer.report.text import (
    age_words,
    amount_of,
    calibration_words,
    dollars,
    milliseconds,
    offers_words,
    proof_words,
    share,
    sources_words,
    speed_basis,
)
from optimizer.rules import get_rule
from optimizer.whatif.shock_answer import Shock

Row = tuple[str, ...]
ALTERNATIVE_COLUMNS = (
    ("GPU", "left"),
    ("$/hour", "right"),
    ("more", "right"),
    ("$/M at saturation", "right"),
    ("TTFT", "right"),
    ("TPOT", "right"),
    ("why it is not the answer", "left"),
)
_SORTED_BY = ("gpu", "usd_per_hour", "extra_usd_per_hour", "usd_per_million_output_tokens_at_saturation", "ttft_ms",
              "tpot_ms", "why")  # fmt: skip


def headline(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the figures at the top: (name, number, what stands below it)."""
    cost = plan.cost
    if cost is None:
        return []
    return [
        ("Cost per hour", dollars(cost.usd_per_hour), f"{dollars(cost.usd_per_month)} a month of 730 h"),
        ("Per million output tokens", dollars(cost.usd_per_million_output_tokens), "at this traffic"),
        (
            "At saturation",
            dollars(cost.usd_per_million_output_tokens_at_saturation),
            "per million output tokens, every replica full",
        ),
    ]


def proof(plan: Plan) -> str:
    """Say what is proved of the answer."""
    if plan.cost is None:
        return ""
    looked = f"{plan.solver.candidates:,} candidates looked at"
    return proof_words(plan.status, plan.cost.bound_usd_per_hour, plan.cost.gap, besides=looked)


def price_lines(plan: Plan) -> list[str]:
    """Say which prices the answer stands on, and how old they are."""
    prices = plan.prices
    lines = [f"Price {age_words(prices)}. {offers_words(prices)}"]
    if plan.layout is not None:
        lines.append(f"Source: {prices.sources.get(plan.layout.price_source, plan.layout.price_source)}")
    return lines


def performance_lines(plan: Plan) -> list[str]:
    """Say what stands beside the latencies."""
    performance = plan.performance
    if performance is None:
        return []
    lines = [
        f"{performance.output_tokens_per_second:,.0f} output tokens/s at {performance.requests_per_second:,.3g} "
        f"requests/s; utilization {share(performance.utilization)}; "
        f"{performance.requests_in_flight:,.1f} requests in flight per replica."
    ]
    for name, levels in performance.percentiles.items():
        if name == "ttft":
            lines.append(f"TTFT {_levels(levels)}.")
    lines.append(speed_basis(performance.basis, performance.error_band))
    lines += [said for said in (sources_words(performance.decode_from, performance.prefill_from),) if said]
    lines += [said for said in (calibration_words(plan.calibration),) if said]
    return lines


def _levels(levels: dict[str, float]) -> str:
    return ", ".join(f"{level} {milliseconds(value)}" for level, value in levels.items())


def memory_line(plan: Plan) -> str:
    """Say what the memory bar is of."""
    memory, layout = plan.memory, plan.layout
    if memory is None or layout is None:
        return ""
    return (
        f"Fullest GPU with {amount_of(layout.concurrency_per_replica, 'request')} of {memory.context_tokens:,} tokens "
        f"on each replica, {memory.policy} policy. A replica's KV cache can hold {memory.kv_tokens:,} tokens."
    )


def ruled_out_rows(plan: Plan) -> list[Row]:
    """Return (rule, count, what it asks) of what was ruled out."""
    return [(name, f"{amount:,}", get_rule(name).meaning) for name, amount in plan.ruled_out.items()]


def sorted_alternatives(found: tuple[Alternative, ...], column: int, *, down: bool) -> list[Alternative]:
    """Return alternatives in the order of a column of ALTERNATIVE_COLUMNS; those without a figure come last."""
    key = _SORTED_BY[column]
    known = [one for one in found if getattr(one, key) is not None]
    rest = [one for one in found if getattr(one, key) is None]
    return [*sorted(known, key=lambda one: getattr(one, key), reverse=down), *rest]


def alternative_row(one: Alternative) -> Row:
    """Return the cells of an alternative."""
    more = "-" if one.extra_usd_per_hour is None else f"+{dollars(one.extra_usd_per_hour)}"
    return (
        one.gpu,
        dollars(one.usd_per_hour),
        more,
        dollars(one.usd_per_million_output_tokens_at_saturation),
        milliseconds(one.ttft_ms),
        milliseconds(one.tpot_ms),
        one.why if one.usd_per_hour is None else f"{one.summary}. {one.why}",
    )


def shock_lines(shock: Shock) -> list[str]:
    """Say what staying would cost once prices have changed, and from which change on another layout is the answer."""
    lines = []
    staying, tipping = shock.staying, shock.tipping
    if staying is not None and staying.usd_per_hour is not None and staying.extra_usd_per_hour:
        lines.append(
            f"Keeping the layout would cost {dollars(staying.usd_per_hour)}/hour then, "
            f"{dollars(staying.extra_usd_per_hour)} more than moving."
        )
    if tipping is not None:
        change = tipping.change
        lines.append(tipping.why if change is None else f"Another layout is the answer from {change:+.1%} on.")
    return [line for line in lines if line]


def difference(base: Plan, other: Plan) -> tuple[str, str]:
    """Say how an answer differs from the base: in cost, and in layout."""
    if other.cost is None:
        asks = "; ".join(f"{one.meaning}: {one.needs}" for one in other.conflict)
        return "No layout keeps every rule then.", asks
    if base.cost is None or base.layout is None or other.layout is None:
        return f"{dollars(other.cost.usd_per_hour)}/hour", other.summary
    before, after = base.cost.usd_per_hour, other.cost.usd_per_hour
    change = after - before
    said = f"{dollars(after)}/hour"
    if abs(change) < 0.005:
        said += ", as before"
    else:
        sign = "+" if change > 0 else "-"
        said += f": {sign}{dollars(abs(change))} ({change / before:+.0%}) against {dollars(before)}/hour"
    if base.summary == other.summary:
        return f"{said}.", f"The layout stays: {other.summary}."
    return f"{said}.", f"The layout changes to {other.summary}."
