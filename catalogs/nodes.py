"""Rentable node shapes: GPUs per node, the fabric inside it, the network between nodes."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from catalogs.errors import DataFileError, near_matches
from catalogs.gpus import Gpu, describe_validation_error, load_gpus

Fabric = Literal["single", "nvswitch", "nvlink", "nvlink_bridge", "infinity_fabric", "gaudi_roce", "pcie"]
Network = Literal["infiniband", "efa", "roce", "spectrum_x", "ethernet", "unknown"]
Text = Annotated[str, Field(min_length=1)]

NODES_FILE = Path(__file__).parent / "data" / "nodes.csv"

_YEAR = re.compile(r"\b20\d\d\b")


class Node(BaseModel):
    """One rentable shape of one provider.

    Attributes:
        provider: short lower-case name, as in the offers ("aws").
        instance_type: the provider's own name of the shape.
        gpu: canonical GPU name.
        gpus_per_node: whole GPUs in the node.
        fabric: what joins the GPUs inside the node ("single" when there is one GPU).
        scale_up_gpus: GPUs per scale-up domain inside what is rented: 8 on an HGX board, 2 with NVLink bridges,
            1 when the GPUs talk over PCIe, 72 on a whole rented NVL72 rack.
        network: what joins nodes; "unknown" when no source says, and then a replica may not span nodes.
        network_gbit_per_s: network bandwidth of the node in 10^9 bit/s, the part that GPUs reach by RDMA where a
            source tells it apart; None when unknown.
        source: citation with date.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Text
    instance_type: Text
    gpu: Text
    gpus_per_node: int = Field(ge=1)
    fabric: Fabric
    scale_up_gpus: int = Field(ge=1)
    network: Network
    network_gbit_per_s: float | None = Field(gt=0, allow_inf_nan=False)
    source: Text


NODE_COLUMNS = tuple(Node.model_fields)


def default_fabric(gpu: Gpu, gpus_per_node: int) -> tuple[Fabric, int]:
    """Return the fabric and the scale-up domain to assume where GPUs are sold by count and no fabric is stated.

    Modules (SXM, OAM, NVL72 trays) only exist on boards that join them, so a slice of one is joined as well: one
    domain when the slice fits a board, else the largest equal domains that do. PCIe cards are assumed unbridged, even
    those that take an NVLink bridge: providers that fit bridges say so, and assuming one that is absent would promise
    a tensor-parallel speed that the node does not have.

    Args:
        gpu: the GPU in the node.
        gpus_per_node: whole GPUs sold together, at least 1.

    Returns:
        `Node.fabric` and `Node.scale_up_gpus`.

    Raises:
        ValueError: gpus_per_node is below 1.
    """
    if gpus_per_node < 1:
        raise ValueError(f"Expected gpus_per_node >= 1, got {gpus_per_node}.")
    if gpus_per_node == 1:
        return "single", 1
    if gpu.scale_up_kind in ("pcie", "nvlink_bridge"):
        return "pcie", 1
    largest = max(size for size in range(1, gpu.scale_up_gpus + 1) if gpus_per_node % size == 0)
    return (gpu.scale_up_kind, largest) if largest > 1 else ("pcie", 1)


@cache
def load_nodes(path: Path = NODES_FILE) -> dict[tuple[str, str], Node]:
    """Return the nodes of a catalog file by (provider, instance_type), in file order (cached).

    Raises:
        DataFileError: the file cannot be read or has bad rows; names every one with its line, field and value.
    """
    nodes: dict[tuple[str, str], Node] = {}
    problems: list[str] = []
    for line, cells in _read_rows(path):
        try:
            node = Node.model_validate(cells)
        except ValidationError as error:
            problems += describe_validation_error(error, f"line {line}")
            continue
        problems += [f"line {line}.{problem}" for problem in _node_problems(node)]
        key = (node.provider, node.instance_type)
        if key in nodes:
            problems.append(f"line {line}.instance_type: {node.provider} {node.instance_type!r} stands above already")
        nodes[key] = node
    if not nodes and not problems:
        problems.append("holds no node")
    if problems:
        raise DataFileError(path, problems)
    return nodes


def _read_rows(path: Path) -> list[tuple[int, dict[str, object]]]:
    """Return (line number, cells by column) of every row; empty rate cells become None."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if tuple(header) != NODE_COLUMNS:
                raise DataFileError(path, [f"line 1: columns must be {','.join(NODE_COLUMNS)}, got {','.join(header)}"])
            rows = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        raise DataFileError(path, [f"cannot be read: {error.strerror}"]) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataFileError(path, [f"is not CSV: {error}"]) from error
    ragged = [
        f"line {line}: has {len(row)} cells, needs {len(NODE_COLUMNS)}"
        for line, row in rows
        if len(row) != len(NODE_COLUMNS)
    ]
    if ragged:
        raise DataFileError(path, ragged)
    return [(line, _cells(row)) for line, row in rows]


def _cells(row: list[str]) -> dict[str, object]:
    cells: dict[str, object] = dict(zip(NODE_COLUMNS, row, strict=True))
    cells["network_gbit_per_s"] = cells["network_gbit_per_s"] or None
    return cells


def _node_problems(node: Node) -> list[str]:
    """Return what the fields of one node contradict in each other or in the GPU catalog, field name first."""
    problems = []
    gpu = load_gpus().get(node.gpu)
    if gpu is None:
        near = near_matches(node.gpu, load_gpus())
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        problems.append(f"gpu: unknown GPU {node.gpu!r}{hint}")
    elif node.scale_up_gpus > gpu.scale_up_gpus:
        problems.append(f"scale_up_gpus: {node.gpu} joins at most {gpu.scale_up_gpus}, got {node.scale_up_gpus}")
    if (node.fabric == "single") != (node.gpus_per_node == 1):
        problems.append(f"fabric: must be 'single' exactly when gpus_per_node is 1, got {node.fabric!r}")
    if (node.fabric in ("single", "pcie")) != (node.scale_up_gpus == 1):
        problems.append(f"scale_up_gpus: must be 1 exactly when fabric is 'single' or 'pcie', got {node.scale_up_gpus}")
    if node.gpus_per_node % node.scale_up_gpus:
        problems.append(f"scale_up_gpus: must divide gpus_per_node ({node.gpus_per_node}), got {node.scale_up_gpus}")
    if node.network == "unknown" and node.network_gbit_per_s is not None:
        problems.append(f"network_gbit_per_s: must be empty when network is 'unknown', got {node.network_gbit_per_s:g}")
    if not _YEAR.search(node.source):
        problems.append(f"source: has no date, got {node.source!r}")
    return problems
