"""The drawing of memory: a bar a GPU, by cause, against what the policy lets an engine use."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.plan import MemoryUse
from optimizer.report.drawings.colours import category, colour
from optimizer.report.drawings.svg import Canvas, fitting, text_width

PARTS = (
    ("weights", "weights_gib"),
    ("KV cache", "kv_cache_gib"),
    ("activations", "activations_gib"),
    ("overhead", "overhead_gib"),
)
BAR = 26.0


def draw_memory(
    memory: MemoryUse | Sequence[tuple[str, MemoryUse]], *, width: float = 720.0, standalone: bool = False
) -> str:
    """Draw the memory of one GPU, or of several that differ, as SVG.

    Args:
        memory: of one GPU, or (name, memory) of each, as of pipeline stages or of the pools of a fleet.
        width: units that it is drawn in; letters are 11 or 12 of them high.
        standalone: bring the colours along (see `Canvas.svg`).
    """
    bars = [("", memory)] if isinstance(memory, MemoryUse) else list(memory)
    canvas = Canvas(width)
    full = max((max(one.gpu_memory_gib, one.need_gib) for _, one in bars), default=1.0) or 1.0
    top = _legend(canvas, bars[0][1] if len(bars) == 1 else None)
    for name, one in bars:
        top = _draw_bar(canvas, name, one, top, (width - 2) / full)
    _axis(canvas, top, full)
    told = "; ".join(f"{name + ': ' if name else ''}{memory_words(one)}" for name, one in bars)
    return canvas.svg("Memory per GPU", f"{told}.", standalone=standalone)


def memory_words(memory: MemoryUse) -> str:
    """Say the figures of a bar in a sentence without its full stop."""
    parts = ", ".join(f"{name} {getattr(memory, field):.1f}" for name, field in PARTS)
    fits = "it fits" if memory.fits else "it does not fit"
    return (
        f"{parts}; need {memory.need_gib:.1f} of {memory.available_gib:.1f} GiB that may be used, of "
        f"{memory.gpu_memory_gib:.1f} GiB that the GPU has: {fits}"
    )


def spare_words(memory: MemoryUse) -> str:
    """Say how much is left, or lacks."""
    left = memory.headroom_left_gib
    return f"{left:.1f} GiB left" if memory.fits else f"{-left:.1f} GiB too little"


def _legend(canvas: Canvas, one: MemoryUse | None) -> float:
    """Name the colours, with their figures where there is one bar only; return where the bars start."""
    x, y = 0.0, 12.0
    for number, (name, field) in enumerate(PARTS):
        said = f"{name} {getattr(one, field):.1f} GiB" if one is not None else name
        wide = text_width(said, 12) + 34
        if x and x + wide > canvas.width:
            x, y = 0.0, y + 18
        canvas.rect(x, y - 10, 11, 11, fill=category(number), radius=2)
        canvas.text(x + 16, y, said)
        x += wide
    return y + 12


def _draw_bar(canvas: Canvas, name: str, memory: MemoryUse, top: float, scale: float) -> float:
    if name:
        canvas.text(0, top + 12, fitting(canvas.width * 0.6, 12, name), bold=True)
    shade = colour("good" if memory.fits else "bad")
    canvas.text(canvas.width - 1, top + 12, spare_words(memory), anchor="end", bold=True, fill=shade)
    top += 22
    canvas.rect(0.5, top, memory.gpu_memory_gib * scale, BAR, fill=colour("panel"), stroke=colour("line"))
    x = 0.5
    for number, (part, field) in enumerate(PARTS):
        amount = getattr(memory, field)
        wide = amount * scale
        if wide > 0:
            canvas.rect(
                x, top, wide, BAR, fill=category(number), stroke=colour("ground"), stroke_width=0.8,
                tip=f"{part}: {amount:.1f} GiB",
            )  # fmt: skip
        x += wide
    limit = 0.5 + memory.available_gib * scale
    canvas.line(limit, top - 4, limit, top + BAR + 4, stroke=colour("ink"), width=2.5)
    said = f"may be used: {memory.available_gib:.1f}"
    at_end = limit + text_width(said, 11) / 2 > canvas.width
    anchor, where = ("end", canvas.width - 1) if at_end else ("middle", max(limit, text_width(said, 11) / 2))
    canvas.text(where, top + BAR + 15, said, size=11, anchor=anchor)
    return top + BAR + 26


def _axis(canvas: Canvas, top: float, full: float) -> None:
    canvas.text(0, top + 4, "0", size=11, fill=colour("muted"))
    canvas.text(
        canvas.width - 1, top + 4, f"{full:.1f} GiB per GPU", size=11, fill=colour("muted"), anchor="end"
    )  # fmt: skip
