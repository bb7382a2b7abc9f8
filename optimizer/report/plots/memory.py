"""Memory bars: what each GPU holds by cause, against what the policy lets an engine use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimizer.fit import Fit, StageMemory
from optimizer.plan import MemoryUse
from optimizer.report.drawings.memory import PARTS, spare_words
from optimizer.report.plots.figure import BAD, COLOURS, GOOD, INK, LINE, Numbers, Picture
from optimizer.wording import split_words

HATCHES = ("", "//", "..", "xx")  # told apart in print without colours

Bars = Sequence[tuple[str, MemoryUse]]


def paint_memory(axes: Any, bars: Bars) -> None:
    """Draw a bar a GPU on axes, the first at the top."""
    heights = range(len(bars))
    left = [0.0] * len(bars)
    for number, (name, field) in enumerate(PARTS):
        amounts = [getattr(memory, field) for _, memory in bars]
        axes.barh(heights, amounts, left=left, height=0.55, label=name, color=COLOURS[number], hatch=HATCHES[number],
                  edgecolor="white", linewidth=0.6)  # fmt: skip
        left = [before + amount for before, amount in zip(left, amounts, strict=True)]
    full = max((max(memory.gpu_memory_gib, memory.need_gib) for _, memory in bars), default=1.0)
    for at, (_, memory) in enumerate(bars):
        axes.barh(at, memory.gpu_memory_gib, height=0.55, fill=False, edgecolor=LINE, linewidth=1.0)
        axes.plot([memory.available_gib] * 2, [at - 0.36, at + 0.36], color=INK, linewidth=2.2,
                  label="may be used" if at == 0 else None)  # fmt: skip
        axes.text(full * 1.015, at, spare_words(memory), va="center", color=GOOD if memory.fits else BAD, fontsize=9)
    axes.set(yticks=heights, yticklabels=[name for name, _ in bars], xlabel="GiB per GPU", xlim=(0, full * 1.2))
    axes.invert_yaxis()
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def memory_numbers(bars: Bars) -> Numbers:
    """Return the figures of memory bars."""
    headings = ("GiB per GPU", *(name for name, _ in PARTS), "need", "may be used", "left", "GPU memory")
    fields = (*(field for _, field in PARTS), "need_gib", "available_gib", "headroom_left_gib", "gpu_memory_gib")
    rows = [[name, *(f"{getattr(memory, field):.1f}" for field in fields)] for name, memory in bars]
    return Numbers(headings, rows, "Memory")


def fit_picture(found: Fit) -> Picture | None:
    """Return the picture of a replica's memory, by pipeline stage; None where its split is refused."""
    if found.memory is None:
        return None
    bars = [(stage_words(stage), stage.memory) for stage in found.stages] or [("each GPU", found.memory)]
    split = split_words(found)
    verdict = "fits" if found.fits else "does not fit"
    requests = f"{found.concurrency:,} request{'' if found.concurrency == 1 else 's'}"

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        paint_memory(axes, bars)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5)

    title = (
        f"{found.model} in {split} on {found.gpus}x {found.gpu} {verdict}: {requests} of "
        f"{found.memory.context_tokens:,} tokens"
    )
    return Picture(title, (9.0, 1.9 + 0.55 * len(bars)), paint, [memory_numbers(bars)])


def stage_words(stage: StageMemory) -> str:
    """Name pipeline stages and their GPUs."""
    where = f"stage {stage.first}" if stage.first == stage.last else f"stages {stage.first}-{stage.last}"
    return f"{where}, {stage.gpus} GPU{'s' if stage.gpus > 1 else ''}"
