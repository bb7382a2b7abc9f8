"""Figures of the fleet program: beside PuLP with CBC on the same work, and how its time grows.

python -m tests.benchmarks.fleets             every figure
python -m tests.benchmarks.fleets peer        one of them: peer, one, models, day, large

Instances are drawn, the same ones every time. Times are wall time of one run, everything from the table to the audited
shares included.
"""

from __future__ import annotations

import math
import random
import sys
import time
from statistics import median
from typing import Any

from optimizer.fleet.capacity_solve import solve_capacity
from optimizer.fleet.capacity_table import ClassTable
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_instance import UNLIMITED, FleetAnswer, FleetInstance, Kind, Option, Site
from optimizer.programs.layout import Settings

PEER_SECONDS = 60
WORKERS = 2


def draw_table(
    seed: int, kinds: int = 12, classes: int = 100, rate: float | None = None, slices: int = 4
) -> ClassTable:
    """Draw a table of one model: rates fall with lengths, dearer kinds are faster, some cannot serve long prompts."""
    rng = random.Random(seed)
    speed = [rng.uniform(1, 6) for _ in range(max(kinds // 2, 1))]
    rows, columns = 10, classes // 10
    made = {}
    for index in range(kinds):
        one, tp = speed[index % len(speed)], 2 ** (index // len(speed))
        rates = []
        for row in range(rows):
            prompt = 100 * 2 ** (row * 0.8)
            able = not (tp == 1 and one < 3 and prompt > 8000)
            rates.append(
                [
                    one * tp**0.95 * 3000 / (prompt * 0.1 + 20 * 2 ** (column * 8 / columns)) * rng.uniform(0.7, 1.3)
                    if able
                    else 0.0
                    for column in range(columns)
                ]
            )
        price = round(one * tp * rng.uniform(0.8, 1.2) * 0.9, 2)
        made[f"kind {index}"] = {"usd_per_hour": price, "requests_per_second": rates}
    weights = [[rng.expovariate(1) / (1 + row + column) for column in range(columns)] for row in range(rows)]
    total = math.fsum(map(math.fsum, weights))
    return ClassTable.model_validate(
        {
            "kinds": made,
            "class_shares": [[weight / total for weight in row] for row in weights],
            "request_rate": rate or rng.choice([5, 20, 60, 150]),
            "slices_per_class": slices,
        }
    )


def solve_with_pulp(table: ClassTable, *, slices: bool) -> tuple[str, float, float]:
    """Solve a table as Melange does (Griggs et al. 2024), in PuLP with CBC; return status, dollars and seconds.

    Without slices, the same program with shares that may be split.
    """
    import pulp  # noqa: PLC0415

    start = time.perf_counter()
    parts = table.slices_per_class if slices else 1
    items = [
        (row, column)
        for row, shares in enumerate(table.class_shares)
        for column, share in enumerate(shares)
        if share
        for _ in range(parts)
    ]
    kinds = list(table.kinds.values())
    program = pulp.LpProblem("melange", pulp.LpMinimize)
    counts = [pulp.LpVariable(f"count_{j}", 0, cat="Integer") for j in range(len(kinds))]
    category = "Binary" if slices else "Continuous"
    gives = {
        (i, j): pulp.LpVariable(f"gives_{i}_{j}", 0, 1, cat=category)
        for i, (row, column) in enumerate(items)
        for j, kind in enumerate(kinds)
        if kind.requests_per_second[row][column] > 0
    }
    program += pulp.lpSum(kind.usd_per_hour * count for kind, count in zip(kinds, counts, strict=True))
    for i in range(len(items)):
        program += pulp.lpSum(gives[i, j] for j in range(len(kinds)) if (i, j) in gives) == 1
    for j, kind in enumerate(kinds):
        load = pulp.lpSum(
            table.class_shares[row][column]
            * table.request_rate
            / parts
            / kind.requests_per_second[row][column]
            * gives[i, j]
            for i, (row, column) in enumerate(items)
            if (i, j) in gives
        )
        program += load <= counts[j]
    program.solve(pulp.PULP_CBC_CMD(msg=0, timeLimit=PEER_SECONDS, threads=WORKERS))
    status = "optimal" if program.sol_status == pulp.LpSolutionOptimal else "feasible"
    return status, float(pulp.value(program.objective)), time.perf_counter() - start


def measure_peer() -> None:
    """12 kinds x 100 classes: the same optimum, and how many times as fast."""
    for slices in (False, True):
        ratios = []
        for seed in range(1, 9):
            table = draw_table(seed)
            start = time.perf_counter()
            ours = solve_capacity(table, slices=slices)
            taken = time.perf_counter() - start
            status, cost, peer = solve_with_pulp(table, slices=slices)
            assert ours.status == "optimal"
            assert ours.usd_per_hour is not None
            same = "same cost" if abs(cost - ours.usd_per_hour) < 1e-6 else f"theirs ${cost:.2f}"
            assert cost >= ours.usd_per_hour - 1e-6
            ratios.append(peer / taken)
            print(
                f"peer:   seed {seed}, {table.request_rate:g} requests/s, {'slices' if slices else 'shares'}: "
                f"${ours.usd_per_hour:.2f} proved in {taken * 1e3:.0f} ms; CBC {status} in {peer:.2f} s, {same}: "
                f"{peer / taken:.0f}x"
            )
        kind = "slices" if slices else "shares"
        print(f"peer:   {kind}: {min(ratios):.0f}x to {max(ratios):.0f}x, median {median(ratios):.0f}x")


def draw_models(seed: int, models: int, classes: int = 20, kinds: int = 60, sites: int = 10) -> FleetInstance:
    """Draw models whose replicas share nodes of 8 GPUs on some sites."""
    rng = random.Random(seed)
    speed = [rng.uniform(1, 6) for _ in range(sites)]
    prices = [round(one ** rng.uniform(0.8, 1.1) * rng.uniform(0.9, 1.2) * 720) * 10_000 for one in speed]
    made_sites = tuple(Site(8, (Option(price),)) for price in prices)
    demand: list[float] = []
    made: list[Kind] = []
    for model in range(models):
        size = rng.choice([1, 2, 4, 8, 15, 30])
        lengths = [(rng.choice([100, 300, 1000, 3000, 8000]), rng.choice([30, 100, 300, 800])) for _ in range(classes)]
        work = [(prompt * 0.1 + answer) * size / 2000 for prompt, answer in lengths]
        weights = [rng.expovariate(1) for _ in lengths]
        rate = rng.uniform(6, 90) / sum(w * c for w, c in zip(weights, work, strict=True))
        demand += [rate * weight for weight in weights]
        for site in range(sites):
            splits = [(tp, precision) for tp in (1, 2, 4, 8) for precision in range(3)]
            for tp, precision in rng.sample(splits, kinds // sites):
                room = 1 - size / (tp * 8 * (1 + precision * 0.6))
                rates = [0.0] * (models * classes)
                for c, (prompt, _) in enumerate(lengths):
                    if room > 0 and not (prompt >= 8000 and tp * speed[site] < 4):
                        pace = speed[site] * tp**0.92 * (0.3 + 0.7 * room) * (1 + 0.25 * precision)
                        rates[model * classes + c] = pace * rng.uniform(0.8, 1.2) / work[c]
                made.append(Kind(site, tp, tuple(rates)))
    groups = tuple(c // classes for c in range(models * classes))
    return FleetInstance(made_sites, tuple(made), (tuple(demand),), groups=groups)


def said(answer: FleetAnswer) -> str:
    """Say how a solve ended."""
    if answer.cost_micro_usd is None:
        return f"{answer.status} in {answer.seconds:.1f} s"
    gap = 1 - (answer.bound_micro_usd or 0) / answer.cost_micro_usd if answer.cost_micro_usd else 0.0
    shown = "proved" if answer.status == "optimal" else f"gap {gap:.2%}"
    return f"${answer.cost_micro_usd / 1e6:,.2f}, {shown} in {answer.seconds:.2f} s"


def measure_one() -> None:
    """One model: 40 kinds x 20 classes on shared nodes, and growth with kinds and classes."""
    for kinds, classes, sites in (
        (40, 20, 10),
        (80, 20, 10),
        (160, 20, 20),
        (320, 20, 40),
        (40, 80, 10),
        (40, 320, 10),
    ):
        for seed in (1, 2, 3):
            answer = cheapest_fleet(draw_models(seed, 1, classes, kinds, sites), Settings(workers=WORKERS))
            print(f"one:    {kinds} kinds x {classes} classes on {sites} sites, draw {seed}: {said(answer)}")


def measure_models() -> None:
    """Models of 20 classes and 60 kinds each that share nodes."""
    for models in (1, 2, 4, 8, 12):
        for seed in (1, 2):
            answer = cheapest_fleet(draw_models(seed, models), Settings(time_limit_s=20, workers=WORKERS))
            print(f"models: {models} models x 20 classes x 60 kinds, draw {seed}: {said(answer)}")


def draw_day(seed: int, sites: int, classes: int = 5, kinds: int = 3) -> FleetInstance:
    """Draw a day of 24 hours on sites with an hourly and two committed options each."""
    rng = random.Random(seed)
    made_sites, made = [], []
    work = [rng.uniform(0.05, 2) for _ in range(classes)]
    for site in range(sites):
        speed = rng.uniform(1, 6)
        price = round(speed ** rng.uniform(0.8, 1.1) * rng.uniform(0.9, 1.2) * 720) * 10_000
        options = (
            Option(price),
            Option(price * 7 // 10, committed=True),
            Option(price // 2, committed=True, node_cap=rng.choice([1, 2, 4])),
        )
        made_sites.append(Site(8, options, provider=f"p{site % 3}"))
        for tp in rng.sample([1, 2, 4, 8], kinds):
            rates = (0.0 if rng.random() < 0.1 else speed * tp**0.93 * rng.uniform(0.8, 1.2) / one for one in work)
            made.append(Kind(site, tp, tuple(rates)))
    base = [rng.uniform(10, 60) / one for one in work]
    demand = tuple(
        tuple(one * (0.57 + 0.45 * math.sin((hour - 8) / 12 * math.pi + rng.uniform(-0.3, 0.3))) for one in base)
        for hour in range(24)
    )
    return FleetInstance(tuple(made_sites), tuple(made), demand, hours=(1.0,) * 24)


def measure_day() -> None:
    """A day of 24 periods with 5 classes, by the number of sites."""
    for sites in (2, 4, 10):
        answer = cheapest_fleet(draw_day(1, sites), Settings(time_limit_s=20, workers=WORKERS))
        print(f"day:    24 periods x 5 classes, {sites} sites with 3 options each: {said(answer)}")


def draw_large(seed: int, *, capped: bool, shapes: int = 40, copies: int = 8) -> FleetInstance:
    """Draw a large table: shapes of node, each offered by some providers at their own prices."""
    rng = random.Random(seed)
    sites, made = [], []
    work = [rng.uniform(0.05, 3) for _ in range(20)]
    for _ in range(shapes):
        speed, gpus = rng.uniform(0.5, 6), rng.choice([1, 2, 4, 8, 8, 8])
        base = speed ** rng.uniform(0.85, 1.05) * gpus * rng.uniform(0.8, 1.3)
        splits = []
        for _ in range(8):
            tp = rng.choice([size for size in (1, 2, 4, 8) if size <= gpus])
            pace = speed * tp**0.93 * rng.uniform(0.7, 1.3)
            rates = tuple(0.0 if rng.random() < 0.1 else pace * rng.uniform(0.8, 1.2) / one for one in work)
            splits.append((tp, rates))
        for copy in range(copies):
            cap = rng.choice([2, 4, 8]) if capped else UNLIMITED
            price = round(base * rng.uniform(1, 1.6) * 100) * 10_000
            made += [Kind(len(sites), tp, rates) for tp, rates in splits]
            sites.append(Site(gpus, (Option(price, node_cap=cap),), provider=f"p{copy}"))
    demand = tuple(rng.uniform(5, 30) / one for one in work)
    return FleetInstance(tuple(sites), tuple(made), (demand,))


def measure_large() -> None:
    """Thousands of kinds on hundreds of sites."""
    for capped in (False, True):
        instance = draw_large(1, capped=capped)
        answer = cheapest_fleet(instance, Settings(time_limit_s=20, workers=WORKERS))
        stock = "few nodes in stock" if capped else "any number of nodes"
        print(f"large:  {len(instance.kinds):,} kinds on {len(instance.sites)} sites, {stock}: {said(answer)}")


MEASURES: dict[str, Any] = {
    "peer": measure_peer,
    "one": measure_one,
    "models": measure_models,
    "day": measure_day,
    "large": measure_large,
}


def main() -> None:
    """Run the measures named, or all."""
    for name in sys.argv[1:] or MEASURES:
        MEASURES[name]()


if __name__ == "__main__":
    main()
