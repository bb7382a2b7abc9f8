"""The page of `shardwise serve` in a real browser, by mouse and by keys."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest

from optimizer.report.text import dollars
from optimizer.scenario import build_scenario
from optimizer.solve import solve
from optimizer.web.page import link
from optimizer.web.page.fields import DEFAULT, put
from optimizer.web.page.session import EXAMPLES
from tests.optimizer.web.browser import NARROW, Visit, find_chromium, launched, visiting
from tests.optimizer.web.service import Service, serving

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: set SHARDWISE_CHROMIUM, or install chromium")

HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"
FLEET = """
models:
- model: meta-llama/Llama-3.1-8B-Instruct
  classes: [{name: chat, input_tokens: 1000, output_tokens: 200, request_rate: 5}]
limits: {gpus: [L40S-48GB, H100-SXM-80GB]}
"""


@pytest.fixture(scope="module")
def address(service: Service) -> str:
    return service.address


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    assert CHROMIUM is not None
    with launched(CHROMIUM) as found:
        yield found


@pytest.fixture
def visit(browser, address) -> Iterator[Visit]:
    with visiting(browser, address) as found:
        found.open()
        yield found
        _is_clean(found)


def _is_clean(visit: Visit) -> None:
    """Nothing was said in the console, nothing asked of another machine, nothing of the user's read as HTML."""
    assert visit.complaints == []
    assert visit.outside == []
    assert visit.page.title() == "shardwise"


def _ask(visit: Visit, name: str) -> str:
    visit.page.get_by_role("button", name=name, exact=True).click()
    return visit.headline()


def _slide(visit: Visit, label: str, key: str, times: int) -> str:
    visit.page.get_by_role("slider", name=label).focus()
    for _ in range(times):
        visit.page.keyboard.press(key)
    visit.page.locator(".result strong", has_text=re.compile(r"/hour|No layout")).wait_for()
    return visit.page.locator(".result").inner_text()


def test_the_answer_is_that_of_the_library_and_comes_within_a_second(visit):
    plan = solve(build_scenario(DEFAULT | {"workload": DEFAULT["workload"] | {"request_rate": 6}}))
    assert plan.cost is not None
    visit.page.get_by_label("How much").fill("6")
    button = visit.page.get_by_role("button", name="Solve", exact=True)
    began = time.perf_counter()
    button.click()
    visit.page.get_by_text(plan.summary, exact=True).first.wait_for()
    seconds = time.perf_counter() - began
    print(f"\nfrom the click to the answer: {seconds:.2f} s")
    shown = visit.headline()
    assert dollars(plan.cost.usd_per_hour) in shown
    assert dollars(plan.cost.usd_per_million_output_tokens) in shown
    assert "Proved: no layout in this catalog" in shown
    visit.page.get_by_role("region", name="Layouts of the front").wait_for()
    for title in ("Layout", "Memory per GPU", "Latency and throughput", "What if", "Launch files", "Prices"):
        assert visit.page.get_by_role("heading", name=title, exact=True).count() == 1, title
    assert visit.page.locator(".drawing svg:visible > title").count() >= 5
    assert seconds < 5.0  # under a second on a machine of its own; this one may be busy with other tests


def test_what_is_wrong_is_said_at_the_field_in_the_words_of_the_library(visit):
    visit.page.get_by_label("Input tokens").fill("many")
    visit.page.get_by_label("TTFT, first token, ms").fill("-3")
    said = visit.solve()
    assert "workload.input_tokens: expected a whole number from 1 to 10,000,000; got 'many'" in said
    field = visit.page.locator("label", has=visit.page.get_by_label("Input tokens"))
    assert "expected a whole number" in field.inner_text()
    assert "expected a number from 0.000001" in visit.page.locator("form").inner_text()
    visit.page.get_by_label("Input tokens").fill("2000")
    field.get_by_text("expected a whole number").wait_for(state="hidden")


