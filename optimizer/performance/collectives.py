"""Seconds that GPUs spend talking: all-reduce, all-gather, all-to-all and point-to-point, inside and between nodes.

Inside a node a collective is a curve of measured times over message sizes (data/collectives.toml, written by
calibration/fit_collectives.py). Between nodes it is a ring over the network's rate plus a latency per hop.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from catalogs.gpus import Gpu, get_gpu

Array = npt.NDArray[np.float64]
Operation = Literal["all_reduce", "all_gather", "all_to_all"]
Kind = Literal["fitted", "borrowed"]

DATA_FILE = Path(__file__).parent / "data" / "collectives.toml"

# Message sizes of every curve, in bytes: powers of four from 1 KiB to 256 MiB.
SIZES: Array = np.asarray(4.0 ** np.arange(5, 15), dtype=np.float64)
# Each doubling of the ranks beyond the largest measured group adds this share of latency (one more hop of a tree).
LATENCY_PER_DOUBLING = 0.25
OTHER_VENDOR_LATENCY = 1.5
# Whose curves GPUs without measurements scale by bandwidth: inside a scale-up domain by family, and over PCIe.
SCALE_UP_LENDERS = {"blackwell": "B200-SXM-180GB", "ampere": "A100-SXM-80GB", "volta": "A100-SXM-80GB"}
PCIE_LENDERS = ("L40S-48GB", "RTXPRO6000-96GB")


@dataclass(frozen=True, slots=True)
class Link:
    """What joins the GPUs of one group.

    Attributes:
        gpu: canonical GPU name.
        ranks: GPUs in the group.
        gpus_per_node: GPUs in one node.
        scale_up_gpus: GPUs that one NVLink (or like) domain joins; 1 when they talk over PCIe.
        network: kind of network between nodes ("infiniband", "efa", "roce", "spectrum_x", "ethernet", "unknown").
        network_gbit_per_s: total rate of one node, 10^9 bit/s; NaN when unknown.
    """

    gpu: str
    ranks: int
    gpus_per_node: int
    scale_up_gpus: int
    network: str = "unknown"
    network_gbit_per_s: float = math.nan


@dataclass(frozen=True, slots=True)
class Network:
    """What one kind of network delivers: the share of its rate that a collective reaches, and one hop's latency."""

    efficiency: float
    hop_seconds: float


@dataclass(frozen=True)
class Table:
    """The fitted curves: `seconds[(gpu, operation)][ranks]` over `SIZES`."""

    seconds: Mapping[tuple[str, str], Mapping[int, Array]]
    networks: Mapping[str, Network]
    default_gbit_per_s: float


@lru_cache(maxsize=1)
def load_table() -> Table:
    """Read data/collectives.toml (cached)."""
    with DATA_FILE.open("rb") as stream:
        raw: dict[str, Any] = tomllib.load(stream)
    seconds: dict[tuple[str, str], dict[int, Array]] = {}
    for curve in raw["curves"]:
        by_ranks = seconds.setdefault((curve["gpu"], curve["operation"]), {})
        by_ranks[int(curve["ranks"])] = np.asarray(curve["microseconds"], dtype=np.float64) * 1e-6
    networks = {
        kind: Network(float(row["efficiency"]), float(row["hop_microseconds"]) * 1e-6)
        for kind, row in raw["networks"].items()
    }
    return Table(seconds, networks, float(raw["unknown_network_gbit_per_s"]))


def ring_all_reduce_traffic_bytes(message_bytes: float, ranks: int) -> float:
    """Return the bytes each of `ranks` sends in a ring all-reduce: 2 (n-1)/n times the message.

    Source: Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
    """
    return 2.0 * (ranks - 1) / ranks * message_bytes


def ring_traffic_seconds(traffic_bytes: float, gbit_per_s: float) -> float:
    """Return the seconds that `traffic_bytes` of ring traffic take at a line rate in 10^9 bit/s."""
    return traffic_bytes * 8.0 / (gbit_per_s * 1e9)


def physical(seconds: Array) -> Array:
    """Raise a curve over the table's sizes until it is physical.

    A bigger message never costs less, and one message never costs more than its four quarters (sizes are a factor of
    four apart). So time per byte never rises with size, and a replica's throughput never falls with its batch.
    """
    raised = np.maximum.accumulate(seconds)
    for i in range(len(raised) - 2, -1, -1):
        raised[i] = max(raised[i], raised[i + 1] / 4.0)
    return raised


def send_seconds(message_bytes: npt.ArrayLike, link: Link) -> Array:
    """Return the seconds of one point-to-point message to the next pipeline stage.

    A stage of `ranks` GPUs sends inside its node while two stages fit there, else over the network.
    """
    latency, per_byte = send_coefficients(link)
    return latency + per_byte * np.asarray(message_bytes, dtype=np.float64)


@lru_cache(maxsize=4096)
def send_coefficients(link: Link) -> tuple[float, float]:
    """Return (latency in seconds, seconds per byte) of a point-to-point message between two neighbouring stages."""
    table = load_table()
    if 2 * link.ranks <= link.gpus_per_node:
        pair = Link(link.gpu, 2, link.gpus_per_node, link.scale_up_gpus)
        curve, _ = curve_seconds("all_gather", pair)
        # An all-gather over two ranks sends half the message each way: its slope is half a byte's time.
        slope = 2.0 * (curve[-1] - curve[-2]) / (SIZES[-1] - SIZES[-2])
        return float(curve[0]), float(slope)
    network, rate = _network(link, table)
    # Stages exchange through the network cards of one GPU each: a stage of `ranks` GPUs uses its share of the node.
    share = min(1.0, link.ranks / link.gpus_per_node)
    return network.hop_seconds, 1.0 / (rate * network.efficiency * share)


