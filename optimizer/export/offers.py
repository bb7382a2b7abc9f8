"""What a launch file says of the nodes to rent: names that a provider knows, price ceilings, disk, words for people."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from optimizer.export.deployment import Deployment, Nodes, ReplicaSpec
from optimizer.export.gpu_names import memory_gib
from optimizer.wording import dollars

# Where a source prices GPUs, not machines, the catalog names the machine by its GPUs: no provider knows such a name.
_NO_MACHINE: Final = re.compile(r"\d+x ")
_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NO_REGION: Final = frozenset({"", "global"})
DEAREST: Final = 2.0  # times the planned price: above, an offer stands in for nothing without being asked
RDMA_NETWORKS: Final = frozenset({"infiniband", "roce", "efa"})
_IMAGE_GB: Final = 100  # engines' images unpack to 20-40 GB; the rest is for logs and caches


def machine_name(nodes: Nodes) -> str:
    """Return the provider's own name of the machine; empty where the catalog knows none."""
    return "" if _NO_MACHINE.match(nodes.instance_type) else nodes.instance_type


def region_name(nodes: Nodes) -> str:
    """Return the provider's name of the region; empty where the price is the same in all, or where it is no name."""
    return "" if nodes.region in _NO_REGION or not is_label(nodes.region) else nodes.region


def is_label(text: str) -> bool:
    """Whether Kubernetes takes this as the value of a label, as all names of regions and most of machines are."""
    return _LABEL.fullmatch(text) is not None


def by_contract(nodes: Nodes) -> bool:
    """Whether nodes are paid for otherwise than by the hour: what they cost is no limit to ask a provider for."""
    return nodes.term not in {"on-demand", "spot"}


def owned(nodes: Nodes) -> bool:
    """Whether they are the reader's own."""
    return nodes.term == "owned"


def offers_of(deployments: Sequence[Deployment]) -> tuple[Nodes, ...]:
    """Return the planned nodes and what may stand in for them, at up to twice the price.

    Only what all deployments that share a node can run on: where several do, nothing stands in.
    """
    first = deployments[0]
    if len(deployments) > 1 or owned(first.nodes):
        return (first.nodes,)
    most = DEAREST * first.nodes.price_usd_per_node_hour
    return (first.nodes, *(other for other in first.fallbacks if other.price_usd_per_node_hour <= most))


def offer_lines(deployments: Sequence[Deployment]) -> list[str]:
    """Say all offers, those too that are left out."""
    used = offers_of(deployments)
    lines = [f"- {offer_words(offer)}" for offer in used]
    if len(deployments) > 1:
        return lines
    left_out = [other for other in deployments[0].fallbacks if other not in used]
    return [*lines, *(f"- not asked for: {offer_words(other)}" for other in left_out)]


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
        whose = f"{deployment.name}: " if len(deployments) > 1 else ""
        notes = [f"{whose}note: {note}" for note in (*deployment.launch.notes, *_notes(deployment))]
        lines += [line for line in (*deployment.context, *notes) if line not in lines]
    return [*lines, "", *usage]


def summary(deployments: Sequence[Deployment]) -> str:
    """Return what heads a file, in one line: where there are no comments."""
    lines = dict.fromkeys(" ".join(line.split()) for each in deployments for line in each.context)
    return "; ".join(lines)


def _notes(deployment: Deployment) -> list[str]:
    notes = []
    model = deployment.replica.model
    if deployment.nodes.spot:
        notes.append("spot nodes can be taken back at any time")
    if model.startswith((".", "~")):
        notes.append(f"{model} has to be there inside the container")
    return notes


def open_port(ports: Iterable[int]) -> str:
    """Say that whoever reaches the ports is served."""
    said = ", ".join(map(str, sorted(set(ports))))
    return f"The engine asks for no key: let only those reach port {said} who may use it."


def offer_words(nodes: Nodes) -> str:
    """Say an offer in one line."""
    where = f"{nodes.provider} {region_name(nodes)}".strip()
    price = f"{dollars(nodes.price_usd_per_node_hour)}/h per node, seen {nodes.price_seen_on}"
    return f"{nodes.instance_type} of {where}, {nodes.term}, {price}"
