"""Pictures: what each shows, that files are whole, the same every time, and hold nothing from outside."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from catalogs.models import load_model
from optimizer.errors import QuestionError
from optimizer.fit import Fit
from optimizer.fit import fit as fit_replica
from optimizer.fleet.budget import FleetBought, FleetBudgets
from optimizer.memory import MemoryPolicy
from optimizer.plan import Plan
from optimizer.replica import name_replica
from optimizer.report.plots.budget import budget_picture, fleet_budget_picture
from optimizer.report.plots.figure import ENDINGS, Numbers, Picture, check_plot, save
from optimizer.report.plots.front import front_picture
from optimizer.report.plots.history import history_picture, marks_of
from optimizer.report.plots.memory import fit_picture
from optimizer.report.plots.plan import plan_picture
from optimizer.report.plots.replay import replay_picture
from optimizer.simulate import Attainment, Latencies, Replay, Traffic
from optimizer.solve import solve
from optimizer.whatif.budget import what_budgets_buy
from optimizer.whatif.front import find_front
from tests.optimizer.catalogs import TODAY, catalog, offer, question
from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run
from tests.optimizer.records import HOSTILE

pytest.importorskip("matplotlib")

OFFERS = catalog(offer("L4-24GB", 0.8), offer("A10G-24GB", 1.0), offer("H100-SXM-80GB", 2.5))


@cache
def plan() -> Plan:
    asked = question({"targets": {"ttft_ms": 900, "tpot_ms": 40}})
    return solve(asked, catalog=OFFERS, today=TODAY)


@cache
def fitted() -> Fit:
    replica = name_replica(load_model("meta-llama/Llama-3.1-8B-Instruct"), "L40S-48GB", tp=2, pp=2)
    return fit_replica(replica, context_tokens=8192, concurrency=8, policy=MemoryPolicy())


def periods(**facts: Any) -> pd.DataFrame:
    """Two offers: one whose price moved once, one that is gone."""
    days = [datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7)]
    common = {"gpu": "L4-24GB", "region": "east", "term": "on-demand", "source": "by-hand"}
    rows = [
        {"provider": "acme", "instance_type": "1x L4-24GB", "price_usd_per_gpu_hour": 0.7, "first_seen": days[0],
         "last_seen": days[1], "until": days[1], "gone": False},
        {"provider": "acme", "instance_type": "1x L4-24GB", "price_usd_per_gpu_hour": 0.8, "first_seen": days[1],
         "last_seen": days[2], "until": pd.NaT, "gone": False},
        {"provider": "bolt", "instance_type": "x", "price_usd_per_gpu_hour": 0.9, "first_seen": days[0],
         "last_seen": days[1], "until": days[1], "gone": True},
    ]  # fmt: skip
    return pd.DataFrame([common | row | facts for row in rows])


def replay() -> Replay:
    levels = ("mean", "p50", "p90", "p95", "p99")
    latencies = Latencies(**{f"{name}_ms": dict.fromkeys(levels, 20.0) for name in ("ttft", "tpot", "e2e")})
    traffic = Traffic(requests=9, seconds=9.0, requests_per_second=1.0, peak_requests_per_second=1.0, burstiness=1.0,
                      input_tokens=9.0, input_cv=0.0, output_tokens=9.0, output_cv=0.0)  # fmt: skip
    target = Attainment(name="tpot", at="p95", target_ms=30.0, simulated_ms=20.0, attained=1.0, holds=True)
    return Replay(
        summary="1x L4", trace="a.csv", speedup=1.0, traffic=traffic, refused=0, targets=(target,), simulated=latencies,
        closed_form=None, planned=latencies, saturated=True, load=1.2, output_tokens_per_second=9.0,
        requests_per_second=1.0, utilization=0.5, requests_in_flight=1.0, queue_peak=0,
    )  # fmt: skip


def fleet_budgets() -> FleetBudgets:
    unknown = ("times_bound", "extra_requests_per_second_per_usd", "plan")
    facts: dict[str, Any] = dict.fromkeys(unknown) | {"proved": True}
    return FleetBudgets(
        asked_requests_per_second=3.0,
        least_usd_per_hour=9.0,
        budgets=(
            FleetBought(budget_usd_per_hour=5.0, times=None, requests_per_second=0.0, usd_per_hour=None, **facts),
            FleetBought(budget_usd_per_hour=20.0, times=2.0, requests_per_second=6.0, usd_per_hour=19.0, **facts),
        ),
    )


def of_plan() -> Picture | None:
    return plan_picture(plan())


def of_fit() -> Picture | None:
    return fit_picture(fitted())


def of_front() -> Picture | None:
    return front_picture(find_front(question(), catalog=OFFERS, today=TODAY))


def of_budgets() -> Picture | None:
    return budget_picture(what_budgets_buy(question(), (0.5, 5.0, 40.0), catalog=OFFERS, today=TODAY))


def of_fleet_budgets() -> Picture | None:
    return fleet_budget_picture(fleet_budgets())


def of_history() -> Picture | None:
    return history_picture(periods(), marks_of(plan()))


def of_replay() -> Picture | None:
    return replay_picture(replay())


PICTURES = (of_plan, of_fit, of_front, of_budgets, of_fleet_budgets, of_history, of_replay)


@pytest.mark.parametrize("picture_of", PICTURES)
def test_a_picture_is_the_same_bytes_every_time(picture_of: Callable[[], Picture | None], tmp_path: Path) -> None:
    picture = picture_of()
    assert picture is not None
    for name in ("a.svg", "b.svg"):
        save(picture, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"<dc:date>" not in (tmp_path / "a.svg").read_bytes()


@pytest.mark.parametrize("picture_of", PICTURES)
def test_an_html_file_holds_the_picture_and_its_numbers_and_asks_for_nothing(
    picture_of: Callable[[], Picture | None], tmp_path: Path
) -> None:
    picture = picture_of()
    assert picture is not None
    save(picture, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert "<script" not in page
    # No tag refers to anything outside the page; names of XML formats are no addresses that are asked.
    assert not re.search(r"(?:\bsrc|(?<!xlink:)\bhref)=\"(?!#)|url\((?!#)|@import", page)
    for numbers in picture.numbers:
        assert page.count(f"<td{''}") >= len(numbers.rows)
        assert len({len(numbers.headings), *map(len, numbers.rows)}) == 1


@pytest.mark.parametrize(("ending", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_each_ending_gives_its_own_format(ending: str, start: bytes, tmp_path: Path) -> None:
    save(of_plan() or pytest.fail("no picture"), tmp_path / f"new/folder/a{ending}")
    assert (tmp_path / f"new/folder/a{ending}").read_bytes().startswith(start)


def test_another_ending_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(QuestionError, match=re.escape(", ".join(ENDINGS))):
        check_plot(Path("a.gif"))


def test_without_matplotlib_the_install_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(QuestionError, match=r'pip install "shardwise\[plot\]"'):
        check_plot(Path("a.svg"))


def test_a_picture_that_fails_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    def paint(figure: Any) -> None:
        figure.subplots()
        raise ZeroDivisionError

    out = tmp_path / "a.svg"
    out.write_text("old", encoding="utf-8")
    with pytest.raises(ZeroDivisionError):
        save(Picture("a", (3, 3), paint), out)
    assert [one.name for one in tmp_path.iterdir()] == ["a.svg"]
    assert out.read_text(encoding="utf-8") == "old"


def test_a_file_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(QuestionError, match="cannot be written"):
        save(Picture("a", (3, 3), lambda figure: figure.subplots()), tmp_path / "file" / "a.svg")


def test_hostile_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    """Neither markup nor the formulas that matplotlib reads between dollar signs."""
    name = HOSTILE.replace("\x00", "").replace("\ud800", "") + "$x^2$"
    frame = periods(provider=name, instance_type=name)
    picture = history_picture(frame, ())
    for ending in (".svg", ".html"):
        save(Picture(name, picture.inches, picture.paint, [Numbers(("a",), [[name]])]), tmp_path / f"a{ending}")
        drawn = (tmp_path / f"a{ending}").read_text(encoding="utf-8")
        assert "<script" not in drawn
        assert "$x^2$" in drawn


def test_the_offer_of_a_plan_is_marked_at_its_price_and_day() -> None:
    (mark,) = marks_of(plan())
    assert (mark.gpu, mark.provider, mark.usd_per_gpu_hour, mark.seen_on) == ("L4-24GB", "acme", 0.8, date(2026, 8, 14))
    picture = of_history()
    assert picture is not None
    assert [row[0].endswith("(the plan's)") for row in picture.numbers[0].rows] == [True, True, False]


def test_there_is_no_picture_of_an_answer_that_is_none() -> None:
    none = solve(question({"limits": {"budget_usd_per_hour": 0.01}}), catalog=OFFERS, today=TODAY)
    assert plan_picture(none) is None
    assert marks_of(none) == []


def test_figures_stand_at_the_right_and_words_at_the_left(tmp_path: Path) -> None:
    numbers = Numbers(("what", "USD", "said"), [["a", "1,000.50", "2 nodes"], ["b", "-", "none"]])
    save(Picture("a", (3, 3), lambda figure: figure.subplots(), [numbers]), tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert re.findall(r'<th( class="r")? ', page) == ["", ' class="r"', ""]


class TestCommands:
    def test_solve_draws_a_plan_and_json_stays_clean(self, tmp_path: Path) -> None:
        ran = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--plot", str(tmp_path / "a.svg"), "--json")
        assert (ran.code, ran.json["status"]) == (0, "optimal")
        assert "Time to first token" in (tmp_path / "a.svg").read_text(encoding="utf-8")

    def test_an_infeasible_question_says_that_nothing_is_drawn(self, tmp_path: Path) -> None:
        flags = ("--budget-usd-per-hour", "0.01", "--plot", str(tmp_path / "a.svg"))
        ran = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, *flags)
        assert ran.code == 3
        assert "there is no layout to draw" in ran.err
        assert not (tmp_path / "a.svg").exists()

    def test_an_ending_that_is_not_known_is_refused_before_anything_is_solved(self, tmp_path: Path) -> None:
        for command in (
            ("solve", LLAMA_70B, *TRAFFIC),
            ("fit", LLAMA_70B, "--gpu", "H100-SXM-80GB"),
            ("simulate", "no-plan.json", "--trace", "no.csv"),
            ("pareto", "no.yaml"),
            ("whatif", "budget", "no.yaml", "--usd-per-hour", "5"),
            ("prices", "history"),
            ("validate", "speed", "no.csv"),
        ):
            ran = run(*command, "--plot", str(tmp_path / "a.docx"))
            assert (ran.code, ran.out) == (2, "")
            assert "expected a file that ends in .png, .svg, .html, .pdf" in ran.err

    def test_fit_draws_a_bar_a_stage(self, tmp_path: Path) -> None:
        split = ("--gpu", "H100-SXM-80GB", "--tp", "2", "--pp", "2")
        assert run("fit", LLAMA_70B, *split, "--plot", str(tmp_path / "a.svg")).code == 0
        drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
        assert {"stage 1, 2 GPUs", "stage 2, 2 GPUs"} <= set(re.findall(r">([^<>]+)</text>", drawn))

    def test_simulate_draws_what_it_replayed(self, tmp_path: Path) -> None:
        solved = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--json")
        (tmp_path / "plan.json").write_text(json.dumps(solved.json), encoding="utf-8")
        rows = "\n".join(f"{second},2000,30" for second in range(20))
        (tmp_path / "trace.csv").write_text(f"timestamp,input_tokens,output_tokens\n{rows}\n", encoding="utf-8")
        files = ("--trace", str(tmp_path / "trace.csv"), "--plot", str(tmp_path / "a.svg"))
        assert run("simulate", str(tmp_path / "plan.json"), *files).code == 0
        assert "Time per output token" in (tmp_path / "a.svg").read_text(encoding="utf-8")

    def test_price_history_is_of_the_plans_gpu_and_marks_its_price(self, tmp_path: Path) -> None:
        solved = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--json")
        (tmp_path / "plan.json").write_text(solved.out, encoding="utf-8")
        files = ("--plan", str(tmp_path / "plan.json"), "--plot", str(tmp_path / "a.html"), "--limit", "1")
        ran = run("prices", "history", "--provider", "spheron", *files)
        assert ran.code == 0
        drawn = (tmp_path / "a.html").read_text(encoding="utf-8")
        price = solved.json["layout"]["price_usd_per_node_hour"] / solved.json["layout"]["gpus_per_node"]
        assert f"plan: ${price:,.2f}" in drawn
        assert f"List prices of {solved.json['layout']['gpu']}" in drawn
        assert "(the plan&#x27;s)" in drawn
