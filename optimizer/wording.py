"""How layouts and traffic are said in one line; the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pandas as pd

from optimizer.plan import HOURS_PER_MONTH, Layout
from optimizer.scenario import Memory, Scenario
from optimizer.split import Split

LATENCY_NAMES = {"ttft": "time to first token", "tpot": "time per output token", "e2e": "end to end"}
_UNITS = {
    "request_rate": "requests/s",
    "concurrency": "requests in flight",
    "output_tokens_per_second": "output tokens/s",
}


def rate(scenario: Scenario) -> str:
    """Say how much traffic there is, to the last digit."""
    return _of_traffic(scenario, f"{scenario.workload.demand:,.12g}")


def rate_words(scenario: Scenario, amount: float) -> str:
    """Say an amount of traffic of the scenario's kind, to three digits or whole."""
    return _of_traffic(scenario, f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}")


def _of_traffic(scenario: Scenario, said: str) -> str:
    unit = _UNITS[scenario.workload.kind]
    return f"{said} {unit.replace('requests', 'request', 1) if said == '1' else unit}"


def dollars(amount: float, digits: int = 2) -> str:
    """Say money as people write it: what is less than ten cents with four decimals."""
    digits = digits if abs(amount) >= 0.1 or amount == 0 else 4
    return f"${amount:,.{digits}f}"


def milliseconds(amount: float) -> str:
    """Say a time of so many ms with three significant digits, or in s from 10 s on."""
    if amount >= 10_000:
        return f"{amount / 1000:,.1f} s"
    return f"{amount:,.0f} ms" if amount >= 100 else f"{amount:.3g} ms"


def gpus_words(count: int) -> str:
    """Say a number of GPUs."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def nodes_words(count: int) -> str:
    """Say a number of nodes."""
    return f"{count:,} node" if count == 1 else f"{count:,} nodes"


def node_count(nodes: int, gpus_per_node: int) -> str:
    """Say a number of nodes and how large they are."""
    return f"{nodes_words(nodes)} of {gpus_words(gpus_per_node)}"


def policy_words(memory: Memory) -> str:
    """Say how memory is counted."""
    if memory.policy == "engine":
        return f"memory as an engine uses it ({memory.gpu_memory_utilization:.0%} of the GPU)"
    return f"memory with {memory.headroom:.0%} headroom"


class Divided(Protocol):
    """What says how a replica is divided and in which precision: a split, a layout, a pool, a replica's figures."""

    @property
    def weights(self) -> str:
        """Weight format."""
        ...

    @property
    def kv_cache(self) -> str:
        """KV cache dtype."""
        ...

    @property
    def tp(self) -> int:
        """Tensor parallel size."""
        ...

    @property
    def pp(self) -> int:
        """Pipeline stages."""
        ...

    @property
    def ep(self) -> int:
        """Expert parallel size."""
        ...

    @property
    def attention_dp(self) -> int:
        """Attention-DP ranks."""
        ...


def split_words(one: Divided) -> str:
    """Say a split: precision and sizes, leaving out sizes of one."""
    sizes = [f"TP{one.tp}"]
    sizes += [f"PP{one.pp}"] if one.pp > 1 else []
    sizes += [f"EP{one.ep}"] if one.ep > 1 else []
    sizes += [f"attention-DP{one.attention_dp}"] if one.attention_dp > 1 else []
    cache = f", {one.kv_cache} KV cache" if one.kv_cache not in (one.weights, "bf16", "fp16") else ""
    return f"{one.weights} {' '.join(sizes)}{cache}"


def node_words(nodes: int, gpus_per_node: int, gpu: str) -> str:
    """Say what is rented: "2x H200-SXM-141GB", or "3 nodes of 8x A100-SXM-80GB"."""
    return f"{gpus_per_node}x {gpu}" if nodes == 1 else f"{nodes:,} nodes of {gpus_per_node}x {gpu}"


def place_words(offer: Mapping[Any, Any]) -> str:
    """Say where an offer is rented; of an instance type, only what does not repeat the GPUs."""
    place = [str(offer["provider"])]
    place += [str(offer["region"])] if offer["region"] != "global" else []
    name, repeated = str(offer["instance_type"]), f"{offer['gpus_per_node']}x {offer['gpu']}"
    place += [name.removeprefix(repeated).strip(" ()") if name.startswith(repeated) else name]
    return f"{' '.join(part for part in place if part)}, {offer['term']}"


class Placed(Divided, Protocol):
    """What says how a replica is divided and lies on nodes: a layout, or a pool of a fleet."""

    @property
    def nodes_per_replica(self) -> int:
        """Nodes that a replica spans."""
        ...


def unmeasured_words(layout: Placed) -> str:
    """Name what in a layout the measured runs say next to nothing of (see the README); empty where there is nothing."""
    parts = ["pipeline stages"] if layout.pp > 1 else []
    parts += ["attention data parallelism"] if layout.attention_dp > 1 else []
    parts += ["a replica across nodes"] if layout.nodes_per_replica > 1 else []
    return " or ".join(parts)


def terms_words(layout: Layout) -> tuple[str, ...]:
    """Say what renting on other terms than on-demand takes upon itself; empty for on-demand."""
    if layout.term == "spot":
        return ("spot nodes can be taken back at any time: the targets hold only while all of them run",)
    if not layout.term.startswith("reserved-"):
        return ()
    years = int(layout.term.removeprefix("reserved-").removesuffix("y"))
    total = layout.nodes * layout.price_usd_per_node_hour * HOURS_PER_MONTH * 12 * years
    return (f"{layout.term} prices commit to {years} year{'s' if years > 1 else ''}: ${total:,.0f} in all",)


def summarize(layout: Layout) -> str:
    """Say a layout in one line that a person can repeat to a colleague."""
    split = split_words(layout)
    copies = "1 replica" if layout.replicas == 1 else f"{layout.replicas:,} replicas"
    what = node_words(layout.nodes, layout.gpus_per_node, layout.gpu)
    return f"{what} ({place_words(layout.model_dump())}): {copies} in {split}"


def summarize_row(row: pd.Series, nodes: int, offer: pd.Series) -> str:
    """Say a row of the table of choices, on so many nodes, in the same words."""
    split = split_words(Split(row["weights"], row["kv_cache"], row["tp"], row["pp"], row["ep"], row["attention_dp"]))
    what = node_words(nodes, int(row["gpus_per_node"]), str(row["gpu"]))
    return f"{what} ({place_words(offer.to_dict())}): {split}"
