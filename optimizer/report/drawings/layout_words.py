"""What drawings of layouts and reports call nodes, what joins them, and the parts of a replica."""

from __future__ import annotations

from optimizer.plan import Layout
from optimizer.report.drawings.places import Seat, Shape, shape_of
from optimizer.wording import gpus_words, nodes_words

FABRICS = {
    "nvswitch": "NVSwitch",
    "nvlink": "NVLink",
    "infinity_fabric": "Infinity Fabric",
    "pcie": "PCIe",
    "single": "",
    "unknown": "unknown link",
}
NETWORKS = {"infiniband": "InfiniBand", "efa": "EFA", "roce": "RoCE", "ethernet": "Ethernet"}


def layout_words(layout: Layout) -> str:
    """Say what a drawing of a layout shows, for those who do not see it."""
    idle = layout.nodes * layout.gpus_per_node - layout.gpus_used
    parts = [
        f"{nodes_words(layout.nodes)} of {gpus_words(layout.gpus_per_node)} ({layout.gpu})",
        f"{layout.replicas} replica{'s' if layout.replicas > 1 else ''} of {layout.pp} pipeline stage"
        f"{'s' if layout.pp > 1 else ''}, tensor parallel groups of {layout.tp}",
    ]
    parts += [f"{layout.attention_dp} attention data-parallel ranks"] if layout.attention_dp > 1 else []
    parts += [f"experts divided over {gpus_words(layout.ep)}"] if layout.ep > 1 else []
    parts += [f"GPUs of a node joined by {fabric_words(shape_of(layout))}"] if layout.gpus_per_node > 1 else []
    parts += [network_words(shape_of(layout))] if layout.nodes > 1 else []
    parts += [f"{gpus_words(idle)} idle"] if idle else []
    return "; ".join(parts) + "."


def fabric_words(shape: Shape) -> str:
    """Say what joins the GPUs inside a node."""
    if shape.gpus_per_node == 1:
        return ""
    name = FABRICS.get(shape.fabric, shape.fabric)
    if 1 < shape.scale_up_gpus < shape.gpus_per_node:
        return f"{name} in groups of {shape.scale_up_gpus}"
    return name


def network_words(shape: Shape) -> str:
    """Say what joins the nodes."""
    rate = f" {shape.network_gbit_per_s:,g} Gbit/s" if shape.network_gbit_per_s is not None else ""
    if shape.network in ("unknown", "none"):
        return f"network between nodes:{rate}" if rate else "network between nodes: not stated"
    return f"{NETWORKS.get(shape.network, shape.network)}{rate} between nodes"


def group_words(seat: Seat, *, each: bool = False) -> tuple[str, ...]:
    """Name the tensor parallel group that a GPU is in, from the longest words to the shortest.

    Args:
        seat: what the GPU holds.
        each: the node stands for one of each replica, so that the number of the replica says nothing.
    """
    number = "" if each else f" {seat.replica + 1}"
    whose = f"{seat.model} replica{number}".strip()
    long, mid = [whose], [f"{seat.model} R{number.strip()}".strip()]
    short = [seat.model or f"R{number.strip()}"]
    if seat.stages > 1:
        long.append(f"stage {seat.stage + 1} of {seat.stages}")
        mid.append(f"stage {seat.stage + 1}")
        short.append(f"S{seat.stage + 1}")
    if seat.attention_dp > 1:
        long.append(f"attention-DP rank {seat.attention_rank}")
        mid.append(f"DP {seat.attention_rank}")
        short.append(f"D{seat.attention_rank}")
    if seat.tp > 1:
        long.append(f"tensor parallel group of {seat.tp}")
        mid.append(f"TP{seat.tp}")
    said = [", ".join(long), ", ".join(mid), " ".join(mid), " ".join(short)]
    said[0] = said[0] if seat.model else said[0][0].upper() + said[0][1:]
    return tuple(said)
