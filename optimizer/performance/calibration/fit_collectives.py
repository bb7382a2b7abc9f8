"""Write data/collectives.toml from a CSV of measured collective latencies.

Run: python -m optimizer.performance.calibration.fit_collectives MEASURED.csv --date 2026-08-01

The CSV has one measurement a row: gpu, op, world_size, bytes, latency_us, nodes, impl. For each GPU, operation and
group size the curve is the median over versions of each implementation and the fastest implementation of each size,
made physical: a bigger message never costs less, and one message never costs more than its four quarters.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from optimizer.performance.collectives import DATA_FILE, SIZES, interpolate, physical

Array = npt.NDArray[np.float64]

OPERATIONS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "alltoall": "all_to_all"}
# Eager launches carry 20-40 us of host time that decode under CUDA graphs does not pay.
GRAPH_MODE = ("NCCL", "TRTLLM", "vLLM_custom_graph", "SGLang_CustomAllReduce_graph")
GPUS = {
    "A100-SXM-80GB": "A100-SXM-80GB",
    "H100-SXM-80GB": "H100-SXM-80GB",
    "H200-SXM-141GB": "H200-SXM-141GB",
    "B200-SXM-180GB": "B200-SXM-180GB",
    "B300-SXM-288GB": "B300-SXM-288GB",
    "GB200-NVL72-192GB": "GB200-NVL72",
    "GB300-NVL72-288GB": "GB300-NVL72",
    "L40S-48GB": "L40S-48GB",
    "RTX-PRO-6000-BSE-96GB": "RTXPRO6000-96GB",
}

NETWORKS = """
unknown_network_gbit_per_s = 100.0

# Share of the line rate and seconds per hop. Measured: two H100 nodes send 64 MiB in 1.87 ms (287 Gb/s of 400) and
# 2 KiB in 17 us; two A100 nodes reduce 2 KiB in 43 us, about two hops (Vidur profiling data, microsoft/vidur@7d475133,
# network kind not stated). EFA, RoCE, Spectrum-X and plain Ethernet are set beside them by what is known of their
# latency: borrowed, not fitted.
[networks]
infiniband = { efficiency = 0.72, hop_microseconds = 18.0 }
roce = { efficiency = 0.70, hop_microseconds = 20.0 }
spectrum_x = { efficiency = 0.72, hop_microseconds = 20.0 }
efa = { efficiency = 0.65, hop_microseconds = 30.0 }
ethernet = { efficiency = 0.60, hop_microseconds = 50.0 }
unknown = { efficiency = 0.50, hop_microseconds = 50.0 }
"""


def fastest(rows: pd.DataFrame) -> pd.Series:
    """Return seconds by bytes: the median over versions of each implementation, then the fastest implementation."""
    by_implementation = rows.groupby(["impl", "bytes"])["latency_us"].median()
    return by_implementation.groupby("bytes").min() * 1e-6


def on_grid(measured: pd.Series) -> Array:
    """Read a measured curve off at the grid's sizes, linear in bytes."""
    grid = np.interp(SIZES, measured.index.to_numpy(dtype=float), measured.to_numpy(dtype=float))
    return physical(grid)


def residual_percent(curve: Array, measured: pd.Series) -> float:
    """Return the median absolute error of the curve against the measurements it came from, in percent."""
    sizes = measured.index.to_numpy(dtype=float)
    predicted = interpolate(curve[None, :], np.zeros(len(sizes), dtype=np.intp), sizes)
    return float(np.median(np.abs(predicted / measured.to_numpy(dtype=float) - 1.0)) * 100.0)


def curves(measured: pd.DataFrame) -> list[str]:
    """Return the TOML text of each curve, in a stable order."""
    single_node = measured[(measured["nodes"] != 2) & measured["impl"].isin(GRAPH_MODE) & measured["gpu"].isin(GPUS)]
    blocks = []
    known = single_node[single_node["op"].isin(OPERATIONS) & (single_node["world_size"] >= 2)]
    for key, rows in known.groupby(["gpu", "op", "world_size"]):
        gpu, operation, ranks = map(str, key)
        by_size = fastest(rows)
        curve = on_grid(by_size)
        numbers = ", ".join(f"{value * 1e6:.4g}" for value in curve)
        blocks.append(
            f'[[curves]]\ngpu = "{GPUS[gpu]}"\noperation = "{OPERATIONS[operation]}"\nranks = {ranks}\n'
            f"microseconds = [{numbers}]\nrows = {len(rows)}\n"
            f"median_error_percent = {residual_percent(curve, by_size):.1f}\n"
        )
    return blocks


def main() -> None:
    """Fit and write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=Path)
    parser.add_argument("--date", required=True, help="date of the fit, YYYY-MM-DD")
    parser.add_argument("--out", type=Path, default=DATA_FILE)
    arguments = parser.parse_args()
    blocks = curves(pd.read_csv(arguments.measurements, low_memory=False))
    text = (
        "# Written by optimizer/performance/calibration/fit_collectives.py; not edited by hand.\n"
        '[meta]\nsource = "ai-dynamo/aiconfigurator@095f58a5 system tables (Apache-2.0): NCCL and the all-reduce '
        'kernels of vLLM, SGLang and TensorRT-LLM under CUDA graphs; microsoft/vidur@7d475133 (MIT) between nodes"\n'
        f'date = {arguments.date}\nsizes = "powers of four from 1 KiB to 256 MiB"\n'
    )
    head, networks = NETWORKS.strip().split("\n", 1)
    body = f"{head}\n\n{text}\n{networks.strip()}\n\n" + "\n".join(blocks)
    arguments.out.write_text(body, encoding="utf-8")


if __name__ == "__main__":
    main()
