"""One replica as tables: its memory (`fit`) and its speed (`predict`)."""

from __future__ import annotations

from rich.console import Console

from optimizer.fit import Fit
from optimizer.plan import MemoryUse
from optimizer.predict import Speed
from optimizer.report.plan import CAUSES, LEAST_SHOWN_MS
from optimizer.report.text import amount_of, count, make_console, make_table, milliseconds, speed_basis
from optimizer.wording import split_words

BAR_CELLS = 60


def print_fit(found: Fit, console: Console | None = None) -> None:
    """Print the memory of a replica: verdict, bar, table, and how much more fits."""
    out = console or make_console()
    verdict = "FITS" if found.fits else "DOES NOT FIT"
    split = split_words(found.weights, found.kv_cache, found.tp, found.pp, found.ep, found.attention_dp)
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
    out.print(f"{requests} of {memory.context_tokens:,} tokens; {memory.policy} policy; the fullest GPU:")
    out.print(memory_bar(memory))
    out.print("W weights, K KV cache, A activations, O overhead, . free, | the limit")
    out.print()
    table = make_table(("per GPU", "left"), ("GiB", "right"), ("GB", "right"))
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
    split = split_words(found.weights, found.kv_cache, found.tp, found.pp, found.ep, found.attention_dp)
    out.print(f"{found.model} in {split} on {found.gpus}x {found.gpu}", style="bold")
    out.print(
        f"{amount_of(found.concurrency, 'request')} in flight, "
        f"{found.input_tokens:,} input and {found.output_tokens:,} output tokens each:"
    )
    table = make_table(("", "left"), ("predicted (mean)", "right"), ("80% of runs", "right"))
    for name, label in (("ttft", "time to first token"), ("tpot", "time per output token"), ("e2e", "end to end")):
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
    if not found.fits:
        out.print(
            "Warning: this many requests do not fit in memory (engine policy); see `shardwise fit`.", style="yellow"
        )
