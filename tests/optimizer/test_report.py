"""Reports: for each folder of golden/, the request goes in and exactly the report comes out.

`pytest tests/optimizer/test_report.py --refresh-golden` rewrites the reports; the difference is then read like code.
"""

from __future__ import annotations

import io
import shlex
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from optimizer.plan import Alternative, MemoryUse
from optimizer.report.columns import Column, render
from optimizer.report.plan import print_gpus_without_layout
from optimizer.report.replica import memory_bar
from optimizer.report.text import amount_of, count, dollars, make_console, milliseconds, packed, share, speed_basis
from tests.optimizer.command import SPHERON, run

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(folder for folder in GOLDEN.iterdir() if folder.is_dir())


class Day(date):
    """A calendar that stands still, since a report says how old its prices are."""

    @classmethod
    def today(cls) -> Day:
        """24 August 2026."""
        return cls(2026, 8, 24)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_request_gives_exactly_its_report(
    case: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(case)
    monkeypatch.setattr(import_module("optimizer.solve"), "date", Day)
    ran = run(*shlex.split((case / "request.txt").read_text(encoding="utf-8")), columns=80)
    said = f"{ran.out}{ran.err}exit code {ran.code}\n"

    report = case / "report.txt"
    if request.config.getoption("--refresh-golden"):
        report.write_text(said, encoding="utf-8")
    assert said == report.read_text(encoding="utf-8"), "read the difference; --refresh-golden accepts it"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_report_is_wider_than_80_columns_or_padded_with_blanks(case: Path) -> None:
    lines = (case / "report.txt").read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if line != line.rstrip()] == []
    assert [line for line in lines if len(line) > 80 and not line.startswith(("  - ", "shardwise:"))] == []


# The pieces


def printed(write: Any, width: int = 60) -> str:
    """What a report function prints to a console of some width."""
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    write(out)
    return out.file.getvalue()  # type: ignore[attr-defined]  # the StringIO above


def without_layout(gpu: str, why: str) -> Alternative:
    """A GPU that has no layout."""
    empty = dict.fromkeys(set(Alternative.model_fields) - {"gpu", "summary", "why"})
    return Alternative(gpu=gpu, summary="no layout keeps every rule", why=why, **empty)


def test_gpus_without_a_layout_stand_together_by_reason_each_with_its_figure() -> None:
    rest = [
        without_layout("L4-24GB", "TPOT is 156 ms at best, over 50 ms"),
        without_layout("T4-16GB", "it does not run bf16 weights"),
        without_layout("L40-48GB", "TPOT is 57.9 ms at best, over 50 ms"),
        without_layout("V100-SXM-16GB", "it does not run bf16 weights"),
        without_layout("A30-24GB", "one request needs 101% of the memory"),
    ]

    assert printed(lambda out: print_gpus_without_layout(out, rest)).splitlines() == [
        "",
        "No layout on",
        "- TPOT is ... at best, over 50 ms:",
        "    L4-24GB 156 ms, L40-48GB 57.9 ms",
        "- it does not run bf16 weights:",
        "    T4-16GB, V100-SXM-16GB",
        "- one request needs 101% of the memory:",
        "    A30-24GB",
    ]


def test_items_are_packed_into_lines_without_breaking_one() -> None:
    names = ["H100-SXM-80GB", "A100-SXM-80GB", "L4-24GB"]

    assert printed(lambda out: packed(out, names, indent=2), width=32) == "  H100-SXM-80GB, A100-SXM-80GB,\n  L4-24GB\n"


def memory(**parts: float) -> MemoryUse:
    """Memory of an 80 GiB GPU of which the policy allows 60."""
    figures = {"weights_gib": 0.0, "kv_cache_gib": 0.0, "activations_gib": 0.0, "overhead_gib": 0.0} | parts
    return MemoryUse(
        policy="framework",
        **figures,
        need_gib=sum(figures.values()),
        available_gib=60.0,
        headroom_left_gib=60.0 - sum(figures.values()),
        gpu_memory_gib=80.0,
        kv_tokens=0,
        context_tokens=1,
    )


