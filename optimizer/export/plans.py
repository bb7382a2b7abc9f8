"""From a plan to what has to be started: one layout's replicas on its nodes."""

from __future__ import annotations

import sys
from pathlib import Path

from optimizer.answer_file import MAX_BYTES
from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, Nodes, Placement
from optimizer.export.engines.launch import launch
from optimizer.export.fallbacks import fallbacks, market_of
from optimizer.export.fleets import fleet_deployments
from optimizer.export.options import ExportOptions
from optimizer.export.placing import OnNode, place
from optimizer.export.replicas import Held, label_of, longest_request, replica_spec
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Layout, MemoryUse, Plan, TargetCheck
from optimizer.reoptimize.plans import parse_plan
from optimizer.scenario import Workload, build_scenario
from optimizer.split import Split
from optimizer.user_files import read_bounded
from optimizer.wording import dollars, milliseconds

STDIN = "-"


def read_plan_of(path: str) -> Plan | FleetPlan:
    """Read a plan that `solve --json` printed, from a file or, for "-", from standard input.

    Raises:
        QuestionError: it cannot be read, or is no plan.
    """
    expected = "what `solve --json` prints"
    if path != STDIN:
        return parse_plan(read_bounded(Path(path), MAX_BYTES, expected), path)
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise QuestionError(f"standard input: is larger than {MAX_BYTES:,} bytes; expected {expected}")
    return parse_plan(data, "standard input")


def deployments(plan: Plan | FleetPlan, options: ExportOptions | None = None) -> tuple[Deployment, ...]:
    """Return what a plan asks to be started.

    Args:
        plan: of one layout, or of a fleet.
        options: what the user says beside it.

    Raises:
        QuestionError: the plan has no layout, or its engine cannot run it.
        CatalogError: its model is not there.
    """
    options = options or ExportOptions()
    if isinstance(plan, FleetPlan):
        return fleet_deployments(plan, options)
    layout, memory = plan.layout, plan.memory
    if layout is None or memory is None:
        raise QuestionError(
            f"the plan is {plan.status} ({plan.summary}): there is nothing to start; "
            "`shardwise explain PLAN.json` says what it would take"
        )
    scenario = build_scenario({**plan.scenario, "prices": {**plan.scenario.get("prices", {}), "as_of": None}})
    name = options.name or label_of(scenario.model)
    spec = replica_spec(scenario.model, _held(layout, memory, scenario.workload), scenario.memory, options)
    nodes = _nodes(layout)
    market = market_of(scenario, plan.prices.as_of)
    others = fallbacks(
        market,
        nodes,
        nodes_per_replica=layout.nodes_per_replica,
        scale_up_gpus=layout.scale_up_gpus,
        most_usd_per_hour=scenario.limits.budget_usd_per_hour,
    )
    started = launch(spec, layout.gpu, port=options.port, image=options.image)
    placements = _placements(name, layout, spec.gpus_on_each_node, options.port)
    return (
        Deployment(
            name=name,
            replica=spec,
            launch=started,
            replicas=layout.replicas,
            nodes=nodes,
            fallbacks=others,
            context=_context(plan, market.problem),
            placements=placements,
        ),
    )


def _held(layout: Layout, memory: MemoryUse, workload: Workload) -> Held:
    return Held(
        split=Split(layout.weights, layout.kv_cache, layout.tp, layout.pp, layout.ep, layout.attention_dp),
        gpu=layout.gpu,
        nodes=layout.nodes_per_replica,
        concurrency=layout.concurrency_per_replica,
        context_tokens=memory.context_tokens,
        longest_tokens=_longest(workload),
        kv_tokens=memory.kv_tokens,
    )


def _longest(workload: Workload) -> int:
    if workload.context_tokens is not None:
        return workload.context_tokens
    return longest_request(workload.input_tokens, workload.output_tokens, workload.input_cv, workload.output_cv)


def _nodes(layout: Layout) -> Nodes:
    return Nodes(
        provider=layout.provider,
        region=layout.region,
        instance_type=layout.instance_type,
        term=layout.term,
        gpu=layout.gpu,
        gpus_per_node=layout.gpus_per_node,
        count=layout.nodes,
        price_usd_per_node_hour=layout.price_usd_per_node_hour,
        price_seen_on=layout.price_seen_on,
        fabric=layout.fabric,
        network=layout.network,
        network_gbit_per_s=layout.network_gbit_per_s,
    )


def _placements(name: str, layout: Layout, gpus_on_node: int, port: int) -> tuple[Placement, ...]:
    """Fill nodes one after the other, as they are counted; a last one may hold fewer replicas."""
    if layout.nodes_per_replica > 1:
        return (place(name, layout.replicas, {name: OnNode(1, gpus_on_node)}, port)[name],)
    each = layout.gpus_per_node // gpus_on_node
    full, rest = divmod(layout.replicas, each)
    found = [place(name, full, {name: OnNode(each, gpus_on_node)}, port)[name]] if full else []
    if rest:
        group = f"{name}-last" if full else name
        found.append(place(group, 1, {name: OnNode(rest, gpus_on_node)}, port)[name])
    return tuple(found)


def _context(plan: Plan, no_fallbacks: str) -> tuple[str, ...]:
    lines = [f"shardwise {plan.shardwise_version}: {plan.summary}"]
    if plan.cost is not None:
        seen = f", price seen on {plan.prices.seen_on}" if plan.prices.seen_on else ""
        lines.append(f"{dollars(plan.cost.usd_per_hour)}/hour, {dollars(plan.cost.usd_per_month)}/month{seen}")
    lines += [_target_words(one) for one in plan.targets]
    if no_fallbacks:
        lines.append(f"no fallbacks: {no_fallbacks}")
    return tuple(lines)


def _target_words(one: TargetCheck) -> str:
    if one.unit == "ms":
        asked, predicted = milliseconds(one.target), milliseconds(one.predicted)
    else:
        asked, predicted = f"{one.target:,.4g} {one.unit}", f"{one.predicted:,.4g} {one.unit}"
    return f"{one.name.upper()} target {asked} ({one.at}), predicted {predicted}"
