"""A server's command as tables: the layout that was read, and its price against the best layout."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from optimizer.export.served import ServedLayout
from optimizer.export.served_answer import Costed, ServedPrice
from optimizer.report.text import (
    bullet_line,
    calibration_words,
    dollars,
    heading,
    make_console,
    make_table,
    milliseconds,
    share,
)
from optimizer.wording import gpus_words, split_words


def print_served(found: ServedPrice, console: Console | None = None) -> None:
    """Print what was read, and what it costs where that was asked."""
    out = console or make_console()
    served = found.command
    split = split_words(served)
    copies = "" if served.replicas == 1 else f"{served.replicas} replicas in "
    out.print(f"READ  {served.model}: {copies}{split} on {gpus_words(served.gpus)}", style="bold")
    _print_layout(out, served)
    if found.layout_words and found.today is None and found.best is None:
        out.print()
        out.print(f'Against a plan: shardwise explain PLAN.json --why-not "{found.layout_words}"')
    if found.today is not None or found.best is not None:
        _print_price(out, found)


def _print_layout(out: Console, served: ServedLayout) -> None:
    table = make_table(("", "left"), ("", "left"))
    table.show_header = False
    version = f" {served.engine_version}" if served.engine_version else ", release not said"
    rows = [
        ("engine", f"{served.engine}{version}"),
        ("weights", f"{served.weights} ({served.weights_from})"),
        ("KV cache", served.kv_cache),
        ("longest request", _tokens(served.max_model_len)),
        (
            "requests at once",
            _number(served.max_num_seqs, " per data-parallel rank" if served.attention_dp > 1 else ""),
        ),
        ("tokens a step", _number(served.max_num_batched_tokens)),
        (
            "memory fraction",
            "the engine's default" if not served.gpu_memory_utilization else f"{served.gpu_memory_utilization:g}",
        ),
    ]
    if served.catalog_model != served.model:
        rows.insert(0, ("model", served.catalog_model))
    for row in rows:
        table.add_row(*row)
    out.print(table)
    if served.environment:
        out.print("Environment: " + ", ".join(f"{name}={value}" for name, value in served.environment.items()))
    if served.other_flags:
        out.print("Not part of the layout: " + ", ".join(served.other_flags))
    for note in served.notes:
        bullet_line(out, note)


def _tokens(count: int | None) -> str:
    return "the model's own" if count is None else f"{count:,} tokens"


def _number(count: int | None, of: str = "") -> str:
    return "the engine's default" if count is None else f"{count:,}{of}"


def _print_price(out: Console, found: ServedPrice) -> None:
    now, best = found.today, found.best
    heading(out, f"At this traffic, prices of {found.prices_as_of}")
    table = make_table(("", "left"), ("today", "right"), ("best", "right"))
    rows: dict[str, Callable[[Costed], str]] = {
        "$/hour": lambda one: dollars(one.usd_per_hour),
        "$/month": lambda one: dollars(one.usd_per_month),
        "$ per million output tokens": lambda one: dollars(one.usd_per_million_output_tokens),
        "time to first token": lambda one: milliseconds(one.ttft_ms),
        "time per output token": lambda one: milliseconds(one.tpot_ms),
        "end to end": lambda one: milliseconds(one.e2e_ms),
        "utilization": lambda one: share(one.utilization),
        "requests at once per replica": lambda one: f"{one.concurrency_per_replica:,}",
        "keeps every rule": lambda one: "yes" if one.feasible else "no",
    }
    for name, said in rows.items():
        table.add_row(name, *("-" if one is None else said(one) for one in (now, best)))
    out.print(table)
    for name, one in (("today", now), ("best", best)):
        if one is not None:
            out.print(f"{name}: {one.summary}")
    if now is None:
        out.print(_no_today(found))
    else:
        _print_breaks(out, now)
    out.print()
    out.print(_verdict(found), style="bold")
    if found.why_not is not None and found.why_not.ways_out and now is not None and not now.feasible:
        heading(out, "The same but for one part, and it works")
        for way in found.why_not.ways_out:
            bullet_line(out, f"{way.instead}: {dollars(way.usd_per_hour)}/hour: {way.summary}")
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))


def _print_breaks(out: Console, now: Costed) -> None:
    if now.breaks:
        out.print("Today's breaks:")
    for rule, said in now.breaks.items():
        bullet_line(out, f"{rule}: {said}")


def _no_today(found: ServedPrice) -> str:
    nearest = None if found.why_not is None else found.why_not.nearest
    said = "" if nearest is None else ": " + "; ".join(f"{rule}: {words}" for rule, words in nearest.breaks.items())
    return f"today: no offer runs this layout{said}"


def _verdict(found: ServedPrice) -> str:
    now, best, saving = found.today, found.best, found.saving_usd_per_hour
    if best is None:
        return "No layout in the catalog keeps every rule of this question; `shardwise solve` says which conflict."
    if now is None or saving is None:
        return f"The best layout costs {dollars(best.usd_per_hour)}/hour."
    if now.feasible:
        return _feasible_verdict(saving, now)
    if saving > 0:
        return f"The best layout keeps every rule and costs {dollars(saving)}/hour less."
    return f"What works costs {dollars(-saving)}/hour more." if saving < 0 else "What works costs the same."


def _feasible_verdict(saving: float, now: Costed) -> str:
    if saving > 0:
        return f"The best layout saves {dollars(saving)}/hour ({saving / now.usd_per_hour:.0%})."
    if saving == 0:
        return "Nothing that works costs less."
    return (
        f"Today's costs {dollars(-saving)}/hour less than the best: its memory is counted as its engine counts it "
        "(--memory-policy engine), the best one's by the question's own policy."
    )
