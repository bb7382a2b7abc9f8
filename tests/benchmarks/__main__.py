"""Print the figures of speed and growth that the documentation states; asserts nothing about time.

python -m tests.benchmarks            every figure
python -m tests.benchmarks warm       one of them: help, cold, warm, offers, predict, sweep
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "llama-3.1-70b-chat.yaml"
BASELINE = "import pandas; from ortools.sat.python import cp_model"


def seconds_of(*commands: list[str], runs: int = 7) -> list[float]:
    """Return the median wall time of each command, after one run that warms the file cache.

    They take turns, so that what else the machine does falls on all alike. Modules are compiled once, as in an
    installed package, whatever the environment says: a folder of their own holds them.
    """
    times: list[list[float]] = [[] for _ in commands]
    with tempfile.TemporaryDirectory() as compiled:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(runs + 1):
            for command, taken in zip(commands, times, strict=True):
                start = time.perf_counter()
                subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=environment)
                taken.append(time.perf_counter() - start)
    return [median(taken[1:]) for taken in times]


def seconds_in_python(call: Callable[[], object], runs: int = 9) -> float:
    """Return the median wall time of a call, after two that fill the caches."""
    times = []
    for _ in range(runs + 2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times[2:])


def measure_help() -> None:
    """`shardwise --help`, beside starting Python."""
    shown, bare = seconds_of([sys.executable, "-m", "optimizer.cli", "--help"], [sys.executable, "-c", "pass"])
    print(f"help:   shardwise --help {shown * 1e3:.0f} ms (python alone {bare * 1e3:.0f} ms)")


def measure_cold() -> None:
    """A cold solve on the whole bundled catalog, as a ratio to importing pandas and OR-Tools."""
    solve = [sys.executable, "-m", "optimizer.cli", "solve", str(EXAMPLE), "--json"]
    cold, imports = seconds_of(solve, [sys.executable, "-c", BASELINE])
    ratio = f"solve {cold * 1e3:.0f} ms / imports {imports * 1e3:.0f} ms = {cold / imports:.2f}"
    print(f"cold:   {ratio} (aim: at most 1.6)")


def measure_warm() -> None:
    """A warm solve through the Python call: all GPU types, all splits, three precisions."""
    from catalogs.models import load_model  # noqa: PLC0415
    from catalogs.offers import load_offers  # noqa: PLC0415
    from optimizer.scenario import load_scenario  # noqa: PLC0415
    from optimizer.solve import solve  # noqa: PLC0415

    scenario = load_scenario(EXAMPLE).changed("limits", weights=["bf16", "fp8", "int4"])
    model, catalog = load_model(scenario.model), load_offers()
    plan = solve(scenario, model=model, catalog=catalog)
    taken = seconds_in_python(lambda: solve(scenario, model=model, catalog=catalog))
    gpus = catalog.frame["gpu"].nunique()
    print(
        f"warm:   {taken * 1e3:.0f} ms for {gpus} GPU types, {plan.solver.candidates:,} candidates in 3 precisions, "
        f"{len(catalog.frame):,} offers (aim: under 60 ms)"
    )


def measure_offers() -> None:
    """Growth from 1,000 to 100,000 offers of the same shapes: price enters last."""
    import numpy as np  # noqa: PLC0415

    from catalogs.models import load_model  # noqa: PLC0415
    from catalogs.offers import load_offers  # noqa: PLC0415
    from optimizer.scenario import load_scenario  # noqa: PLC0415
    from optimizer.solve import solve  # noqa: PLC0415

    scenario = load_scenario(EXAMPLE)
    model, catalog = load_model(scenario.model), load_offers()
    taken = {}
    for amount in (1_000, 10_000, 100_000):
        # The same thousand offers over and over in other regions, each a little dearer.
        thousand = catalog.frame.iloc[np.arange(1_000) * len(catalog.frame) // 1_000]
        rows = np.tile(np.arange(1_000), amount // 1_000)
        copy = np.repeat(np.arange(amount // 1_000), 1_000)
        frame = thousand.iloc[rows].reset_index(drop=True)
        frame["price_usd_per_node_hour"] *= 1 + copy / 1e6
        frame["region"] = frame["region"].astype(str) + np.char.add("-", copy.astype(str)).astype(object)
        frame = frame.sort_values("price_usd_per_node_hour", kind="stable", ignore_index=True)
        many = replace(catalog, frame=frame)
        taken[amount] = seconds_in_python(lambda many=many: solve(scenario, model=model, catalog=many), runs=5)
    shown = ", ".join(f"{amount:,}: {value * 1e3:.0f} ms" for amount, value in taken.items())
    print(f"offers: {shown}; 100,000 / 1,000 = {taken[100_000] / taken[1_000]:.2f} (aim: under 3)")


def measure_predictions() -> None:
    """Predictions of 10,000 candidate replicas at once: the table of coefficients, and TTFT, TPOT and throughput."""
    import numpy as np  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    from catalogs.gpus import load_gpus  # noqa: PLC0415
    from catalogs.models import load_model  # noqa: PLC0415
    from optimizer.performance.latency import predict_closed_loop  # noqa: PLC0415
    from optimizer.performance.speed import SpeedModel  # noqa: PLC0415

    rows = 10_000
    gpus, at = list(load_gpus()), np.arange(rows)
    table = pd.DataFrame(
        {
            "gpu": np.array(gpus)[at % len(gpus)],
            "weights": np.array(["bf16", "fp8", "int4"])[at // 7 % 3],
            "kv_cache": "bf16",
            "tp": 2 ** (at // 3 % 4),
            "pp": 1 + at // 11 % 2,
            "ep": 1,
            "attention_dp": 1,
            "gpus_per_node": 8,
            "fabric": "nvswitch",
            "scale_up_gpus": 8,
            "network": "infiniband",
            "network_gbit_per_s": 3200.0,
        }
    )
    for name in ("meta-llama/Meta-Llama-3.1-70B", "deepseek-ai/DeepSeek-V3"):
        model = load_model(name)
        speed = SpeedModel(model, table)
        built = seconds_in_python(lambda model=model: SpeedModel(model, table))
        taken = seconds_in_python(lambda speed=speed: predict_closed_loop(speed, 32, 2000, 500))
        print(
            f"predict: {taken / rows * 1e6:.2f} us a candidate in a batch of {rows:,} (aim: under 5), and "
            f"{built / rows * 1e6:.2f} us to set it up; {name}"
        )


def measure_sweep() -> None:
    """Sweeps of 1,000 points of one scenario, as commands; a part of some is infeasible."""
    grids = {
        "1,000 request rates": ["workload.request_rate=0.1:100:0.1"],
        "25 request rates x 20 TPOT targets x 2 precisions": [
            "workload.request_rate=1:10:n25",
            "targets.tpot_ms=2:40:2",
            "limits.weights=bf16,fp8",
        ],
        "25 request rates x 40 prices of H100": ["workload.request_rate=1:10:n25", "price:H100*=0.5:1.5:n40"],
        "1,000 context lengths": ["workload.context_tokens=2300:32000:n1000"],
    }
    for said, vary in grids.items():
        with tempfile.TemporaryDirectory() as folder:
            flags = [part for one in vary for part in ("--vary", one)]
            command = [sys.executable, "-m", "optimizer.cli", "whatif", "sweep", str(EXAMPLE), *flags, "--json"]
            before, start = os.times(), time.perf_counter()
            done = subprocess.run(
                [*command, "--out", f"{folder}/sweep.csv"], cwd=ROOT, check=True, capture_output=True, text=True
            )
            wall, after = time.perf_counter() - start, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        found = json.loads(done.stdout)
        counts = ", ".join(f"{number} {status}" for status, number in found["counts"].items())
        print(f"sweep:  {wall:.0f} s ({cpu:.0f} s of CPU) for {said} in {found['engine']}: {counts} (aim: under 60 s)")


MEASURES = {
    "help": measure_help,
    "cold": measure_cold,
    "warm": measure_warm,
    "offers": measure_offers,
    "predict": measure_predictions,
    "sweep": measure_sweep,
}


def main() -> None:
    """Run the measures named, or all."""
    for name in sys.argv[1:] or MEASURES:
        MEASURES[name]()


if __name__ == "__main__":
    main()