def test_the_bar_is_to_scale_and_marks_the_limit() -> None:
    # 60 cells for 80 GiB: 32 GiB are 24 cells, 16 are 12, and the limit of 60 is at 45.
    bar = memory_bar(memory(weights_gib=32.0, kv_cache_gib=16.0))

    assert bar == f"[{'W' * 24}{'K' * 12}{'.' * 9}|{'.' * 15}]"


def test_the_bar_of_what_does_not_fit_is_to_the_scale_of_the_need() -> None:
    # 60 cells for a need of 120 GiB: the limit of 60 is half way.
    bar = memory_bar(memory(weights_gib=100.0, overhead_gib=20.0))

    assert bar == f"[{'W' * 30}|{'W' * 20}{'O' * 10}]"


def test_columns_of_the_highest_rank_go_first_where_the_line_is_short() -> None:
    rows = [{"name": "H100-SXM-80GB", "gib": 79.19, "kind": None}]
    columns = {"name": Column("GPU"), "gib": Column("GiB", 1, digits=1), "kind": Column("joined by", 2)}

    assert render(rows, columns, None)[0].splitlines()[2] == "H100-SXM-80GB  79.2  -"
    table, left_out = render(rows, columns, 20)
    assert table.splitlines()[2] == "H100-SXM-80GB  79.2"
    assert left_out == ["joined by"]
    assert render(rows, columns, 5)[0].splitlines()[2] == "H100-SXM-80GB"  # a name is never cut


def test_figures_are_written_the_way_people_do() -> None:
    assert [dollars(amount) for amount in (None, 0, 0.0123, 9.68, 5840)] == [
        "-",
        "$0.00",
        "$0.0123",
        "$9.68",
        "$5,840.00",
    ]
    assert [milliseconds(amount) for amount in (None, 0.5, 38.44, 236, 11_700)] == [
        "-", "0.5 ms", "38.4 ms", "236 ms", "11.7 s",
    ]  # fmt: skip
    assert [count(amount) for amount in (4, 2.634, 1200)] == ["4", "2.63", "1,200"]
    assert [share(amount) for amount in (None, 0.804)] == ["-", "80%"]
    assert [amount_of(number, "request") for number in (1, 1000)] == ["1 request", "1,000 requests"]


def test_speed_figures_say_whether_they_are_fitted_or_borrowed_and_how_far_off() -> None:
    assert speed_basis("fitted", None) == "Speed figures are fitted to measured runs of this GPU family."
    assert speed_basis("borrowed", 0.2).endswith(
        "no run on this one was measured; expect TPOT to be off by 20% on average."
    )


CHAT_8B = ("solve", "meta-llama/Llama-3.1-8B-Instruct", "--input-tokens", "4000", "--output-tokens", "300", *SPHERON)


def test_a_target_that_holds_on_the_mean_and_not_at_p95_is_told_with_the_flag_that_asks_for_p95() -> None:
    traffic = ("--request-rate", "4")
    free = run(*CHAT_8B, *traffic, "--json").json["performance"]
    between = (free["ttft_ms"] + free["percentiles"]["ttft"]["p95"]) / 2
    asked = (*traffic, "--ttft-ms", f"{between:.3f}", "--tpot-ms", "500")
    on_mean = run(*CHAT_8B, *asked, columns=120).out

    assert "holds on mean" in on_mean
    tail = f"{milliseconds(free['percentiles']['ttft']['p95'])} against {milliseconds(between)}"
    assert f"Targets are on means, and p95 is over: TTFT {tail}. For targets at p95: --at p95" in on_mean
    assert "p95 is over" not in run(*CHAT_8B, *asked, "--at", "p95", columns=120).out


def test_a_console_writes_no_trailing_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print("left   \nmiddle  ")

    assert capsys.readouterr().out == "left\nmiddle\n"