@lru_cache(maxsize=4096)
def curve_seconds(operation: Operation, link: Link) -> tuple[Array, Kind]:
    """Return a collective's seconds at each size of the table, and whether the curve was fitted or borrowed.

    Sizes are the message of one all-reduce, the gathered result of an all-gather, and what one rank sends in an
    all-to-all. A group of one rank costs nothing.
    """
    table = load_table()
    if link.ranks <= 1:
        return np.zeros_like(SIZES), "fitted"
    inside = min(link.ranks, link.gpus_per_node)
    seconds, kind = _inside_node(operation, link, inside, table)
    nodes = math.ceil(link.ranks / link.gpus_per_node)
    if nodes > 1:
        seconds = seconds + _between_nodes(operation, nodes, link, table)
        kind = "borrowed"
    return seconds, kind


def interpolate(curves: Array, rows: npt.NDArray[np.intp], message_bytes: Array) -> Array:
    """Return seconds for each row's message, linear in bytes between the sizes of its curve.

    Below the first size a message costs that size's time; above the last one the final slope continues.

    Args:
        curves: (number of curves, sizes) seconds, as from `curve_seconds`.
        rows: the curve of each row.
        message_bytes: bytes of each row's message.
    """
    # Sizes are powers of four, so the segment comes from the exponent without a search.
    exponent = np.frexp(message_bytes / SIZES[0])[1] - 1
    segment = np.clip(exponent >> 1, 0, len(SIZES) - 2)
    low, width = SIZES[segment], 3.0 * SIZES[segment]
    share = np.maximum((message_bytes - low) / width, 0.0)
    flat = curves.ravel()
    at = rows * len(SIZES) + segment
    start = flat[at]
    return np.asarray(start + (flat[at + 1] - start) * share, dtype=np.float64)


def collective_seconds(operation: Operation, message_bytes: npt.ArrayLike, link: Link) -> Array:
    """Return a collective's seconds for one link and any number of message sizes in bytes."""
    sizes = np.atleast_1d(np.asarray(message_bytes, dtype=np.float64))
    curve, _ = curve_seconds(operation, link)
    return interpolate(curve[None, :], np.zeros(len(sizes), dtype=np.intp), sizes)


def all_reduce_seconds(message_bytes: npt.ArrayLike, link: Link) -> Array:
    """Return the seconds of one all-reduce of `message_bytes` (the engines' own kernels where they are faster)."""
    return collective_seconds("all_reduce", message_bytes, link)


def _inside_node(operation: Operation, link: Link, ranks: int, table: Table) -> tuple[Array, Kind]:
    gpu = get_gpu(link.gpu)
    if ranks > link.scale_up_gpus:
        return _over_pcie(operation, gpu, ranks, table)
    if (gpu.name, operation) in table.seconds:
        seconds, measured = _for_ranks(table.seconds[gpu.name, operation], ranks)
        return seconds, "fitted" if measured else "borrowed"
    lender = SCALE_UP_LENDERS.get(gpu.family, "H100-SXM-80GB")
    seconds, _ = _for_ranks(table.seconds[lender, operation], ranks)
    slower = get_gpu(lender).scale_up_gb_per_s / gpu.scale_up_gb_per_s
    # Other vendors' libraries pay more per message.
    return _scaled(seconds, slower, 1.0 if gpu.vendor == "nvidia" else OTHER_VENDOR_LATENCY), "borrowed"


def _over_pcie(operation: Operation, gpu: Gpu, ranks: int, table: Table) -> tuple[Array, Kind]:
    """The better of the measured PCIe boxes, at this GPU's host link: one of them crosses a slow socket link."""
    boxes = []
    for name in PCIE_LENDERS:
        seconds, _ = _for_ranks(table.seconds[name, operation], ranks)
        boxes.append(_scaled(seconds, get_gpu(name).pcie_gb_per_s / gpu.pcie_gb_per_s, 1.0))
    return np.minimum(boxes[0], boxes[1]), "fitted" if gpu.name in PCIE_LENDERS else "borrowed"


def _for_ranks(by_ranks: Mapping[int, Array], ranks: int) -> tuple[Array, bool]:
    """The curve of the smallest measured group that holds `ranks` GPUs, else the largest one with more latency."""
    for count in sorted(by_ranks):
        if count >= ranks:
            return by_ranks[count], count == ranks
    largest = max(by_ranks)
    return _scaled(by_ranks[largest], 1.0, 1.0 + LATENCY_PER_DOUBLING * math.log2(ranks / largest)), False


def _scaled(seconds: Array, bandwidth_ratio: float, latency_ratio: float) -> Array:
    """A curve with its latency (the smallest message) and the rest scaled apart."""
    latency = seconds[0]
    return physical(latency * latency_ratio + (seconds - latency) * bandwidth_ratio)


def _network(link: Link, table: Table) -> tuple[Network, float]:
    """The network between nodes and its rate in bytes/s."""
    network = table.networks.get(link.network, table.networks["unknown"])
    rate = table.default_gbit_per_s if math.isnan(link.network_gbit_per_s) else link.network_gbit_per_s
    return network, rate * 1e9 / 8.0


def _between_nodes(operation: Operation, nodes: int, link: Link, table: Table) -> Array:
    """The inter-node part: the node's cards together carry what the ring or exchange moves between nodes."""
    network, rate = _network(link, table)
    crossing = (nodes - 1) / nodes
    traffic = {
        "all_reduce": 2.0 * crossing * SIZES,
        "all_gather": crossing * SIZES,
        "all_to_all": crossing * SIZES * link.gpus_per_node,
    }[operation]
    hops = math.ceil(math.log2(nodes)) * (2 if operation == "all_reduce" else 1)
    return hops * network.hop_seconds + traffic / (rate * network.efficiency)