def test_the_memory_bar_follows_a_change_at_once(visit):
    bar = visit.page.locator("div.fit")
    before = bar.inner_text()
    assert "Fits" in before
    visit.page.get_by_label("Requests at once", exact=True).fill("4000")
    began = time.perf_counter()
    bar.locator("strong", has_text="Does not fit").wait_for()
    print(f"\nmemory bar after a change: {time.perf_counter() - began:.2f} s")
    visit.page.get_by_label("Requests at once", exact=True).fill("none")
    bar.get_by_text("expected a whole number").wait_for()


def test_sliders_solve_anew_and_say_the_difference(visit):
    _ask(visit, "70B chat")
    said = _slide(visit, "Traffic, requests per second", "ArrowRight", 8)
    assert "(+" in said
    assert "against" in said
    assert visit.page.get_by_role("slider", name="Traffic, requests per second").get_attribute("aria-valuetext") == (
        "16 requests/s (x4)"
    )
    visit.page.get_by_role("button", name="Reset sliders").click()
    visit.page.get_by_text("Move a slider").wait_for()
    said = _slide(visit, "Budget, USD/h", "ArrowLeft", 8)
    assert "No layout keeps every rule then." in said
    assert "the layout costs no more than the budget" in said
    visit.page.get_by_role("button", name="Reset sliders").click()
    said = _slide(visit, "Price, times", "ArrowRight", 8)
    assert "/hour" in said


def test_a_what_if_can_become_the_question(visit):
    _ask(visit, "70B chat")
    _slide(visit, "Traffic, requests per second", "ArrowRight", 4)
    visit.page.locator(".lever", has_text="8 requests/s (x2)").wait_for()
    visit.page.get_by_role("button", name="Ask this instead").click()
    visit.page.wait_for_function("document.querySelector('[aria-label=\"How much\"]')?.value === '8'")


def test_an_infeasible_question_says_why_and_a_least_change_is_applied(visit):
    assert "Infeasible" in _ask(visit, "70B on too small a budget")
    rules = visit.page.get_by_role("region", name="Rules in conflict").inner_text()
    assert "budget" in rules
    assert "ttft" in rules
    visit.page.get_by_role("button", name=re.compile("^Apply: a budget of")).click()
    visit.page.locator(".badge.optimal").wait_for()
    plan = solve(build_scenario(EXAMPLES["70B on too small a budget"]))
    wanted = plan.least_changes[0].flag.split()[-1]
    assert visit.page.get_by_label("Budget, USD/h").first.input_value() == wanted


def test_a_newer_question_gives_up_the_older_one(visit):
    plan = solve(build_scenario(put(DEFAULT, "workload.request_rate", 31)), reasons=False)
    for amount in ("29", "30", "31"):
        visit.page.get_by_label("How much").fill(amount)
        visit.page.get_by_role("button", name="Solve", exact=True).click()
    visit.page.locator(".summary", has_text=plan.summary).wait_for()
    visit.page.get_by_role("region", name="Layouts of the front").wait_for()
    assert visit.page.locator(".badge").count() == 1
    asked = link.decode(visit.page.url.partition("?q=")[2])
    assert asked["workload"]["request_rate"] == "31"


def test_a_cheaper_answer_is_one_press_away(visit):
    _ask(visit, "70B chat")
    visit.page.get_by_role("button", name="Apply: spot terms").click()
    visit.page.locator(".summary", has_text="spot").wait_for()


def test_a_launch_file_is_copied_whole(visit):
    _ask(visit, "70B chat")
    visit.page.get_by_role("button", name="SGLang", exact=True).click()
    visit.page.locator("pre.code", has_text="sglang.launch_server").first.wait_for()
    visit.page.get_by_role("button", name="Kubernetes", exact=True).click()
    shown = visit.page.locator("pre.code", has_text="kind:").first
    shown.wait_for()
    visit.page.get_by_role("button", name=re.compile("^Copy .*yaml")).first.click()
    visit.page.get_by_text("is copied").wait_for()
    copied = visit.page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == shown.inner_text().strip()
    assert "kind:" in copied


