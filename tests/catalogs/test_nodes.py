"""Nodes: the committed shapes, the fabric assumed where none is stated, and what the loader refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from catalogs.errors import DataFileError
from catalogs.gpus import get_gpu, load_gpus
from catalogs.nodes import NODE_COLUMNS, Node, default_fabric, load_nodes

NODES = tuple(load_nodes().values())

HEADER = ",".join(NODE_COLUMNS)
GOOD = "aws,p5.48xlarge,H100-SXM-80GB,8,nvswitch,8,efa,3200,a page read 2026-11-30"


# The committed data


def test_every_named_cloud_is_there_with_its_whole_gpu_shapes() -> None:
    # 142 shapes of the first reading; 3 AWS P3, 16 Azure, 11 OCI, 1 Nebius and 9 boards sold by the count came after.
    assert len(NODES) == 142 + 3 + 16 + 11 + 1 + 9
    assert {node.provider for node in NODES} == {
        "aws",
        "azure",
        "coreweave",
        "crusoe",
        "gcp",
        "hyperstack",
        "lambda",
        "nebius",
        "oci",
        "spheron",
        "voltagepark",
        "vultr",
    }


@pytest.mark.parametrize("node", [node for node in NODES if re.match(r"\d+x ", node.instance_type)], ids=str)
def test_a_node_sold_by_the_count_is_named_as_offers_name_it(node: Node) -> None:
    # Under any other name the network stated here would reach no offer.
    assert node.instance_type == f"{node.gpus_per_node}x {node.gpu}"


@pytest.mark.parametrize("node", NODES, ids=lambda node: f"{node.provider} {node.instance_type}")
def test_a_node_never_joins_more_than_its_gpu_can(node: Node) -> None:
    gpu = load_gpus()[node.gpu]
    assert node.scale_up_gpus <= min(node.gpus_per_node, gpu.scale_up_gpus)
    assert node.fabric in ("single", "pcie", gpu.scale_up_kind)


@pytest.mark.parametrize("node", NODES, ids=lambda node: f"{node.provider} {node.instance_type}")
def test_network_rates_are_gbit_and_within_what_ports_can_carry(node: Node) -> None:
    # Today's fastest port is 800 Gbit/s a GPU; a rate written in GB/s for Gbit/s would fall below 1 or past that.
    if node.network_gbit_per_s is not None:
        assert 1 <= node.network_gbit_per_s <= 800 * max(node.gpus_per_node, 2)


@pytest.mark.parametrize(
    ("provider", "instance_type", "facts"),
    [
        ("aws", "p5.48xlarge", ("H100-SXM-80GB", 8, "nvswitch", 8, "efa", 3200)),
        ("aws", "g5.xlarge", ("A10G-24GB", 1, "single", 1, "ethernet", 2.5)),
        ("aws", "g6e.48xlarge", ("L40S-48GB", 8, "pcie", 1, "efa", 400)),
        ("aws", "p3dn.24xlarge", ("V100-SXM-32GB", 8, "nvlink", 8, "efa", 100)),
        ("gcp", "a2-megagpu-16g", ("A100-SXM-40GB", 16, "nvswitch", 16, "ethernet", 100)),
        ("gcp", "a3-ultragpu-8g", ("H200-SXM-141GB", 8, "nvswitch", 8, "roce", 3200)),
        ("gcp", "a4x-highgpu-4g", ("GB200-NVL72", 4, "nvswitch", 4, "roce", 1600)),
        ("azure", "Standard_ND96isr_MI300X_v5", ("MI300X-192GB", 8, "infinity_fabric", 8, "infiniband", 3200)),
        ("azure", "Standard_NC80adis_H100_v5", ("H100-NVL-94GB", 2, "pcie", 1, "unknown", None)),
        ("lambda", "gpu_2x_h100_sxm5", ("H100-SXM-80GB", 2, "nvswitch", 2, "unknown", None)),
        ("nebius", "gpu-h100-sxm 8gpu-128vcpu-1600gb", ("H100-SXM-80GB", 8, "nvswitch", 8, "infiniband", 3200)),
        ("nebius", "8x B300-SXM-288GB", ("B300-SXM-288GB", 8, "nvswitch", 8, "infiniband", 6400)),
        ("aws", "p3.16xlarge", ("V100-SXM-16GB", 8, "nvlink", 8, "ethernet", 25)),
        ("azure", "Standard_ND96isr_H100_v5", ("H100-SXM-80GB", 8, "nvswitch", 8, "infiniband", 3200)),
        ("azure", "Standard_ND96is_H100_v5", ("H100-SXM-80GB", 8, "nvswitch", 8, "unknown", None)),
        ("oci", "BM.GPU.H100.8", ("H100-SXM-80GB", 8, "nvswitch", 8, "roce", 8 * 2 * 200)),
        ("oci", "BM.GPU.A100-v2.8", ("A100-SXM-80GB", 8, "nvswitch", 8, "roce", 16 * 100)),
        ("oci", "BM.GPU4.8", ("A100-SXM-40GB", 8, "nvswitch", 8, "roce", 8 * 200)),
        ("crusoe", "8x H100-SXM-80GB", ("H100-SXM-80GB", 8, "nvswitch", 8, "infiniband", 3200)),
        ("coreweave", "8x B200-SXM-180GB", ("B200-SXM-180GB", 8, "nvswitch", 8, "infiniband", None)),
        ("voltagepark", "8x H100-SXM-80GB", ("H100-SXM-80GB", 8, "nvswitch", 8, "ethernet", 100)),
    ],
)
def test_known_shapes(provider: str, instance_type: str, facts: tuple[object, ...]) -> None:
    node = load_nodes()[provider, instance_type]
    assert facts == (
        node.gpu,
        node.gpus_per_node,
        node.fabric,
        node.scale_up_gpus,
        node.network,
        node.network_gbit_per_s,
    )


# The assumed fabric


@pytest.mark.parametrize(
    ("gpu", "gpus_per_node", "expected"),
    [
        ("H100-SXM-80GB", 1, ("single", 1)),
        ("H100-SXM-80GB", 2, ("nvswitch", 2)),
        ("H100-SXM-80GB", 8, ("nvswitch", 8)),
        ("H100-SXM-80GB", 16, ("nvswitch", 8)),  # two boards
        ("H100-SXM-80GB", 12, ("nvswitch", 6)),  # the largest equal domains on boards of 8
        ("H100-SXM-80GB", 11, ("pcie", 1)),  # prime and beyond one board: nothing equal
        ("V100-SXM-16GB", 4, ("nvlink", 4)),
        ("GB200-NVL72", 4, ("nvswitch", 4)),
        ("GB200-NVL72", 72, ("nvswitch", 72)),
        ("MI300X-192GB", 8, ("infinity_fabric", 8)),
        ("GAUDI3-128GB", 8, ("gaudi_roce", 8)),
        ("H100-NVL-94GB", 2, ("pcie", 1)),  # a bridge fits, but nobody said one is there
        ("L40S-48GB", 8, ("pcie", 1)),
        ("RTX4090-24GB", 1, ("single", 1)),
    ],
)
def test_default_fabric(gpu: str, gpus_per_node: int, expected: tuple[str, int]) -> None:
    assert default_fabric(get_gpu(gpu), gpus_per_node) == expected


def test_default_fabric_needs_a_gpu() -> None:
    with pytest.raises(ValueError, match="Expected gpus_per_node >= 1, got 0"):
        default_fabric(get_gpu("L4-24GB"), 0)


# The loader


def problems_of(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "nodes.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataFileError) as caught:
        load_nodes(path)
    assert str(path) in str(caught.value)
    return "\n".join(caught.value.problems)


def test_a_good_row_loads(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n")
    assert load_nodes(path)["aws", "p5.48xlarge"].network_gbit_per_s == 3200


def test_all_bad_rows_are_reported_at_once_with_line_field_and_value(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path,
        HEADER,
        GOOD.replace(",8,nvswitch,8,", ",0,warp,8,"),
        GOOD.replace("3200", "-1"),
        GOOD.replace("efa,3200", "unknown,3200"),
    )
    assert "line 2.gpus_per_node: Input should be greater than or equal to 1, got '0'" in problems
    assert "line 2.fabric" in problems
    assert "'warp'" in problems
    assert "line 3.network_gbit_per_s: Input should be greater than 0, got '-1'" in problems
    assert "line 4.network_gbit_per_s: must be empty when network is 'unknown', got 3200" in problems


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("H100-SXM-80GB", "H100-SXM", "gpu: unknown GPU 'H100-SXM'; did you mean H100-SXM-80GB"),
        (",8,nvswitch,8,", ",8,single,1,", "fabric: must be 'single' exactly when gpus_per_node is 1"),
        (",8,nvswitch,8,", ",8,pcie,8,", "scale_up_gpus: must be 1 exactly when fabric is 'single' or 'pcie', got 8"),
        (",8,nvswitch,8,", ",8,nvswitch,3,", "scale_up_gpus: must divide gpus_per_node (8), got 3"),
        (",8,nvswitch,8,", ",16,nvswitch,16,", "scale_up_gpus: H100-SXM-80GB joins at most 8, got 16"),
        ("3200", "inf", "network_gbit_per_s: Input should be a finite number"),
        ("a page read 2026-11-30", "a page", "source: has no date"),
        ("p5.48xlarge", "", "instance_type: String should have at least 1 character"),
    ],
)
def test_each_kind_of_fault_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert problem in problems_of(tmp_path, HEADER, GOOD.replace(old, new))


def test_the_same_shape_twice_is_refused(tmp_path: Path) -> None:
    assert "line 3.instance_type: aws 'p5.48xlarge' stands above already" in problems_of(tmp_path, HEADER, GOOD, GOOD)


def test_files_that_are_no_node_table_are_refused(tmp_path: Path) -> None:
    assert "columns must be provider,instance_type" in problems_of(tmp_path, HEADER + ",colour", GOOD + ",red")
    assert "line 2: has 8 cells, needs 9" in problems_of(tmp_path, HEADER, GOOD.replace(",efa", ""))
    assert "holds no node" in problems_of(tmp_path, HEADER)
    assert "is not CSV" in problems_of(tmp_path, HEADER, '"unclosed')
    with pytest.raises(DataFileError, match="cannot be read"):
        load_nodes(tmp_path / "absent.csv")
