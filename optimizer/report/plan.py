"""A Plan as tables: the answer first, then what it stands on, then what else there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding

from optimizer.plan import Alternative, Plan, TargetCheck
from optimizer.report.text import (
    age_words,
    amount_of,
    bullet,
    bullet_of_items,
    calibration_words,
    count,
    dollars,
    heading,
    make_console,
    make_table,
    milliseconds,
    offers_words,
    packed,
    proof_words,
    share,
    sources_words,
    speed_basis,
    step_words,
)
from optimizer.rules import get_rule
from optimizer.wording import LATENCY_NAMES

TAIL = "p95"  # the percentile that a target on the mean is held against as well
MOST_ALTERNATIVES = 12
FIGURE = re.compile(r"(?<![\w.$-])\d[\d,.]*(?:e[+-]?\d+)?(?:%| ms)?(?!\w)")


def print_plan(plan: Plan, *, explain: bool = False, console: Console | None = None) -> None:
    """Print an answer.

    Args:
        plan: the answer.
        explain: show the four-step ladder as well.
        console: where to print; the terminal when not given.
    """
    out = console or make_console()
    if plan.layout is None:
        _print_infeasible(out, plan)
        _print_calibration(out, plan)
    else:
        _print_answer(out, plan)
        if explain:
            _print_ladder(out, plan)
    _print_ruled_out(out, plan)
    _print_speed_sources(out, plan)
    _print_prices(out, plan)


def _print_answer(out: Console, plan: Plan) -> None:
    if plan.layout is None or plan.cost is None:
        return
    cost, layout = plan.cost, plan.layout
    out.print(f"{plan.status.upper()}  {plan.summary}", style="bold green")
    idle = layout.nodes * layout.gpus_per_node - layout.gpus_used
    out.print(
        f"{dollars(cost.usd_per_hour)}/hour, {dollars(cost.usd_per_month)}/month\n"
        f"{dollars(cost.usd_per_million_output_tokens)} per million output tokens at this traffic, "
        f"{dollars(cost.usd_per_million_output_tokens_at_saturation)} at saturation"
    )
    out.print(proof_words(plan.status, cost.bound_usd_per_hour, cost.gap))
    if idle:
        out.print(f"{idle} of the {layout.nodes * layout.gpus_per_node} rented GPUs stay idle.")
    _print_memory(out, plan)
    _print_performance(out, plan)
    _print_alternatives(out, plan.alternatives)
    _print_cheaper(out, plan)


def _print_memory(out: Console, plan: Plan) -> None:
    memory, layout = plan.memory, plan.layout
    if memory is None or layout is None:
        return
    heading(
        out,
        f"Memory per GPU, GiB ({memory.policy} policy, fullest GPU, "
        f"{amount_of(layout.concurrency_per_replica, 'request')} of {memory.context_tokens:,} tokens)",
    )
    table = make_table(
        *((name, "right") for name in ("weights", "KV cache", "activations", "overhead", "need", "available", "left"))
    )
    table.add_row(
        *(
            f"{value:.1f}"
            for value in (
                memory.weights_gib,
                memory.kv_cache_gib,
                memory.activations_gib,
                memory.overhead_gib,
                memory.need_gib,
                memory.available_gib,
                memory.headroom_left_gib,
            )
        )
    )
    out.print(table)
    out.print(
        f"The driver reports {memory.gpu_memory_gib:.1f} GiB. "
        f"A replica's KV cache can hold {memory.kv_tokens:,} tokens."
    )


def _print_performance(out: Console, plan: Plan) -> None:
    performance = plan.performance
    if performance is None or plan.layout is None:
        return
    targets = {target.name: target for target in plan.targets}
    at = plan.targets[0].at if plan.targets else "mean"
    heading(out, f"Predicted performance at this traffic (means{'' if at == 'mean' else f'; targets at {at}'})")
    table = make_table(
        ("", "left"), ("predicted", "right"), ("80% of runs", "right"), ("target", "right"), ("", "left")
    )
    for name, label in LATENCY_NAMES.items():
        target = targets.get(name)
        at = target.at if target is not None else "mean"
        mean, low, high = (getattr(performance, f"{name}_ms{end}") for end in ("", "_low", "_high"))
        value = performance.latency_ms(name, at)
        factor = value / mean if mean > 0.0 else 1.0
        asked = milliseconds(target.target) if target else "-"
        between = f"{milliseconds(low * factor)} - {milliseconds(high * factor)}"
        row = f"{label}, {at}" if at != "mean" else label
        table.add_row(row, milliseconds(value), between, asked, _verdict(target, _over_at_tail(plan, target)))
    table.add_row("output tokens/s", count(performance.output_tokens_per_second), "", "-", "")
    table.add_row("requests/s", count(performance.requests_per_second), "", "-", "")
    table.add_row("utilization", share(performance.utilization), "", "-", "")
    out.print(table)
    _print_percentiles(out, plan)
    _print_tail(out, plan)
    in_flight = max(performance.requests_in_flight, 1.0)  # a step that runs has a request to run
    step = step_words(performance.step_ms)
    out.print(f"One decode step at {in_flight:.1f} requests in flight per replica, ms: {step}.")
    out.print(speed_basis(performance.basis, performance.error_band))
    _print_calibration(out, plan)
    if said := sources_words(performance.decode_from, performance.prefill_from):
        out.print(said)


def _print_calibration(out: Console, plan: Plan) -> None:
    if plan.calibration is not None:
        out.print(calibration_words(plan.calibration))


def _verdict(target: TargetCheck | None, over_at_tail: bool) -> str:
    """Say whether a target holds, on the mean alone or not, and how surely where its interval reaches over it."""
    if target is None:
        return ""
    said = "holds" if target.holds else "MISSED"
    said += " on mean" if target.holds and over_at_tail else ""
    return f"{said}, a close call: {target.probability:.0%} sure" if target.close_call else said


def _over_at_tail(plan: Plan, target: TargetCheck | None) -> bool:
    """Whether a target that is on the mean is missed by more than one request in twenty."""
    if target is None or target.at != "mean" or plan.performance is None:
        return False
    tail = plan.performance.percentiles.get(target.name, {}).get(TAIL)
    return tail is not None and tail > target.target


def _print_tail(out: Console, plan: Plan) -> None:
    """Say which flags ask for more, where a target is a close call, or holds on the mean and not for slow requests."""
    if plan.performance is None:
        return
    over = [
        f"{target.name.upper()} {milliseconds(plan.performance.latency_ms(target.name, TAIL))} against "
        f"{milliseconds(target.target)}"
        for target in plan.targets
        if _over_at_tail(plan, target)
    ]
    if any(target.close_call for target in plan.targets) and plan.scenario["targets"]["confidence"] is None:
        out.print("A target that has to hold for sure: --confidence 0.9 asks for nine in ten.")
    if over:
        out.print(
            f"Targets are on means, and {TAIL} is over: {', '.join(over)}. For targets at {TAIL}: --at {TAIL} "
            f"(targets.at in a file).",
            style="yellow",
        )


def _print_percentiles(out: Console, plan: Plan) -> None:
    """One line a latency, and what the percentiles take requests to be like."""
    performance = plan.performance
    if performance is None or not performance.percentiles:
        return
    levels = list(next(iter(performance.percentiles.values())))
    said = [
        f"{name.upper()} {' / '.join(milliseconds(value) for value in performance.percentiles[name].values())}"
        for name in LATENCY_NAMES
    ]
    out.print(f"{' / '.join(levels)}: {', '.join(said)}.")
    work = plan.scenario["workload"]
    if not work["input_cv"] and not work["output_cv"]:
        out.print("All requests are taken to be of one length; --input-cv 1 --output-cv 1 is more like chat.")


def _print_alternatives(out: Console, alternatives: tuple[Alternative, ...]) -> None:
    priced = [one for one in alternatives if one.usd_per_hour is not None]
    if priced:
        heading(out, "Cheapest on each other GPU ($/M: per million output tokens at saturation)")
        table = make_table(
            ("$/hour", "right"), ("more", "right"), ("$/M", "right"), ("layout, and why it is not the answer", "left")
        )
        for one in priced[:MOST_ALTERNATIVES]:
            table.add_row(
                dollars(one.usd_per_hour),
                f"+{dollars(one.extra_usd_per_hour)}",
                dollars(one.usd_per_million_output_tokens_at_saturation),
                f"{one.summary}\n- {one.why}",
            )
        out.print(table)
        dearer = priced[MOST_ALTERNATIVES:]
        if dearer:
            out.print("Dearer still, $/hour (--json has their layouts and reasons):")
            packed(out, (f"{one.gpu} {dollars(one.usd_per_hour)}" for one in dearer), indent=2)
    print_gpus_without_layout(out, [one for one in alternatives if one.usd_per_hour is None])


def print_gpus_without_layout(out: Console, rest: Sequence[Alternative]) -> None:
    """Print the GPUs that have no layout, those of one reason together, each with its own figure."""
    if not rest:
        return
    heading(out, "No layout on")
    groups: dict[str, list[tuple[str, str]]] = {}
    for one in rest:
        found = FIGURE.search(one.why)
        reason = FIGURE.sub("...", one.why, count=1) if found else one.why
        groups.setdefault(reason, []).append((one.gpu, found.group() if found else ""))
    for reason, members in groups.items():
        figures = {figure for _, figure in members}
        if len(figures) == 1:
            bullet_of_items(out, reason.replace("...", figures.pop(), 1), [gpu for gpu, _ in members])
        else:
            bullet_of_items(out, reason, [f"{gpu} {figure}" for gpu, figure in members])


def _print_cheaper(out: Console, plan: Plan) -> None:
    if not plan.cheaper_if:
        return
    heading(out, "It would be cheaper with")
    for one in plan.cheaper_if:
        saves = f"{dollars(one.usd_per_hour)}/hour, saves {dollars(one.saving_usd_per_hour)}"
        bullet(out, f"{one.change} ({one.flag}): {saves}", one.summary)


def _print_ladder(out: Console, plan: Plan) -> None:
    heading(out, "How one gets there")
    for step in plan.explanation:
        out.print(step.title, style="bold")
        for line in step.lines:
            out.print(Padding(line, (0, 0, 0, 3)))


def _print_infeasible(out: Console, plan: Plan) -> None:
    out.print(f"INFEASIBLE  {plan.summary}", style="bold red")
    heading(out, "These rules cannot hold together")
    table = make_table(("rule", "left"), ("what it asks", "left"), ("here", "left"))
    for conflict in plan.conflict:
        table.add_row(conflict.rule, conflict.meaning, conflict.needs)
    out.print(table)
    if plan.nearest_misses:
        heading(out, "Nearest misses")
        table = make_table(("$/hour", "right"), ("layout, and what it breaks", "left"))
        for miss in plan.nearest_misses:
            breaks = "".join(f"\n- {name}: {said}" for name, said in miss.breaks.items())
            table.add_row(dollars(miss.usd_per_hour), f"{miss.summary}{breaks}")
        out.print(table)
    if plan.least_changes:
        heading(out, "The least change that would do")
        for change in plan.least_changes:
            bullet(out, f"{change.change} ({change.flag}): {dollars(change.usd_per_hour)}/hour", change.summary)


def _print_ruled_out(out: Console, plan: Plan) -> None:
    if not plan.ruled_out:
        return
    total = sum(plan.ruled_out.values())
    heading(out, f"Ruled out: {total:,} of {plan.solver.candidates:,} candidates, each under the first rule it breaks")
    table = make_table(("rule", "left"), ("count", "right"), ("what it asks", "left"))
    for name, amount in plan.ruled_out.items():
        table.add_row(name, f"{amount:,}", get_rule(name).meaning)
    out.print(table)


def _print_speed_sources(out: Console, plan: Plan) -> None:
    """Print which backend has figures of how many candidates, where another one than our own was asked for."""
    speed = plan.speed
    if speed.backend == "roofline" and speed.table is None:
        return
    heading(out, "Where speed figures come from" + (f" ({speed.backend})" if speed.backend != "roofline" else ""))
    table = make_table(("candidates", "right"), ("figures of their replica", "left"))
    names = {"roofline": "our own model", "table": f"your table {speed.table}"}
    for name, amount in speed.candidates.items():
        table.add_row(f"{amount:,}", names.get(name, name))
    for reason, amount in speed.not_covered.items():
        table.add_row(f"{amount:,}", f"- not by aiconfigurator: {reason}")
    out.print(table)


def _print_prices(out: Console, plan: Plan) -> None:
    prices = plan.prices
    heading(out, "Prices")
    out.print(f"{offers_words(prices)} Price {age_words(prices)}.")
    if plan.layout is not None:
        source = prices.sources.get(plan.layout.price_source, plan.layout.price_source)
        out.print(f"Source: {source}")
    for warning in plan.warnings:
        out.print(f"Warning: {warning}", style="yellow")