def test_the_plan_is_downloaded_as_the_json_of_the_command_line(visit):
    _ask(visit, "70B chat")
    with visit.page.expect_download() as download:
        visit.page.get_by_role("button", name="Download the plan (JSON)").click()
    plan = json.loads(download.value.path().read_text())
    assert plan["status"] == "optimal"
    assert plan["schema_version"] == "1"


def test_a_link_restores_the_question_and_its_answer(browser, address, visit):
    asked = put(put(DEFAULT, "workload.request_rate", 9), "limits.gpus", ["H200-SXM-141GB"])
    with visiting(browser, address) as other:
        other.open(f"/?q={link.encode(asked)}")
        assert "H200-SXM-141GB" in other.headline()
        assert other.page.get_by_label("How much").input_value() == "9"
        other.page.get_by_role("button", name="Copy link to this question").click()
        other.page.get_by_text("The link is copied.").wait_for()
        copied = other.page.evaluate("navigator.clipboard.readText()")
        assert link.decode(copied.partition("?q=")[2])["workload"]["request_rate"] in (9, "9")
        _is_clean(other)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("AAAA", "cannot be read"),
        ("x" * 5000, "longer than 4,000 characters"),
        ({"model": HOSTILE, "workload": {"input_tokens": 1, "output_tokens": 1, "request_rate": 1}}, "onerror"),
        (DEFAULT | {HOSTILE: 1}, "is not a field"),
        (DEFAULT | {"prices": {"offers_files": ["/etc/passwd"]}}, "files are not opened"),
        (
            DEFAULT | {"targets": {"ttft_ms": "9" * 300, "at": ["mean"]}, "limits": {"gpus": [HOSTILE], "terms": {}}},
            "limits.gpus",
        ),
    ],
)
def test_a_hostile_link_shows_an_error_and_no_more(browser, address, asked, said):
    with visiting(browser, address) as visit:
        visit.open(f"/?q={asked if isinstance(asked, str) else link.encode(asked)}")
        visit.headline()
        assert said in visit.page.locator("body").inner_text()
        _is_clean(visit)


def test_names_of_the_users_are_text_wherever_they_are_shown(visit):
    owned = {"name": HOSTILE, "gpu": "H200-SXM-141GB", "capital_usd_per_node": 1000, "power_kw_per_node": 1,
             "usd_per_kwh": 0.1, "region": HOSTILE, "max_nodes": 4}  # fmt: skip
    question = DEFAULT | {"description": HOSTILE, "prices": {"owned": [owned]}}
    visit.page.get_by_text("Paste a scenario (YAML)").click()
    visit.page.get_by_label("Scenario").last.fill(json.dumps(question))
    visit.page.get_by_role("button", name="Solve the scenario").click()
    assert HOSTILE in visit.headline()
    visit.page.get_by_role("region", name="Layouts of the front").wait_for()
    visit.page.get_by_role("button", name="Kubernetes", exact=True).click()
    visit.page.locator("pre.code").or_(visit.page.locator("p.bad")).first.wait_for()
    assert visit.page.locator("img[src=x]").count() == 0
    assert HOSTILE in visit.page.locator(".answer .drawing svg").first.text_content()


def test_a_fleet_is_pasted_and_reported(visit):
    visit.page.get_by_text("Paste a scenario (YAML)").click()
    visit.page.get_by_label("Scenario").last.fill(FLEET)
    visit.page.get_by_role("button", name="Solve the scenario").click()
    visit.headline()
    assert "OPTIMAL" in visit.page.get_by_role("region", name="Fleet report").inner_text()
    visit.page.get_by_role("button", name="Kubernetes", exact=True).click()
    visit.page.locator("pre.code", has_text="kind:").first.wait_for()
    assert visit.page.locator("section", has_text="Nodes").locator("svg:visible").count() >= 1


