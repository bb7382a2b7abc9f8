"""Nodes side by side: their GPUs, what each holds, and what joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from optimizer.report.drawings.colours import category, colour
from optimizer.report.drawings.layout_words import fabric_words, group_words, network_words
from optimizer.report.drawings.places import NodeSeats, Seat, Shape
from optimizer.report.drawings.svg import Canvas, fitting, shortened, text_width
from optimizer.wording import nodes_words

CELL, HEIGHT, GAP = 72.0, 40.0, 6.0  # of a GPU, and between GPUs
PAD, HEAD, LABEL, FABRIC = 10.0, 24.0, 16.0, 14.0  # of a node: edge, title, names of groups, fabric
SPINE = 16.0  # room for the line of the network at the left


@dataclass(frozen=True)
class _Frame:
    """How the nodes of one shape are drawn: cells of so many columns, boxes of one size."""

    columns: int
    rows: int
    cell: float

    @property
    def width(self) -> float:
        return 2 * PAD + self.columns * (self.cell + GAP) - GAP

    @property
    def row_height(self) -> float:
        return LABEL + HEIGHT + FABRIC

    @property
    def height(self) -> float:
        return HEAD + self.rows * self.row_height + PAD - 4


def _frame_of(shape: Shape, width: float) -> _Frame:
    """Choose columns that divide the GPUs of a node, so that groups lie whole in rows where they can."""
    size = shape.gpus_per_node
    room = width - 2 * PAD + GAP
    most = max(int(room // (52.0 + GAP)), 1)
    columns = next((count for count in range(min(size, most, 8), 0, -1) if size % count == 0), 1)
    if columns * 2 <= min(size, most, 8):  # a prime number of GPUs
        columns = min(size, most, 8)
    cell = min(CELL, room / columns - GAP)
    if columns == 1:
        cell = min(2 * CELL, room - GAP)
    return _Frame(columns, -(-size // columns), cell)


def draw_nodes(
    canvas: Canvas, nodes: Sequence[NodeSeats], shape: Shape, top: float, total: int, *, by_replica: bool
) -> float:
    """Draw nodes side by side and in rows, with the network that joins them; return where they end."""
    joined = total > 1
    left = SPINE if joined else 0.0
    frame = _frame_of(shape, canvas.width - left - 5)  # 5: the edge of the nodes behind
    across = max(int((canvas.width - left + 2 * PAD) // (frame.width + 2 * PAD)), 1)
    rows = [nodes[at : at + across] for at in range(0, len(nodes), across)]
    if joined:
        words = network_words(shape)
        canvas.text(left, top + 11, words[0].upper() + words[1:], size=11, fill=colour("muted"))
        top += 18
    for row in rows:
        if joined:
            middles = [left + at * (frame.width + 2 * PAD) + frame.width / 2 for at in range(len(row))]
            for middle in middles:
                canvas.line(middle, top, middle, top + 10, stroke=colour("line"), width=2)
            canvas.line(2, top, middles[-1], top, stroke=colour("line"), width=2)
            top += 10
        for at, node in enumerate(row):
            _draw_node(canvas, node, shape, frame, left + at * (frame.width + 2 * PAD), top, by_replica=by_replica)
        bottom = top + frame.height
        apart = sum(node.apart for node in row)
        if apart:
            canvas.text(left + PAD, bottom + 15, f"\u22ee  {nodes_words(apart)} more, alike", fill=colour("muted"))
            bottom += 20
        if row is not rows[-1]:
            canvas.line(2, top - 10, 2, bottom + 12, stroke=colour("line"), width=2)
        top = bottom + 12
    return top - 12


def _draw_node(
    canvas: Canvas, node: NodeSeats, shape: Shape, frame: _Frame, left: float, top: float, *, by_replica: bool
) -> None:
    stacked = node.count > 1
    each = bool(node.of_each) and stacked
    if stacked:
        canvas.rect(
            left + 4, top + 4, frame.width, frame.height, fill=colour("panel"), stroke=colour("line"), radius=6
        )  # fmt: skip
    canvas.rect(left, top, frame.width, frame.height, fill=colour("panel"), stroke=colour("line"), radius=6)
    inside, fabric = frame.width - 2 * PAD, fabric_words(shape)
    title = fitting(inside, 12, node.title, f"{node.count:,} nodes" if stacked else node.title)
    canvas.text(left + PAD, top + 17, title, bold=True)
    if fabric and text_width(title, 12.5) + text_width(fabric, 11) + 14 < inside:
        canvas.text(left + frame.width - PAD, top + 17, fabric, size=11, fill=colour("muted"), anchor="end")
    for row in range(frame.rows):
        first = row * frame.columns
        cells = list(enumerate(node.seats[first : first + frame.columns], start=first))
        y = top + HEAD + row * frame.row_height
        _draw_row(canvas, cells, shape, frame, left + PAD, y, by_replica=by_replica, each=each)


def _draw_row(
    canvas: Canvas,
    cells: list[tuple[int, Seat | None]],
    shape: Shape,
    frame: _Frame,
    left: float,
    top: float,
    *,
    by_replica: bool,
    each: bool,
) -> None:
    step = frame.cell + GAP
    at = 0
    for _, run in groupby(cells, key=lambda one: None if one[1] is None else one[1].group):
        members = list(run)
        x, wide = left + at * step, len(members) * step - GAP
        seat = members[0][1]
        if seat is not None:
            shade = category(seat.replica if by_replica else seat.kind)
            named = fitting(wide, 11, *group_words(seat, each=each))
            canvas.text(x + 1, top + 11, named, size=11, fill=colour("ink"))
            if len(members) > 1:
                canvas.rect(
                    x - 2, top + LABEL - 2, wide + 4, HEIGHT + 4, fill=shade, opacity=0.14, radius=6,
                    tip=group_words(seat)[0],
                )  # fmt: skip
        for number, (gpu, of) in enumerate(members):
            _draw_gpu(canvas, gpu, of, x + number * step, top + LABEL, frame.cell, by_replica=by_replica)
        at += len(members)
    _draw_fabric(canvas, cells, shape, step, left, top + LABEL + HEIGHT + 6)


def _draw_gpu(
    canvas: Canvas, gpu: int, seat: Seat | None, x: float, y: float, wide: float, *, by_replica: bool
) -> None:
    middle = x + wide / 2
    if seat is None:
        canvas.rect(x, y, wide, HEIGHT, stroke=colour("line"), radius=4, dash="4 3", tip=f"GPU {gpu}: idle")
        canvas.text(middle, y + 17, f"GPU {gpu}", size=11, anchor="middle", fill=colour("muted"))
        canvas.text(middle, y + 31, "idle", size=11, anchor="middle", fill=colour("muted"))
        return
    shade = category(seat.replica if by_replica else seat.kind)
    canvas.rect(
        x, y, wide, HEIGHT, fill=shade, opacity=0.22, stroke=shade, stroke_width=1.5, radius=4,
        tip=f"GPU {gpu}: {group_words(seat)[0]}" + (f", rank {seat.rank}" if seat.tp > 1 else ""),
    )  # fmt: skip
    canvas.text(middle, y + 17, f"GPU {gpu}", size=11, anchor="middle")
    part = f"rank {seat.rank}" if seat.tp > 1 else (f"DP {seat.attention_rank}" if seat.attention_dp > 1 else "whole")
    if seat.tp == 1 and seat.attention_dp == 1 and seat.stages > 1:
        part = f"stage {seat.stage + 1}"
    canvas.text(middle, y + 31, shortened(part, wide, 11), size=11, anchor="middle", fill=colour("muted"))


def _draw_fabric(
    canvas: Canvas, cells: list[tuple[int, Seat | None]], shape: Shape, step: float, left: float, y: float
) -> None:
    """A solid line below GPUs of one scale-up domain; a dotted one where they only share PCIe."""
    if shape.gpus_per_node == 1:
        return
    size = shape.scale_up_gpus
    if size <= 1:
        canvas.line(left, y, left + len(cells) * step - GAP, y, stroke=colour("line"), width=2, dash="2 4")
        return
    at = 0
    for _, run in groupby(cells, key=lambda one: one[0] // size):
        count = len(list(run))
        canvas.line(left + at * step, y, left + (at + count) * step - GAP, y, stroke=colour("muted"), width=3)
        at += count
