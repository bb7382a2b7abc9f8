"""The sections of a report of one layout."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.plan import Cost, Layout, Plan
from optimizer.report.document.html import Markup, Piece, bullets, drawing, facts, section, table, tag
from optimizer.report.document.launch import launch_section
from optimizer.report.document.parts import (
    conflict_section,
    memory_assumption,
    price_section,
    proof_line,
    proof_section,
    speed_assumptions,
    tiles,
    warnings,
)
from optimizer.report.document.question import limit_rows, reproduce_section, target_words, traffic_words
from optimizer.report.document.reasons import (
    alternatives_section,
    cheaper_section,
    ladder_section,
    least_changes_section,
    nearest_misses_section,
    ruled_out_section,
)
from optimizer.report.drawings import draw_latency, draw_layout, draw_memory
from optimizer.report.drawings.latency import Latency, latencies
from optimizer.report.drawings.layout_words import fabric_words, network_words
from optimizer.report.drawings.places import shape_of
from optimizer.report.text import amount_of, count, dollars, milliseconds, share, sources_words, step_words
from optimizer.wording import node_words, place_words, split_words, unmeasured_words

INFEASIBLE = "Infeasible, proved: the rules above cannot hold together for any layout in the catalog."


def answer_title(plan: Plan) -> str:
    """Say the answer in one sentence."""
    model = str(plan.scenario["model"]).rpartition("/")[2]
    if plan.layout is None or plan.cost is None:
        return f"{model}: no layout in the catalog keeps every rule"
    what = node_words(plan.layout.nodes, plan.layout.gpus_per_node, plan.layout.gpu)
    costs = f"{dollars(plan.cost.usd_per_hour)} an hour ({dollars(plan.cost.usd_per_month, 0)} a month)"
    return f"{model} runs for {costs} on {what} at {plan.layout.provider}"


def answer_sections(plan: Plan) -> Iterator[Piece]:
    """Return the sections of a report, feasible or not."""
    if plan.layout is None or plan.cost is None:
        yield tag("p", f"Asked was {traffic_words(plan.scenario['workload'])}, with "
                       f"{target_words(plan.scenario['targets'])}.")  # fmt: skip
        yield from warnings(plan.warnings)
        yield conflict_section(plan.conflict)
        yield least_changes_section(plan)
        yield nearest_misses_section(plan)
        yield _asked(plan)
    else:
        yield _lead(plan, plan.layout, plan.cost)
        yield from warnings(plan.warnings)
        yield _asked(plan)
        yield _layout(plan.layout)
        yield _memory(plan)
        yield _latency(plan)
        yield alternatives_section(plan, plan.layout, plan.cost)
        yield cheaper_section(plan)
        yield ladder_section(plan)
    yield ruled_out_section(plan)
    yield _assumptions(plan)
    layout = plan.layout
    used = (
        [] if layout is None else [(place_words(layout.model_dump()), str(layout.price_seen_on), layout.price_source)]
    )
    yield price_section(plan.prices, used)
    yield proof_section(plan, "layout", INFEASIBLE)
    yield launch_section(plan)
    yield reproduce_section(plan)


def _lead(plan: Plan, layout: Layout, cost: Cost) -> Piece:
    held = [target for target in plan.targets if target.holds]
    asked = f" and meets {'its target' if len(held) == 1 else f'all {len(held)} targets'}" if held else ""
    split = split_words(layout)
    sentence = (
        f"{amount_of(layout.replicas, 'replica')} in {split} ({place_words(layout.model_dump())}) "
        f"{'carries' if layout.replicas == 1 else 'carry'} {traffic_words(plan.scenario['workload'])}{asked}. "
    )
    return (
        tag("p", sentence, proof_line(plan, "layout")),
        tiles(
            [
                (f"{dollars(cost.usd_per_hour)}", "an hour"),
                (f"{dollars(cost.usd_per_month, 0)}", "a month of 730 hours"),
                (dollars(cost.usd_per_million_output_tokens), "per million output tokens at this traffic"),
                (dollars(cost.usd_per_million_output_tokens_at_saturation), "per million output tokens when full"),
            ]
        ),
    )


def _asked(plan: Plan) -> Markup:
    scenario = plan.scenario
    rows: list[tuple[str, Piece]] = [("model", str(scenario["model"]))]
    rows += [("for", str(scenario["description"]))] if scenario.get("description") else []
    rows += [("traffic", traffic_words(scenario["workload"])), ("targets", target_words(scenario["targets"]))]
    rows += limit_rows(plan)
    return section("What was asked", facts(rows))


def _layout(layout: Layout) -> Markup:
    shape = shape_of(layout)
    gpus = amount_of(layout.tp * layout.pp * layout.attention_dp, "GPU")
    at_once = amount_of(layout.concurrency_per_replica, "request")
    idle = layout.nodes * layout.gpus_per_node - layout.gpus_used
    rows: list[tuple[str, Piece]] = [
        ("rented", f"{node_words(layout.nodes, layout.gpus_per_node, layout.gpu)}, {layout.term}"),
        ("from", f"{layout.provider}, {layout.region}: {layout.instance_type}"),
        ("price", f"{dollars(layout.price_usd_per_node_hour)} per node and hour"),
        ("precision", f"{layout.weights} weights, {layout.kv_cache} KV cache"),
        ("split of a replica", _split_words(layout)),
        ("replicas", f"{layout.replicas:,}, each of {gpus} and up to {at_once} at once"),
    ]
    rows += [("inside a node", fabric_words(shape))] if layout.gpus_per_node > 1 else []
    rows += [("network", network_words(shape))] if layout.nodes > 1 else []
    rows += [("idle", f"{amount_of(idle, 'GPU')} rented and not used")] if idle else []
    return section("The layout", drawing(lambda width: draw_layout(layout, width=width)), facts(rows))


def _split_words(layout: Layout) -> str:
    sizes = (
        ("tensor parallel", layout.tp),
        ("pipeline stages", layout.pp),
        ("expert parallel", layout.ep),
        ("attention data parallel", layout.attention_dp),
    )
    return ", ".join(f"{name} {size}" for name, size in sizes if size > 1) or "a replica on one GPU"


def _memory(plan: Plan) -> Piece:
    memory, layout = plan.memory, plan.layout
    if memory is None or layout is None:
        return ()
    full = f"{amount_of(layout.concurrency_per_replica, 'request')} of {memory.context_tokens:,} tokens"
    caption = f"With {full} at once; a replica's KV cache can hold {memory.kv_tokens:,} tokens in all."
    return section("Memory of the fullest GPU", drawing(lambda width: draw_memory(memory, width=width), caption))


def _latency(plan: Plan) -> Piece:
    performance = plan.performance
    if performance is None:
        return ()
    levels = list(next(iter(performance.percentiles.values()), {}))
    heads = ("", "predicted", "80% of runs", "target", *levels)
    rows = [_latency_row(plan, row, levels) for row in latencies(performance, plan.targets)]
    rates = count(performance.output_tokens_per_second), count(performance.requests_per_second)
    carried, used = f"{rates[0]} output tokens/s and {rates[1]} requests/s", share(performance.utilization)
    step = step_words(performance.step_ms)
    return section(
        "Predicted latency against targets",
        drawing(lambda width: draw_latency(performance, plan.targets, width=width)),
        table(heads, rows, right=range(1, len(heads))),
        tag("p", f"{carried}; {used} of capacity is used. One decode step, ms: {step}.", class_="note"),
    )


def _latency_row(plan: Plan, row: Latency, levels: list[str]) -> list[Piece]:
    asked = "-" if row.target is None else f"{milliseconds(row.target.target)}, {row.verdict}"
    found = plan.performance.percentiles.get(row.name, {}) if plan.performance is not None else {}
    values = [milliseconds(found.get(level)) for level in levels]
    return [
        row.name.upper() if row.at == "mean" else f"{row.name.upper()}, {row.at}",
        milliseconds(row.predicted),
        f"{milliseconds(row.low)} - {milliseconds(row.high)}",
        asked,
        *values,
    ]


def _assumptions(plan: Plan) -> Markup:
    said = [memory_assumption(plan.scenario["memory"])]
    performance = plan.performance
    if performance is not None:
        said += speed_assumptions({(performance.basis, performance.error_band): ()}, plan.calibration)
        said += [sources_words(performance.decode_from, performance.prefill_from)]
    if plan.layout is not None and (words := unmeasured_words(plan.layout)):
        said.append(f"Measured runs say next to nothing of {words}: expect wider errors there.")
    workload = plan.scenario["workload"]
    if not workload.get("input_cv") and not workload.get("output_cv"):
        said.append("All requests are taken to be of one length.")
    if plan.targets and plan.targets[0].at == "mean":
        said.append("Targets are held on means; slower requests are in the percentiles above.")
    return section("Assumptions", bullets(one for one in said if one))