def test_the_whole_way_by_keys_alone(visit):
    for _ in range(4):  # the link that skips to the answer, the colours, the model, the traffic fold
        visit.page.keyboard.press("Tab")
        outline = visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        inside = visit.page.evaluate("!!document.activeElement.closest('.q-field--focused')")
        assert outline != "none" or inside
    visit.page.get_by_label("How much").focus()
    visit.page.keyboard.press("Control+a")
    visit.page.keyboard.type("3")
    visit.page.keyboard.press("Enter")
    assert "Optimal, proved" in visit.headline()
    summary = visit.page.locator("summary", has_text="How one gets there")
    summary.focus()
    visit.page.keyboard.press("Enter")
    visit.page.locator("details[open] h3").first.wait_for()
    sort = visit.page.get_by_role("button", name="TPOT", exact=True)
    sort.focus()
    visit.page.keyboard.press("Enter")
    visit.page.locator("th[aria-sort=ascending]", has_text="TPOT").wait_for()


def test_every_field_and_button_has_a_name(visit):
    _ask(visit, "70B chat")
    nameless = visit.page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]),textarea,button,select')]"
        ".filter(e => e.offsetParent && !(e.labels && e.labels.length) && !e.getAttribute('aria-label')"
        " && !e.textContent.trim()).map(e => e.outerHTML.slice(0, 200))"
    )
    assert nameless == []


@pytest.mark.parametrize(("name", "scheme"), [*zip(EXAMPLES, ("light", "dark", "light"), strict=True)])
def test_a_narrow_window_is_never_scrolled_sideways(browser, address, name, scheme):
    with visiting(browser, address, size=NARROW, scheme=scheme) as visit:
        visit.open()
        _ask(visit, name)
        if name != "70B on too small a budget":
            visit.page.get_by_role("region", name="Layouts of the front").wait_for()
        assert not visit.scrolls_sideways()
        assert visit.page.locator(".answer .headline").first.bounding_box()["y"] < NARROW[1]
        _is_clean(visit)


def test_light_and_dark_follow_the_system_until_the_reader_chooses(browser, address):
    with visiting(browser, address, scheme="dark") as visit:
        visit.open()
        assert visit.page.locator("body.body--dark").count() == 1
        visit.page.get_by_role("button", name=re.compile("^Colours")).click()
        visit.page.locator("body.body--light").wait_for()
        _is_clean(visit)


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (float(number) / 255 for number in re.findall(r"[\d.]+", colour)[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser, address, scheme):
    """Every text has the contrast of 4.5 to 1 that WCAG 2.2 asks of it (success criterion 1.4.3)."""
    with visiting(browser, address, scheme=scheme) as visit:
        visit.open()
        _ask(visit, "70B chat")
        pairs = visit.page.evaluate(
            """() => [...document.querySelectorAll(
              'h1,h2,p,li,td,th,dt,dd,button,summary,strong,.badge,.q-field__label')]
              .filter(e => e.offsetParent && e.textContent.trim() && !e.classList.contains('unseen'))
              .map(e => { let g = e; while (g && getComputedStyle(g).backgroundColor === 'rgba(0, 0, 0, 0)')
                g = g.parentElement; return [e.textContent.trim().slice(0, 40), getComputedStyle(e).color,
                getComputedStyle(g || document.body).backgroundColor] })"""
        )
        assert len(pairs) > 50
        faint = {}
        for text, ink, ground in pairs:
            light, dark = sorted((_luminance(ink), _luminance(ground)), reverse=True)
            if (light + 0.05) / (dark + 0.05) < 4.5:
                faint[text] = (ink, ground)
        assert faint == {}


def test_a_token_is_asked_for_once(browser):
    token = "a-token-of-this-test-0123456789"
    with serving("--workers", "1", SHARDWISE_SERVE_TOKEN=token) as service:
        guarded = service.address
        with visiting(browser, guarded) as visit:
            visit.page.goto(f"{guarded}/?q={link.encode(DEFAULT)}")
            visit.page.get_by_label("Token of this service").fill("wrong")
            visit.page.keyboard.press("Enter")
            visit.page.get_by_text("not the token of this service").wait_for()
            visit.page.get_by_label("Token of this service").fill(token)
            visit.page.keyboard.press("Enter")
            visit.headline()
            assert token not in visit.page.url
            assert visit.outside == []
        with visiting(browser, guarded) as visit:
            visit.open(f"/?token={token}")
            assert token not in visit.page.url
            _is_clean(visit)
