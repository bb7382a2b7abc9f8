"""What a launch file says of the nodes to rent: names that a provider knows, price ceilings, disk, words for people."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from optimizer.export.deployment import Deployment, Nodes, ReplicaSpec
from optimizer.export.gpu_names import memory_gib

# Where a source prices GPUs, not machines, the catalog names the machine by its GPUs: no provider knows such a name.
_NO_MACHINE: Final = re.compile(r"\d+x ")
_NO_REGION: Final = frozenset({"", "global"})
_IMAGE_GB: Final = 100  # engines' images unpack to 20-40 GB; the rest is for logs and caches


def machine_name(nodes: Nodes) -> str:
    """Return the provider's own name of the machine; empty where the catalog knows none."""
    return "" if _NO_MACHINE.match(nodes.instance_type) else nodes.instance_type


def region_name(nodes: Nodes) -> str:
    """Return the provider's name of the region; empty where the price is the same in all."""
    return "" if nodes.region in _NO_REGION else nodes.region


def price_ceiling(offers: Iterable[Nodes]) -> float:
    """Return the highest price in USD per node and hour among offers, rounded up to a cent."""
    return math.ceil(max(offer.price_usd_per_node_hour for offer in offers) * 100 - 1e-6) / 100


def disk_gb(replica: ReplicaSpec, gpu: str) -> int:
    """Return disk for one node in GB: the image, and a checkpoint as large as the replica's GPU memory.

    Twice that where weights are made from another format while loading: from 16 bit to 8, say.
    """
    each = memory_gib(gpu) * 2**30 / 1e9
    copies = 1 if replica.weights == replica.checkpoint_weights else 2
    return _IMAGE_GB + math.ceil(replica.gpus * each * copies / 10) * 10


def header(deployments: Sequence[Deployment], *usage: str) -> list[str]:
    """Return the comment lines that head a file: what it is, what no flag does, how to use it."""
    lines: list[str] = []
    for deployment in deployments:
        lines += deployment.context
        lines += [f"Note: {note}" for note in deployment.launch.notes]
        if deployment.nodes.spot:
            lines.append("Spot: these nodes can be taken back at any time.")
        lines.append("")
    return [*lines, *usage]


def offer_words(nodes: Nodes) -> str:
    """Say an offer in one line."""
    where = f"{nodes.provider} {region_name(nodes)}".strip()
    price = f"${nodes.price_usd_per_node_hour:,.2f}/h per node, seen {nodes.price_seen_on}"
    return f"{nodes.instance_type} of {where}, {nodes.term}, {price}"
