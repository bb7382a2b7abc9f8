"""The report of a plan: it says what the plan says, escapes what it is given, and asks for nothing."""

from __future__ import annotations

import io
import json
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import build_fleet_scenario
from optimizer.fleet.solve import solve_fleet
from optimizer.plan import Plan
from optimizer.report.document import report_html, report_title
from optimizer.report.document.html import Markup, content, table, tag
from optimizer.report.document.question import scenario_yaml
from optimizer.scenario import build_scenario
from optimizer.solve import solve
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, catalog, offer, question
from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run
from tests.optimizer.records import HOSTILE

OFFERS = catalog(
    offer("L4-24GB", 0.8),
    offer("A10G-24GB", 1.0),
    offer("H100-SXM-80GB", 20.0, 8, network="infiniband", network_gbit_per_s=400.0),
    offer("L4-24GB", 0.3, term="spot"),
)
VOID = {"meta", "br", "hr", "rect", "line", "circle"}


class Page(HTMLParser):
    """A page read back: its tags, its words, and whether every tag is closed in order."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data

    @property
    def headings(self) -> list[str]:
        """Return the titles of its sections."""
        return re.findall(r"\n([^\n]+)\n", self.words)


@dataclass(frozen=True)
class Answers:
    """Small answers of every kind."""

    plan: Plan
    none: Plan
    fleet: FleetPlan
    no_fleet: FleetPlan


@pytest.fixture(scope="module")
def answers() -> Answers:
    asked = question({"targets": {"ttft_ms": 900, "tpot_ms": 40, "at": "p95"}, "limits": {"replicas": [1, 2]}})
    fleet: dict[str, Any] = {
        "models": [
            {"model": name, "name": label,
             "classes": [{"name": label, "input_tokens": 500, "output_tokens": 50, "request_rate": rate}]}
            for name, label, rate in ((SMALL, "small", 2), (MEDIUM, "medium", 1))
        ],
        "targets": {"tpot_ms": 60},
    }  # fmt: skip
    return Answers(
        solve(asked, catalog=OFFERS, today=TODAY),
        solve(question({"limits": {"budget_usd_per_hour": 0.01}}), catalog=OFFERS, today=TODAY),
        solve_fleet(build_fleet_scenario(fleet), catalog=OFFERS, today=TODAY),
        solve_fleet(build_fleet_scenario(fleet | {"limits": {"max_gpus": 1, "gpus": ["L4-24GB"]}}), catalog=OFFERS,
                    today=TODAY),
    )  # fmt: skip


def test_a_report_says_what_the_plan_says(answers: Answers) -> None:
    plan, page = answers.plan, Page(report_html(answers.plan))
    assert plan.layout is not None
    assert plan.cost is not None
    for said in (
        f"${plan.cost.usd_per_hour:,.2f}", f"${plan.cost.usd_per_month:,.0f}", plan.layout.gpu, plan.layout.provider,
        "Proved", "500", "900 ms", "p95", "2026-08-14", "made for this test", "limits.replicas", "1, 2", "CP-SAT",
        *(one.why for one in plan.alternatives), *(one.flag for one in plan.cheaper_if),
        *(line for step in plan.explanation for line in step.lines),
    ):  # fmt: skip
        assert said in page.words


def test_a_report_of_no_answer_says_what_conflicts_and_what_would_do(answers: Answers) -> None:
    page = Page(report_html(answers.none))
    for said in (
        *(one.needs for one in answers.none.conflict), *(one.flag for one in answers.none.least_changes),
        *(one.summary for one in answers.none.nearest_misses), "cannot hold together",
    ):  # fmt: skip
        assert said in page.words
    assert "svg" not in page.tags


def test_a_report_of_a_fleet_says_what_is_rented_and_what_each_class_gets(answers: Answers) -> None:
    fleet, page = answers.fleet, Page(report_html(answers.fleet))
    assert fleet.cost is not None
    for said in (
        f"${fleet.cost.usd_per_hour:,.2f}", fleet.summary, "small", "medium", "holds",
        *(site.id for site in fleet.sites), *(pool.id for pool in fleet.pools),
        *(one.rule for one in fleet.compared if one.usd_per_hour is not None),
    ):  # fmt: skip
        assert said in page.words


def test_a_report_of_no_fleet_says_what_conflicts(answers: Answers) -> None:
    assert answers.no_fleet.status == "infeasible"
    words = Page(report_html(answers.no_fleet)).words
    assert all(one.meaning in words for one in answers.no_fleet.conflict)


@pytest.mark.parametrize("name", ["plan", "none", "fleet", "no_fleet"])
def test_the_question_in_a_report_is_the_question_that_was_asked(answers: Answers, name: str) -> None:
    plan = getattr(answers, name)
    again = yaml.safe_load(scenario_yaml(plan))
    assert again["prices"].pop("as_of") == plan.prices.as_of
    build: Any = build_fleet_scenario if name.endswith("fleet") else build_scenario
    assert build(again).model_dump(mode="json") == plan.scenario


@pytest.mark.parametrize("name", ["plan", "none", "fleet", "no_fleet"])
def test_a_report_is_one_well_formed_page_that_runs_and_asks_for_nothing(answers: Answers, name: str) -> None:
    text = report_html(getattr(answers, name))
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "a", "form"} & set(page.tags)
    assert not [key for key, _ in page.attributes if key in ("src", "href", "srcset") or key.startswith("on")]
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", text)
    policy = next(value for key, value in page.attributes if key == "content" and value and "src" in value)
    assert policy.startswith("default-src 'none'")
    assert "@page" in text
    assert "prefers-color-scheme: dark" in text


def hostile(fields: Any) -> Any:
    """Put a hostile name wherever a plan has words of the user's or of a source's."""
    names = {
        "provider", "region", "instance_type", "gpu", "summary", "why", "change", "flag", "price_source", "model",
        "description", "name", "rule", "meaning", "needs", "fabric", "network", "class_name", "weights",
    }  # fmt: skip
    keep = {"ruled_out", "solver", "targets", "sites", "pools"}
    if isinstance(fields, dict):
        return {
            key: HOSTILE if key in names and isinstance(value, str) else hostile(value) if key not in keep else value
            for key, value in fields.items()
        }
    return [hostile(one) for one in fields] if isinstance(fields, list) else fields


@pytest.mark.parametrize("name", ["plan", "none", "fleet", "no_fleet"])
def test_hostile_names_are_shown_as_text(answers: Answers, name: str) -> None:
    plan = getattr(answers, name)
    fields = hostile(json.loads(plan.model_dump_json()))
    fields["warnings"] = [HOSTILE]
    broken = type(plan).model_construct(**type(plan).model_validate(fields).__dict__)
    text = report_html(broken)
    assert "<script" not in text
    assert "\x00" not in text
    page = Page(text)
    assert "<script>alert(1)</script>" in page.words
    assert "script" not in page.tags


def test_text_is_escaped_and_markup_is_not() -> None:
    assert content(["<b>", tag("b", "a & b", title='"')]) == '&lt;b&gt;<b title="&quot;">a &amp; b</b>'
    assert content(Markup("<i>")) == "<i>"
    assert "&lt;" in table(["<"], [["<"]])


def test_the_title_is_the_answer_in_a_sentence(answers: Answers) -> None:
    assert re.fullmatch(
        r"Qwen2.5-0.5B-Instruct runs for \$0.80 an hour \(\$584 a month\) on 1x L4-24GB at acme",
        report_title(answers.plan),
    )
    assert report_title(answers.none) == "Qwen2.5-0.5B-Instruct: no layout in the catalog keeps every rule"


class TestCommand:
    @pytest.fixture
    def saved(self, tmp_path: Path) -> Path:
        path = tmp_path / "plan.json"
        path.write_text(run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--json").out, encoding="utf-8")
        return path

    def test_a_plan_becomes_a_page_that_others_may_read(self, saved: Path, tmp_path: Path) -> None:
        out = tmp_path / "new" / "report.html"
        ran = run("report", str(saved), "-o", str(out))
        assert (ran.code, ran.out, ran.err) == (0, f"{out}\n", "")
        assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
        assert out.stat().st_mode & stat.S_IRUSR
        assert stat.S_IMODE(out.stat().st_mode) == 0o644 or sys.platform == "win32"

    def test_standard_input_and_output_are_dashes(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(saved.read_bytes())))
        ran = run("report", "-", "-o", "-")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == report_html(Plan.model_validate_json(saved.read_bytes()))

    @pytest.mark.parametrize(
        ("content", "out", "said"),
        [
            ("{}", "report.html", "is not a plan"),
            ("[1", "report.html", "is not JSON"),
            ('{"kind": "fleet"}', "report.html", "is not a plan"),
            ("{}", "report.pdf", "expected a file that ends in .html"),
        ],
    )
    def test_what_is_no_plan_or_no_page_is_one_message(self, content: str, out: str, said: str, tmp_path: Path) -> None:
        (tmp_path / "plan.json").write_text(content, encoding="utf-8")
        ran = run("report", str(tmp_path / "plan.json"), "-o", str(tmp_path / out))
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err
        assert not (tmp_path / out).exists()

    def test_a_page_that_cannot_be_written_is_one_message(self, saved: Path) -> None:
        ran = run("report", str(saved), "-o", str(saved / "report.html"))
        assert (ran.code, "cannot be written" in ran.err) == (2, True)


def test_a_report_says_how_to_start_the_plan(answers: Answers) -> None:
    page = Page(report_html(answers.plan))
    assert "How to start it" in page.words
    assert f"vllm serve {SMALL}" in page.words
    assert "shardwise export plan.json --to TARGET" in page.words
    assert "How to start it" not in Page(report_html(answers.none)).words


def test_a_report_whose_launch_file_cannot_be_written_says_why(answers: Answers) -> None:
    plan = answers.plan.model_copy(update={"scenario": answers.plan.scenario | {"model": "nobody/nothing"}})
    assert "No launch file can be written here" in Page(report_html(plan)).words


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield found
        found.close()


@pytest.mark.parametrize("name", ["plan", "none", "fleet"])
def test_a_report_reads_on_a_phone_on_paper_and_in_the_dark(
    answers: Answers, browser: Any, name: str, tmp_path: Path
) -> None:
    """Nothing is wider than the screen, names of 300 characters included, and nothing is asked for or complained of."""
    plan = getattr(answers, name)
    long = plan.model_copy(update={"warnings": ("w" * 300,), "summary": "s" * 300})
    (tmp_path / "report.html").write_text(report_html(long), encoding="utf-8")
    page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto((tmp_path / "report.html").as_uri())
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 27, 34)"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert (len(asked), said) == (1, [])
    page.close()
