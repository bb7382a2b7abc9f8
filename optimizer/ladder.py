"""The four-step ladder that explains an answer: add it up, inside a node, between nodes, price it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from optimizer.answer import Answer
from optimizer.capacity import least_memory_share
from optimizer.performance.backends.choose import speed_backend
from optimizer.plan import LadderStep, Layout
from optimizer.wording import node_words, rate

if TYPE_CHECKING:
    from optimizer.solve import Problem

GIB = 2**30


def explain_ladder(problem: Problem, row: pd.Series, best: Answer, second: Answer | None) -> tuple[LadderStep, ...]:
    """Return the four steps that people reason in, with this answer's numbers.

    Args:
        problem: the question and what it is answered from.
        row: the choice taken (a row of Choices.frame).
        best: its answer.
        second: the cheapest answer on another GPU type; None where there is none.
    """
    return (
        LadderStep(title="1. Add it up", lines=_add_up(problem, best)),
        LadderStep(title="2. Inside a node", lines=_inside_node(problem, best)),
        LadderStep(title="3. Between nodes", lines=_between_nodes(problem, row, best.layout)),
        LadderStep(title="4. Price it", lines=_price_it(problem, best, second)),
    )


def _add_up(problem: Problem, best: Answer) -> tuple[str, ...]:
    memory, layout, model = best.memory, best.layout, problem.model
    tokens = problem.scenario.workload.held_tokens
    weights = model.weight_bytes(layout.weights) / GIB
    per_request = model.kv_bytes_per_token(layout.kv_cache) * tokens / GIB
    lines = [
        f"{model.name} in {layout.weights} holds {weights:,.1f} GiB of weights; one request of {tokens:,} tokens holds "
        f"up to {per_request:,.2f} GiB of KV cache in {layout.kv_cache}."
    ]
    frame = problem.candidates.frame
    alone = frame[(frame["gpu"] == layout.gpu) & (frame["gpus"] == 1) & (frame["weights"] == layout.weights)]
    if not alone.empty:
        share = float(least_memory_share(alone, problem.scenario.memory).min())
        verdict = "one GPU holds it" if share <= 1 else "one GPU does not hold it"
        lines.append(
            f"On a single {layout.gpu} ({memory.gpu_memory_gib:.1f} GiB) one request needs {share:.0%} of the memory "
            f"that the {memory.policy} policy allows: {verdict}."
        )
    lines.append(
        f"With {layout.concurrency_per_replica} requests at once each GPU of a replica needs {memory.need_gib:.1f} of "
        f"{memory.available_gib:.1f} GiB."
    )
    return tuple(lines)


def _inside_node(problem: Problem, best: Answer) -> tuple[str, ...]:
    layout, step = best.layout, best.performance.step_ms
    stage_gpus = layout.tp * layout.attention_dp
    if stage_gpus == 1:
        return ("One GPU per stage: no all-reduce, nothing to synchronize.",)
    layers, total, spent = len(problem.model.layers), sum(step.values()), step.get("all_reduce", 0.0)
    return (
        f"{stage_gpus} GPUs share each layer over {_link(layout, stage_gpus)}.",
        f"{2 * layers} all-reduces a forward pass ({layers} layers x 2) take {spent:.2f} ms of a {total:.2f} ms decode "
        f"step ({spent / total:.0%}), {spent / (2 * layers) * 1e3:.1f} us each.",
    )


def _link(layout: Layout, stage_gpus: int) -> str:
    if stage_gpus > layout.gpus_per_node:
        return f"the network ({layout.network})"
    return f"one scale-up domain ({layout.fabric})" if stage_gpus <= layout.scale_up_gpus else "PCIe inside the node"


def _between_nodes(problem: Problem, row: pd.Series, layout: Layout) -> tuple[str, ...]:
    if layout.nodes_per_replica > 1:
        return (
            f"A replica spans {layout.nodes_per_replica} nodes over {layout.network} at {layout.network_gbit_per_s:g} "
            f"Gbit/s, split there by its {layout.pp} pipeline stages, which {layout.concurrency_per_replica} requests "
            "at once keep busy.",
            _tensor_parallel_across(problem, layout.tp * layout.pp * layout.attention_dp, row),
        )
    if layout.replicas > 1:
        return (f"{layout.replicas} independent replicas (data parallel): nothing crosses between them.",)
    return ("One replica inside one node: nothing crosses the network.",)


def _tensor_parallel_across(problem: Problem, gpus: int, row: pd.Series) -> str:
    """Say what tensor parallelism over the network would have cost instead."""
    rows = problem.candidates.frame.iloc[[int(row["candidate"])] * 2].reset_index(drop=True)
    rows.loc[1, ["tp", "pp", "ep", "attention_dp"]] = [gpus, 1, 1, 1]
    work = problem.scenario.workload
    speed = speed_backend(problem.model, rows, problem.scenario.performance)
    step = speed.decode_step_seconds(1.0, work.context_in_flight) * 1e3
    instead = f"Tensor parallel over all {gpus} GPUs instead would take {step[1]:.0f} ms a step"
    return f"{instead} against {step[0]:.0f} ms, for one request."


def _price_it(problem: Problem, best: Answer, second: Answer | None) -> tuple[str, ...]:
    layout = best.layout
    lines = [
        f"${layout.price_usd_per_node_hour:,.2f} per node-hour x {layout.nodes} = ${best.cost.usd_per_hour:,.2f}/h for "
        f"{rate(problem.scenario)}: {_per_million(best)}."
    ]
    if second is not None:
        gpus = node_words(second.layout.nodes, second.layout.gpus_per_node, second.layout.gpu)
        lines.append(f"The cheapest on another GPU, {gpus}: {_per_million(second)}.")
    return tuple(lines)


def _per_million(answer: Answer) -> str:
    cost = answer.cost
    return (
        f"${cost.usd_per_million_output_tokens:,.2f} per million output tokens at this traffic, "
        f"${cost.usd_per_million_output_tokens_at_saturation:,.2f} with every replica full"
    )
