"""The plot of a front: cost against each latency that was asked for, a colour a GPU type."""

from __future__ import annotations

from typing import Any

from optimizer.report.plots.figure import INK, LINE, MARKERS, Numbers, Picture, colour_of
from optimizer.report.text import count
from optimizer.whatif.front_points import COLUMNS, LATENCY, Front, FrontPoint, Objective
from optimizer.wording import LATENCY_NAMES

MOST_LABELS = 9  # layouts named in a panel


def front_picture(front: Front) -> Picture | None:
    """Return a front: cost along, a panel a latency, the most traffic as the size where it was asked for.

    None where no layout keeps every rule.
    """
    if not front.points:
        return None
    panels = [name for name in LATENCY if name in front.objectives] or ["tpot"]
    looks = _looks(front)

    def paint(figure: Any) -> None:
        for axes, name in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw(axes, front, name, looks)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5))

    level = "mean" if front.at == "mean" else front.at
    sized = "; size: the most traffic carried" if "throughput" in front.objectives else ""
    count = f"{len(front.points)} layout{'s' if len(front.points) > 1 else ''}"
    title = (
        f"{front.scenario['model']}: {count} that no other beats, of {front.compared:,} compared "
        f"({level} latency{sized})"
    )
    return Picture(title, (1.2 + 5.6 * len(panels), 5.4), paint, [_numbers(front)])


def _numbers(front: Front) -> Numbers:
    headings = ("layout", "USD per hour", *(f"{LATENCY_NAMES[name]}, ms" for name in LATENCY), "most traffic")
    rows = [
        [
            point.summary,
            f"{point.usd_per_hour:,.2f}",
            *(count(getattr(point, COLUMNS[name])) for name in LATENCY),
            count(point.most_traffic),
        ]
        for point in front.points
    ]
    return Numbers(headings, rows)


def _looks(front: Front) -> dict[str, tuple[str, str]]:
    """Return a colour and a marker a GPU type, cheapest first."""
    names = list(dict.fromkeys(point.layout.gpu for point in front.points))
    return {name: (colour_of(at), MARKERS[at % len(MARKERS)]) for at, name in enumerate(names)}


def _draw(axes: Any, front: Front, name: Objective, looks: dict[str, tuple[str, str]]) -> None:
    column = COLUMNS[name]
    most = max(point.most_traffic for point in front.points)
    sized = "throughput" in front.objectives
    steps = lower_steps(front, column)
    axes.step(*zip(*steps, strict=True), where="post", color=LINE, linewidth=1.2, zorder=1, label="least for the money")
    for gpu, (colour, marker) in looks.items():
        mine = [point for point in front.points if point.layout.gpu == gpu]
        axes.scatter(
            [point.usd_per_hour for point in mine],
            [getattr(point, column) for point in mine],
            s=[30 + 220 * point.most_traffic / most if sized else 60 for point in mine],
            color=[colour],
            marker=marker,
            alpha=0.85,
            edgecolors="white",
            linewidths=0.6,
            label=gpu,
            zorder=3,
        )
    knee = front.points[front.knee or 0]
    axes.scatter(
        [knee.usd_per_hour], [getattr(knee, column)], s=260, facecolors="none", edgecolors=INK, linewidths=2,
        label="knee", zorder=4,
    )  # fmt: skip
    _scale(axes, front, column)
    axes.set(xlabel="USD per hour", ylabel=f"{LATENCY_NAMES[name]}, ms", title=LATENCY_NAMES[name].capitalize())
    axes.grid(visible=True, which="major")
    _label(axes, steps, front, column)


def _scale(axes: Any, front: Front, column: str) -> None:
    """Use logarithmic axes with plain numbers, and room at the right and above for names."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter  # noqa: PLC0415

    values = [getattr(point, column) for point in front.points]
    costs = [point.usd_per_hour for point in front.points]
    if min(values) <= 0:
        return
    axes.set(xscale="log", yscale="log")
    axes.set_xlim(min(costs) / 1.15, max(costs) * 1.6)
    axes.set_ylim(min(values) / 1.15, max(values) * 1.25)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 3, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
        axis.set_minor_formatter(NullFormatter())


def lower_steps(front: Front, column: str) -> list[tuple[float, float]]:
    """Return cost and latency of the points with which this latency alone falls, cheapest first."""
    steps: list[tuple[float, float]] = []
    for point in sorted(front.points, key=lambda one: (one.usd_per_hour, getattr(one, column))):
        value = getattr(point, column)
        if not steps or value < steps[-1][1]:
            steps.append((point.usd_per_hour, value))
    return steps


def _label(axes: Any, steps: list[tuple[float, float]], front: Front, column: str) -> None:
    """Name the layouts along the line, as many as there is room for."""
    last, room = len(steps) - 1, min(len(steps), MOST_LABELS)
    chosen = [steps[at * last // max(room - 1, 1)] for at in range(room)]
    by_place = {(point.usd_per_hour, getattr(point, column)): point for point in reversed(front.points)}
    for place in chosen:
        axes.annotate(
            short(by_place[place]), place, xytext=(5, 5), textcoords="offset points", fontsize=7, color=INK, zorder=5
        )


def short(point: FrontPoint) -> str:
    """Say a layout in a few characters: replicas, GPUs of each and how they are split."""
    layout = point.layout
    sizes = [f"TP{layout.tp}"]
    sizes += [f"PP{layout.pp}"] if layout.pp > 1 else []
    sizes += [f"DP{layout.attention_dp}"] if layout.attention_dp > 1 else []
    copies = f"{layout.replicas} x " if layout.replicas > 1 else ""
    return f"{copies}{' '.join(sizes)}"
