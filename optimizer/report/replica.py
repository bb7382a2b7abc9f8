"""One replica as tables: its memory (`fit`) and its speed (`predict`)."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding

from optimizer.fit import Fit, StageMemory
from optimizer.plan import MemoryUse
from optimizer.predict import Speed
from optimizer.replica import ReplicaAnswer
from optimizer.report.text import (
    CAUSES,
    LEAST_SHOWN_MS,
    amount_of,
    calibration_words,
    count,
    heading,
    make_console,
    make_table,
    milliseconds,
    sources_words,
    speed_basis,
)
from optimizer.wording import LATENCY_NAMES, split_words

BAR_CELLS = 60


def print_fit(found: Fit, console: Console | None = None) -> None:
    """Print the memory of a replica: verdict, bar, table, and how much more fits."""
    out = console or make_console()
    verdict = "FITS" if found.fits else "DOES NOT FIT"
    split = split_words(found)
    out.print(
        f"{verdict}  {found.model} in {split} on {found.gpus}x {found.gpu}",
        style="bold green" if found.fits else "bold red",
    )
    for rule, needs in found.refusals.items():
        out.print(f"Refused by {rule}: needs {needs}.")
    memory = found.memory
    if memory is None:
        return
    requests = amount_of(found.concurrency, "request")
    out.print(f"{requests} of {memory.context_tokens:,} tokens; {memory.policy} policy; per GPU:")
    for stage in found.stages:
        if len(found.stages) > 1:
            out.print(_stage_words(stage))
        out.print(memory_bar(stage.memory))
    out.print("W weights, K KV cache, A activations, O overhead, . free, | the limit")
    out.print()
    table = make_table(("fullest GPU", "left"), ("GiB", "right"), ("GB", "right"))
    for label, gib in (
        ("weights", memory.weights_gib), ("KV cache", memory.kv_cache_gib), ("activations", memory.activations_gib),
        ("overhead", memory.overhead_gib), ("need", memory.need_gib), ("available", memory.available_gib),
        ("left", memory.headroom_left_gib), ("GPU memory", memory.gpu_memory_gib),
    ):  # fmt: skip
        table.add_row(label, f"{gib:.2f}", f"{gib * 2**30 / 1e9:.2f}")
    out.print(table)
    out.print()
    out.print(
        f"All weights in {found.weights}: {found.weights_total_gib:,.1f} GiB "
        f"({found.weights_total_gib * 2**30 / 1e9:,.1f} GB)."
    )
    out.print(f"The replica's KV cache can hold {memory.kv_tokens:,} tokens.")
    longest = f"at most {found.max_context_tokens:,} tokens each" if found.max_context_tokens else "none fits"
    out.print(f"Longest context of {requests} at once: {longest}.")
    out.print(f"Most requests at once of {memory.context_tokens:,} tokens: {found.max_concurrency:,}.")
    if found.engine_kv_tokens is not None and found.engine_max_concurrency is not None:
        out.print(
            f"{found.engine} would log a KV cache of {found.engine_kv_tokens:,} tokens and a maximum concurrency of "
            f"{found.engine_max_concurrency:.2f}x for {memory.context_tokens:,} tokens."
        )
    _print_engine_flags(out, found)
    _print_smallest(out, found)
    if found.calibration is not None:
        out.print(f"{calibration_words(found.calibration)} Memory does not depend on it.")
    _print_warnings(out, found)


def _print_warnings(out: Console, found: ReplicaAnswer) -> None:
    for warning in found.warnings:
        out.print(f"Warning: {warning}.", style="yellow")


def _print_engine_flags(out: Console, found: Fit) -> None:
    heading(out, f"Flags of {found.engine} that give it")
    out.print(Padding(" ".join(found.engine_flags), (0, 0, 0, 2)))
    for note in found.engine_notes:
        out.print(f"Note: {note}.")


def _print_smallest(out: Console, found: Fit) -> None:
    """Print by GPU type the fewest GPUs that would hold the same requests."""
    heading(out, f"Fewest GPUs that hold {amount_of(found.concurrency, 'such request')}")
    by_count: dict[int, list[str]] = {}
    for gpu, count_ in found.smallest.items():
        by_count.setdefault(count_ or 0, []).append(gpu)
    for count_ in sorted(number for number in by_count if number):
        out.print(Padding(f"{count_}: {', '.join(by_count[count_])}", (0, 0, 0, 2)))
    if 0 in by_count:
        out.print(Padding(f"none: {', '.join(by_count[0])}", (0, 0, 0, 2)))


def _stage_words(stage: StageMemory) -> str:
    which = f"stage {stage.first}" if stage.first == stage.last else f"stages {stage.first} to {stage.last}"
    return (
        f"{which}, {amount_of(stage.gpus, 'GPU')}: {stage.memory.need_gib:.1f} of {stage.memory.available_gib:.1f} GiB"
    )


def memory_bar(memory: MemoryUse) -> str:
    """Draw the memory of a GPU to scale, with a mark where the policy's limit is; what is over it goes on behind it."""
    parts = (
        ("W", memory.weights_gib),
        ("K", memory.kv_cache_gib),
        ("A", memory.activations_gib),
        ("O", memory.overhead_gib),
    )
    cell = max(memory.gpu_memory_gib, memory.need_gib) / BAR_CELLS
    bar, reached = "", 0.0
    for letter, gib in parts:
        reached += gib
        bar += letter * (round(reached / cell) - len(bar))
    bar = bar.ljust(BAR_CELLS, ".")
    limit = round(memory.available_gib / cell)
    return f"[{bar[:limit]}|{bar[limit:]}]"


def print_speed(found: Speed, console: Console | None = None) -> None:
    """Print the speed of a replica: latencies, throughput, and where a decode step goes."""
    out = console or make_console()
    split = split_words(found)
    out.print(f"{found.model} in {split} on {found.gpus}x {found.gpu}", style="bold")
    out.print(
        f"{amount_of(found.concurrency, 'request')} in flight, "
        f"{found.input_tokens:,} input and {found.output_tokens:,} output tokens each:"
    )
    table = make_table(("", "left"), ("predicted (mean)", "right"), ("80% of runs", "right"))
    for name, label in LATENCY_NAMES.items():
        value, low, high = (getattr(found, f"{name}_ms{end}") for end in ("", "_low", "_high"))
        table.add_row(label, milliseconds(value), f"{milliseconds(low)} - {milliseconds(high)}")
    table.add_row("prompt of one request alone", milliseconds(found.prefill_ms), "")
    table.add_row("output tokens/s", count(found.output_tokens_per_second), "")
    table.add_row("output tokens/s per GPU", count(found.output_tokens_per_second_per_gpu), "")
    table.add_row("requests/s", count(found.requests_per_second), "")
    out.print(table)
    out.print()
    total = sum(found.step_ms.values())
    step = make_table(("one decode step", "left"), ("ms", "right"), ("share", "right"))
    for cause, value in found.step_ms.items():
        if value < LEAST_SHOWN_MS:
            continue
        step.add_row(CAUSES.get(cause, cause), f"{value:.2f}", f"{value / total:.0%}")
    out.print(step)
    out.print()
    out.print(speed_basis(found.basis, found.error_band))
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))
    if said := sources_words(found.decode_from, found.prefill_from):
        out.print(said)
    _print_warnings(out, found)
    if not found.fits:
        out.print(
            "Warning: this many requests do not fit in memory (engine policy); see `shardwise fit`.", style="yellow"
        )
