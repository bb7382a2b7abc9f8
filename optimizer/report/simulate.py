"""A replayed trace as tables: targets first, then latencies beside the closed form and the plan."""

from __future__ import annotations

from rich.console import Console

from optimizer.performance.distributions import PERCENTILES
from optimizer.report.text import amount_of, calibration_words, count, heading, make_console, make_table, milliseconds
from optimizer.simulate import Replay
from optimizer.wording import LATENCY_NAMES


def print_replay(found: Replay, console: Console | None = None) -> None:
    """Print what a trace would see on a plan."""
    out = console or make_console()
    traffic = found.traffic
    out.print(f"SIMULATED  {found.summary}", style="bold")
    faster = f", {found.speedup:g} times as fast" if found.speedup != 1.0 else ""
    out.print(
        f"{amount_of(traffic.requests, 'request')} in {traffic.seconds:,.0f} s{faster}: "
        f"{count(traffic.requests_per_second)} requests/s "
        f"({count(traffic.peak_requests_per_second)} in the busiest minute), burstiness {traffic.burstiness:.2g}; "
        f"{traffic.input_tokens:,.0f} tokens in (cv {traffic.input_cv:.2g}), "
        f"{traffic.output_tokens:,.0f} out (cv {traffic.output_cv:.2g})."
    )
    if found.refused:
        out.print(
            f"{amount_of(found.refused, 'request')} refused: longer than the model's context or the KV cache of a "
            "replica.",
            style="yellow",
        )
    _print_targets(out, found)
    _print_latencies(out, found)
    out.print(
        f"{count(found.output_tokens_per_second)} output tokens/s, {count(found.requests_per_second)} requests/s. "
        f"Replicas had work {found.utilization:.0%} of the time, with {found.requests_in_flight:.1f} requests in "
        f"flight each; at most {amount_of(found.queue_peak, 'request')} waited for a slot."
    )
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))
    if found.saturated:
        out.print(
            f"SATURATED: on average the trace is {found.load:.0%} of what the layout serves; with more of it, the wait "
            "only grows.",
            style="yellow",
        )


def _print_targets(out: Console, found: Replay) -> None:
    if not found.targets:
        return
    heading(out, "Targets")
    table = make_table(("", "left"), ("target", "right"), ("simulated", "right"), ("within", "right"), ("", "left"))
    for target in found.targets:
        label = LATENCY_NAMES[target.name]
        table.add_row(
            f"{label}, {target.at}",
            milliseconds(target.target_ms),
            milliseconds(target.simulated_ms),
            f"{target.attained:.1%}",
            "holds" if target.holds else "MISSED",
        )
    out.print(table)


def _print_latencies(out: Console, found: Replay) -> None:
    heading(out, "Latencies: simulated, closed form for such traffic, and what the plan says of its own")
    table = make_table(("", "left"), ("", "left"), *((level, "right") for level in ("mean", *PERCENTILES)))
    for name in LATENCY_NAMES:
        for source, values in (
            ("simulated", found.simulated),
            ("closed form", found.closed_form),
            ("plan", found.planned),
        ):
            by_level: dict[str, float] = getattr(values, f"{name}_ms") if values is not None else {}
            figures = (milliseconds(by_level.get(level)) for level in ("mean", *PERCENTILES))
            table.add_row(name.upper() if source == "simulated" else "", source, *figures)
    out.print(table)
