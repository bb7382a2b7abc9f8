"""A front as a table, as CSV, and as a plot of cost against latency."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimizer.errors import QuestionError
from optimizer.report.text import count, dollars, make_console, make_table, milliseconds
from optimizer.user_files import write_whole
from optimizer.whatif.front import WORTH
from optimizer.whatif.front_points import Front, FrontPoint, Objective

MOST_SHOWN = 24  # points in a table; the rest are in --out and --json
TRAFFIC_UNITS = {
    "request_rate": "requests/s",
    "concurrency": "in flight",
    "output_tokens_per_second": "tokens/s",
}
LAYOUT_COLUMNS = (
    "provider",
    "region",
    "instance_type",
    "gpu",
    "gpus_per_node",
    "nodes",
    "term",
    "weights",
    "kv_cache",
    "tp",
    "pp",
    "ep",
    "attention_dp",
    "replicas",
    "concurrency_per_replica",
    "price_usd_per_node_hour",
    "price_seen_on",
)
FIGURES = ("usd_per_hour", "tpot_ms", "ttft_ms", "e2e_ms", "most_traffic")


def print_front(front: Front) -> None:
    """Print a front, cheapest first, with its knee and the best of each objective marked."""
    out = make_console()
    if not front.points:
        out.print("INFEASIBLE  no layout in the catalog keeps every rule", style="bold red")
        out.print("`shardwise solve` of the same scenario says which rules conflict, and what would help.")
        return
    by = ", ".join(_name(name) for name in front.objectives)
    out.print(f"FRONT of {by}: {len(front.points):,} of {front.compared:,} layouts", style="bold green")
    out.print(
        f"Complete up to {dollars(front.up_to_usd_per_hour)}/hour: each of the others is matched or beaten in "
        f"everything by one of these. Latencies are {_level_words(front)} at the scenario's traffic."
    )
    out.print()
    shown = pick(front.points, MOST_SHOWN)
    columns = _columns(front.objectives, TRAFFIC_UNITS[front.traffic_kind])
    table = make_table(*((title, "right") for title, _ in columns), ("layout", "left"))
    for point in shown:
        marks = [*(f"best {_name(name)}" for name in point.best_in if name != "cost")]
        marks = ["knee", *marks] if point.knee else marks
        said = f"{point.summary}\n- {', '.join(marks)}" if marks else point.summary
        table.add_row(*(say(point) for _, say in columns), said)
    out.print(table)
    if len(shown) < len(front.points):
        out.print(f"{len(front.points) - len(shown):,} more points are in --out FILE.csv and in --json.")
    out.print(_knee_words(front))
    for warning in front.warnings:
        out.print(f"Note: {warning}.", style="yellow")


def _name(objective: Objective) -> str:
    return objective if objective in ("cost", "throughput") else objective.upper()


def _level_words(front: Front) -> str:
    level = "means" if front.at == "mean" else f"{front.at} of requests"
    return level if front.confidence is None else f"{level}, held with {front.confidence:.0%} confidence,"


def _columns(objectives: Sequence[Objective], unit: str) -> list[tuple[str, Any]]:
    """Return headings and what stands under them: the cost, what was asked for, and TPOT and TTFT in any case."""
    columns: list[tuple[str, Any]] = [("$/hour", lambda point: dollars(point.usd_per_hour))]
    columns += [
        ("TPOT", lambda point: milliseconds(point.tpot_ms)),
        ("TTFT", lambda point: milliseconds(point.ttft_ms)),
    ]
    if "e2e" in objectives:
        columns.append(("E2E", lambda point: milliseconds(point.e2e_ms)))
    if "throughput" in objectives:
        columns.append((f"most {unit}", lambda point: count(point.most_traffic)))
    return columns


def _knee_words(front: Front) -> str:
    knee, least = front.points[front.knee or 0], front.points[0]
    if knee.usd_per_hour == least.usd_per_hour:
        return f"Knee: the cheapest itself; nothing dearer that is {WORTH:.0%} better was found."
    return (
        f"Knee, the most gain per dollar above the cheapest: {dollars(knee.usd_per_hour)}/hour, "
        f"{knee.usd_per_hour / least.usd_per_hour:.2g} times the least cost, for TPOT {milliseconds(knee.tpot_ms)} "
        f"instead of {milliseconds(least.tpot_ms)} and TTFT {milliseconds(knee.ttft_ms)} instead of "
        f"{milliseconds(least.ttft_ms)}."
    )


def pick(points: Sequence[FrontPoint], most: int) -> list[FrontPoint]:
    """Return at most so many points in order: the ends, the knee, the best of each objective, others evenly between."""
    if len(points) <= most:
        return list(points)
    first_best: dict[str, int] = {}
    for position, point in enumerate(points):
        for name in point.best_in:
            first_best.setdefault(name, position)
    kept = {0, len(points) - 1, *first_best.values(), *(at for at, point in enumerate(points) if point.knee)}
    others = [at for at in range(len(points)) if at not in kept]
    room = max(most - len(kept), 0)
    kept |= {others[at * len(others) // room] for at in range(room)}
    return [points[at] for at in sorted(kept)]


def front_csv(front: Front) -> str:
    """Return all points as CSV, a row a point, cheapest first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*FIGURES, "knee", "best_in", *LAYOUT_COLUMNS))
    for point in front.points:
        figures = [f"{getattr(point, name):.9g}" for name in FIGURES]
        layout = [getattr(point.layout, name) for name in LAYOUT_COLUMNS]
        writer.writerow((*figures, str(point.knee).lower(), " ".join(point.best_in), *layout))
    return out.getvalue()


def write_front(front: Front, out: Path) -> None:
    """Write all points as CSV.

    Raises:
        QuestionError: the file cannot be written.
    """
    try:
        write_whole(out, front_csv(front))
    except OSError as error:
        raise QuestionError(f"{out}: cannot be written ({error.strerror or error})") from None
