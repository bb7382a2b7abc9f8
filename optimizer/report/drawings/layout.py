"""The drawings of a layout and of a fleet: their nodes under what is rented, with a key."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.fleet.plan import FleetPlan, Site
from optimizer.plan import Layout
from optimizer.report.drawings.colours import category, colour
from optimizer.report.drawings.layout_words import layout_words
from optimizer.report.drawings.nodes import draw_nodes
from optimizer.report.drawings.places import NodeSeats, nodes_of_fleet, nodes_of_layout, shape_of
from optimizer.report.drawings.svg import Canvas, fitting, wrapped
from optimizer.wording import node_words, nodes_words, place_words, split_words, summarize


def draw_layout(layout: Layout, *, width: float = 720.0, standalone: bool = False) -> str:
    """Draw a layout as SVG.

    Args:
        layout: what is rented and how it is split.
        width: units that it is drawn in; letters are 10 to 13 of them high. 340 suits a phone.
        standalone: bring the colours along (see `Canvas.svg`).
    """
    canvas = Canvas(width)
    nodes = nodes_of_layout(layout)
    what = node_words(layout.nodes, layout.gpus_per_node, layout.gpu)
    place = place_words(layout.model_dump())
    canvas.text(0, 14, fitting(width, 13, f"{what}, {place}", what), size=13, bold=True)
    draw_nodes(canvas, nodes, shape_of(layout), 22.0, layout.nodes, by_replica=True)
    _legend(canvas, nodes)
    return canvas.svg(summarize(layout), layout_words(layout), standalone=standalone)


def draw_fleet_nodes(plan: FleetPlan, period: int = 0, *, width: float = 720.0, standalone: bool = False) -> str:
    """Draw the nodes of a fleet in one period of its cycle as SVG, site by site; arguments as of `draw_layout`."""
    canvas = Canvas(width)
    top, drawn = 0.0, []
    for site in plan.sites:
        nodes = nodes_of_fleet(plan, site, period)
        if not nodes:
            continue
        total = sum(node.count * (1 + node.apart) for node in nodes)
        canvas.text(0, top + 15, _site_words(site, total, width), size=13, bold=True)
        top = draw_nodes(canvas, nodes, shape_of(site), top + 22, total, by_replica=False) + 16
        drawn += nodes
    if not drawn:
        canvas.text(0, 16, "No node is rented in this period.", fill=colour("muted"))
    _pool_names(canvas, plan, drawn)
    _legend(canvas, drawn)
    told = "; ".join(f"{site.id}: {site.gpus_per_node}x {site.gpu} of {site.provider}" for site in plan.sites)
    return canvas.svg(plan.summary, f"Nodes of the fleet and what runs on each. {told}.", standalone=standalone)


def _pool_names(canvas: Canvas, plan: FleetPlan, nodes: Sequence[NodeSeats]) -> None:
    """Say which colour is which pool."""
    kinds = sorted({seat.kind for node in nodes for seat in node.seats if seat is not None})
    y = canvas.height + 4
    for kind in kinds:
        pool = plan.pools[kind]
        split = split_words(pool)
        y += 18
        canvas.rect(0, y - 10, 11, 11, fill=category(kind), radius=2)
        canvas.text(16, y, fitting(canvas.width - 16, 12, f"{pool.id}: {pool.model} in {split}", pool.id))


def _site_words(site: Site, nodes: int, width: float) -> str:
    short = f"{site.id}: {nodes_words(nodes)} of {site.gpus_per_node}x {site.gpu}"
    return fitting(width, 13, f"{short}, {site.provider} {site.region}{', spot' if site.spot else ''}", short)


def _legend(canvas: Canvas, nodes: Sequence[NodeSeats]) -> None:
    """Say how the drawing is read, where it needs saying."""
    seats = [seat for node in nodes for seat in node.seats]
    said = []
    if any(seat is not None and seat.tp > 1 for seat in seats):
        said.append("Shaded together: one tensor parallel group, which holds every matrix of its stage in slices.")
    if any(node.count > 1 for node in nodes):
        said.append("Nodes that are alike are drawn once, with their number.")
    if any(seat is None for seat in seats):
        said.append("Dashed: rented and idle.")
    y = canvas.height + 8
    for sentence in said:
        for line in wrapped(sentence, canvas.width, 11):
            y += 15
            canvas.text(0, y, line, size=11, fill=colour("muted"))
