from __future__ import annotations

import math
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from optimizer.performance.collectives import (
    DATA_FILE,
    SIZES,
    Link,
    all_reduce_seconds,
    collective_seconds,
    curve_seconds,
    load_table,
    physical,
    ring_all_reduce_traffic_bytes,
    ring_traffic_seconds,
    send_seconds,
)

H100 = Link("H100-SXM-80GB", ranks=8, gpus_per_node=8, scale_up_gpus=8)


def test_ring_traffic_of_140_gb_over_8_ranks_is_245_gb() -> None:
    """2 x 7/8 x 140 GB = 245 GB, the traffic that a 70B model's 16-bit gradients make."""
    assert ring_all_reduce_traffic_bytes(140e9, 8) == pytest.approx(245e9)


@pytest.mark.parametrize(("gbit_per_s", "seconds"), [(400.0, 4.9), (100.0, 19.6)])
def test_245_gb_of_ring_traffic(gbit_per_s: float, seconds: float) -> None:
    """245e9 x 8 bit / 400e9 bit/s = 4.9 s, and four times that at a quarter of the rate."""
    assert ring_traffic_seconds(245e9, gbit_per_s) == pytest.approx(seconds)


def test_fitted_curves_leave_little_error() -> None:
    """Each curve's median error against its own measurements is small, and no curve is missing a size."""
    with DATA_FILE.open("rb") as stream:
        curves = tomllib.load(stream)["curves"]
    assert len(curves) > 60
    assert all(len(curve["microseconds"]) == len(SIZES) for curve in curves)
    assert max(curve["median_error_percent"] for curve in curves) < 5.0
    assert np.median([curve["median_error_percent"] for curve in curves]) < 1.0


def test_every_curve_is_physical() -> None:
    """No bigger message is faster, and no message costs more than its four quarters."""
    for by_ranks in load_table().seconds.values():
        for seconds in by_ranks.values():
            assert (np.diff(seconds) >= 0).all()
            assert (seconds[1:] <= 4 * seconds[:-1] * 1.001).all()


def test_physical_raises_what_noise_lowered() -> None:
    """A dip is lifted to what a smaller message costs; a leap lifts the size before it to a quarter of itself."""
    assert physical(np.array([4.0, 3.0, 40.0])).tolist() == [4.0, 10.0, 40.0]


def test_measured_points_come_back() -> None:
    """Eight H100s reduce 1 MiB at what the table says there, and 3 MiB on the line between 1 and 4 MiB."""
    curve, kind = curve_seconds("all_reduce", H100)
    at = int(np.flatnonzero(SIZES == 2**20)[0])
    assert kind == "fitted"
    assert all_reduce_seconds(2**20, H100)[0] == pytest.approx(curve[at])
    expected = curve[at] + (curve[at + 1] - curve[at]) * 2 / 3
    assert all_reduce_seconds(3 * 2**20, H100)[0] == pytest.approx(expected)


def test_beyond_the_table_the_last_slope_continues() -> None:
    """A message above 256 MiB goes on at the bandwidth of the last segment; one below 1 KiB costs the latency."""
    curve, _ = curve_seconds("all_reduce", H100)
    slope = (curve[-1] - curve[-2]) / (SIZES[-1] - SIZES[-2])
    assert all_reduce_seconds(2 * SIZES[-1], H100)[0] == pytest.approx(curve[-1] + slope * SIZES[-1])
    assert all_reduce_seconds([0.0, 1.0], H100).tolist() == [curve[0], curve[0]]


def test_one_rank_talks_to_nobody() -> None:
    assert all_reduce_seconds(1e6, replace(H100, ranks=1))[0] == 0.0


def test_pcie_is_slower_than_nvlink() -> None:
    """The same GPU without its NVLink domain falls back on PCIe."""
    nvlink, pcie = replace(H100, ranks=4), replace(H100, ranks=4, scale_up_gpus=1)
    assert all_reduce_seconds(2**20, pcie)[0] > 3 * all_reduce_seconds(2**20, nvlink)[0]


def test_crossing_nodes_costs_the_ring_between_them() -> None:
    """16 ranks on 2 nodes: the 8-rank time, 2 hops, and 2 x 1/2 x bytes over 72% of 3200 Gb/s."""
    link = replace(H100, ranks=16, network="infiniband", network_gbit_per_s=3200.0)
    size = float(SIZES[-1])
    between = 2 * 18e-6 + size / (3200e9 / 8 * 0.72)
    assert all_reduce_seconds(size, link)[0] == pytest.approx(all_reduce_seconds(size, H100)[0] + between)
    assert curve_seconds("all_reduce", link)[1] == "borrowed"


def test_a_network_of_unknown_rate_is_priced_slowly() -> None:
    known = replace(H100, ranks=16, network="infiniband", network_gbit_per_s=3200.0)
    unknown = replace(H100, ranks=16, network="unknown", network_gbit_per_s=math.nan)
    assert all_reduce_seconds(1e8, unknown)[0] > 5 * all_reduce_seconds(1e8, known)[0]


@pytest.mark.parametrize("gpu", ["V100-SXM-16GB", "MI300X-192GB", "GH200-96GB"])
@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "all_to_all"])
def test_gpus_without_measurements_borrow(gpu: str, operation: str) -> None:
    """A curve comes back, labelled, for GPUs that nobody measured."""
    link = Link(gpu, ranks=4, gpus_per_node=8, scale_up_gpus=8)
    seconds, kind = curve_seconds(operation, link)  # type: ignore[arg-type]
    assert kind == "borrowed"
    assert (seconds > 0).all()


def test_ranks_between_measured_groups_use_the_next_larger() -> None:
    assert collective_seconds("all_reduce", 1e6, replace(H100, ranks=6)) == collective_seconds("all_reduce", 1e6, H100)


def test_stages_in_one_node_send_over_its_fabric_and_others_over_the_network() -> None:
    """Two stages of 4 GPUs fit a node of 8; two stages of 8 do not, and pay the network's hop."""
    inside = replace(H100, ranks=4)
    outside = replace(H100, network="infiniband", network_gbit_per_s=3200.0)
    assert send_seconds(1e6, inside) < send_seconds(1e6, outside)
    assert float(send_seconds(0.0, outside)) == pytest.approx(18e-6)
