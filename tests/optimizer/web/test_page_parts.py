"""The parts of the page that need no browser: fields, links, advice, words, charts, the memory bar, the token."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from dataclasses import replace
from datetime import date
from typing import Any
from xml.etree import ElementTree

import pytest

from catalogs.models import load_model
from optimizer.errors import QuestionError, ScenarioError
from optimizer.fit import fit
from optimizer.memory import MemoryPolicy
from optimizer.plan import Plan
from optimizer.replica import name_replica
from optimizer.scenario import build_scenario, load_scenario
from optimizer.solve import solve
from optimizer.web.page import advice, fields, link, words
from optimizer.web.page.charts import draw_front, draw_prices
from optimizer.web.page.fit_bar import FitAsked, fit_of
from optimizer.web.page.gate import COOKIE, Gate
from optimizer.web.page.history import PriceStood, history_of
from optimizer.web.page.what_if import asked as asked_by
from optimizer.web.page.what_if import levers_of
from optimizer.whatif.front import find_front
from optimizer.whatif.front_points import Front
from tests.optimizer.web.browser import ROOT

HOSTILE = "<img src=x onerror=alert(1)>&\"'"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return solve(build_scenario(fields.DEFAULT))


@pytest.fixture(scope="module")
def front() -> Front:
    return find_front(build_scenario(fields.DEFAULT), ("cost", "tpot", "ttft"))


def _texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_what_the_page_asks_at_first_is_the_chat_example():
    example = load_scenario(ROOT / "examples" / "llama-3.1-70b-chat.yaml")
    assert build_scenario(fields.DEFAULT) == example.model_copy(update={"description": ""})


def test_every_field_of_the_form_is_a_field_of_a_scenario():
    dumped = build_scenario(fields.DEFAULT).model_dump()
    for field in fields.FORM:
        section, name = field.path.split(".")
        assert name in dumped[section], field.path
        assert field.section in fields.SECTIONS


def test_options_of_a_field_are_accepted_by_the_library():
    for field in fields.FORM:
        for option in field.options:
            build_scenario(fields.put(fields.DEFAULT, field.path, [option] if field.kind == "many" else option))


def test_a_value_put_in_comes_out_and_an_empty_one_takes_the_field_away():
    asked = fields.put(fields.DEFAULT, "limits.gpus", ["H100-SXM-80GB"])
    assert fields.get(asked, "limits.gpus") == ["H100-SXM-80GB"]
    assert fields.put(asked, "limits.gpus", []) == fields.DEFAULT
    assert fields.put(fields.put(fields.DEFAULT, "targets.ttft_ms", ""), "targets.tpot_ms", None).get("targets") is None


def test_traffic_is_said_in_one_way():
    asked = fields.with_traffic(fields.DEFAULT, "concurrency", "32")
    assert fields.traffic_kind(asked) == "concurrency"
    assert build_scenario(asked).workload.concurrency == 32


def test_problems_are_sorted_by_the_field_they_belong_to():
    wrong = {"model": "m", "workload": {"input_tokens": "x", "request_rate": 1}, "limits": {"tp": ["a"], "color": 1}}
    with pytest.raises(ScenarioError) as caught:
        build_scenario(wrong)
    found, rest = fields.by_field(caught.value.problems)
    assert set(found) == {"workload.input_tokens", "workload.output_tokens", "limits.tp"}
    assert len(rest) == 1
    assert "limits.color: is not a field" in rest[0]


def test_what_the_form_does_not_show_is_named():
    asked = fields.DEFAULT | {"limits": {"quotas": [{"max_gpus": 8}], "gpus": ["H100-SXM-80GB"]}}
    assert fields.beside_the_form(asked) == ["limits.quotas"]


def test_a_link_holds_a_question_in_few_characters():
    asked = fields.put(fields.DEFAULT, "limits.regions", ["é / ü", HOSTILE])
    text = link.encode(asked)
    assert text is not None
    assert len(text) < 400
    assert text.replace("-", "").replace("_", "").isalnum()
    assert link.decode(text) == asked


def test_a_question_too_long_for_a_link_has_none():
    assert link.encode({"description": "".join(chr(33 + at * 7919 % 90) for at in range(40_000))}) is None


def _packed(value: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(value, 9)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%%%",
        "AAAA",
        "é",
        _packed(b"not json"),
        _packed(b"[1]"),
        _packed(b"null"),
        _packed(b'{"a":NaN}'),
        _packed(b'{"a":' * 40 + b"1" + b"}" * 40),
        _packed(b"[" * 30_000),
        _packed(b'{"a":"' + b" " * 40_000_000 + b'"}')[:4000],
        _packed(json.dumps(fields.DEFAULT).encode())[:-4],
        _packed(b'{"a":"' + b" " * 2_000_000 + b'"}'),
        "A" * 4001,
    ],
)
def test_a_text_that_is_no_link_of_ours_is_refused_in_words(text):
    with pytest.raises(QuestionError, match="the link's question"):
        link.decode(text)


def test_advice_of_an_infeasible_answer_leads_to_a_feasible_question():
    scenario = load_scenario(ROOT / "examples" / "infeasible-70b-on-small-budget.yaml")
    asked = json.loads(scenario.model_dump_json(exclude_defaults=True))
    found = solve(scenario)
    assert found.least_changes
    for change in found.least_changes:
        changed = advice.follow(asked, change.flag)
        assert changed is not None
        plan = solve(build_scenario(changed), reasons=False)
        assert plan.cost is not None
        assert plan.cost.usd_per_hour == pytest.approx(change.usd_per_hour)


def test_advice_on_what_is_cheaper_leads_to_that_cost(plan):
    assert plan.cheaper_if
    for one in plan.cheaper_if:
        changed = advice.follow(fields.DEFAULT, one.flag)
        assert changed is not None
        cost = solve(build_scenario(changed), reasons=False).cost
        assert cost is not None
        assert cost.usd_per_hour == pytest.approx(one.usd_per_hour)


@pytest.mark.parametrize(
    ("flags", "path", "value"),
    [
        ("--gpu A,B", "limits.gpus", ["A", "B"]),
        ("--region 'us east,1'", "limits.regions", ["us east", "1"]),
        ("--tp-across-nodes", "limits.tp_across_nodes", True),
        ("without --exclude-gpu X", "limits.exclude_gpus", ["Y"]),
        ("--provider Z without --exclude-provider Z", "limits.providers", ["Z"]),
        ("--concurrency 8", "workload.concurrency", "8"),
        ("--memory-policy engine", "memory.policy", "engine"),
        ("--max-price-age-days 200", "prices.max_age_days", "200"),
    ],
)
def test_flags_of_an_advice_set_their_fields(flags, path, value):
    asked = fields.DEFAULT | {"limits": {"exclude_gpus": ["X", "Y"], "exclude_providers": "Z"}}
    changed = advice.follow(asked, flags)
    assert changed is not None
    assert fields.get(changed, path) == value


@pytest.mark.parametrize(
    "flags", ["limits.quotas", "--gpu A limits.quotas", "--offers-file /etc/passwd", "--rm -rf", "'", ""]
)
def test_what_is_no_flag_of_a_question_is_not_followed(flags):
    assert advice.follow(fields.DEFAULT, flags) is None


def test_alternatives_are_sorted_with_those_without_a_figure_last(plan):
    up = words.sorted_alternatives(plan.alternatives, 4, down=False)
    down = words.sorted_alternatives(plan.alternatives, 4, down=True)
    known = [one.ttft_ms for one in up if one.ttft_ms is not None]
    assert known == sorted(known)
    assert [one.ttft_ms for one in down if one.ttft_ms is not None] == known[::-1]
    assert up[-1].ttft_ms is None
    assert down[-1].ttft_ms is None
    assert len(words.alternative_row(up[0])) == len(words.ALTERNATIVE_COLUMNS)


def test_a_difference_says_cost_and_layout(plan):
    dearer = plan.model_copy(
        update={"summary": "other", "cost": plan.cost.model_copy(update={"usd_per_hour": plan.cost.usd_per_hour * 2})}
    )
    cost, layout = words.difference(plan, dearer)
    assert "(+100%)" in cost
    assert layout == "The layout changes to other."
    assert words.difference(plan, plan)[0].endswith("as before.")
    nothing = solve(build_scenario(fields.put(fields.DEFAULT, "limits.budget_usd_per_hour", 1)), reasons=False)
    assert words.difference(plan, nothing)[0] == "No layout keeps every rule then."


@pytest.mark.parametrize("width", [350.0, 780.0])
def test_the_front_is_drawn_whole_inside_its_frame(front, width):
    svg = draw_front(front, "tpot", width=width)
    root = ElementTree.fromstring(svg)
    numbers = [text for text in _texts(svg) if text.isdigit()]
    assert sorted(map(int, numbers)) == list(range(1, len(front.points) + 1))
    for dot in root.iter(f"{SVG}circle"):
        assert 0 <= float(dot.attrib["cx"]) <= width
        assert 0 <= float(dot.attrib["cy"]) <= 300
    told = root.findtext(f"{SVG}desc") or ""
    for point in front.points:
        assert f"${point.usd_per_hour:,.2f} an hour" in told
    dots = dict(zip(numbers, _dots(root), strict=True))
    cheapest, dearest = dots["1"], dots[str(len(front.points))]
    assert float(cheapest.attrib["cx"]) < float(dearest.attrib["cx"])


def _dots(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [dot for dot in root.iter(f"{SVG}circle") if dot.attrib["fill"] != "none"]


def test_a_front_of_one_point_is_drawn(front):
    one = front.model_copy(update={"points": front.points[:1], "knee": 0})
    assert "1" in _texts(draw_front(one, "ttft"))


def test_a_price_history_marks_the_price_that_was_used(plan):
    layout = plan.layout
    history = (
        PriceStood(date(2026, 6, 1), date(2026, 7, 1), 10.0, "a"),
        PriceStood(date(2026, 7, 2), layout.price_seen_on, layout.price_usd_per_node_hour, "a"),
    )
    svg = draw_prices(history, layout, width=350.0)
    assert f"used: ${layout.price_usd_per_node_hour:,.2f}, seen {layout.price_seen_on}" in _texts(svg)
    assert "$10.00 from 2026-06-01 to 2026-07-01 (a)" in (ElementTree.fromstring(svg).findtext(f"{SVG}desc") or "")


def test_drawings_escape_names(front, plan):
    layout = plan.layout.model_copy(update={"instance_type": HOSTILE, "gpu": HOSTILE, "provider": HOSTILE})
    point = front.points[0].model_copy(update={"summary": HOSTILE, "layout": layout})
    stood = PriceStood(date(2026, 6, 1), date(2026, 6, 1), 1.0, HOSTILE)
    drawn = [draw_front(front.model_copy(update={"points": (point,)}), "tpot"), draw_prices([stood], layout)]
    for svg in drawn:
        assert not list(ElementTree.fromstring(svg).iter(f"{SVG}img"))
        assert HOSTILE in (ElementTree.fromstring(svg).findtext(f"{SVG}desc") or "")


def test_a_history_holds_the_rows_of_the_offer_alone(plan):
    layout = plan.layout
    names = ("provider", "region", "instance_type", "term", "gpu")
    row = {name: getattr(layout, name) for name in names}
    row |= {"first_seen": "2026-07-02 12:00", "last_seen": "2026-07-09 12:00", "price_usd_per_node_hour": 7.5,
            "source": "s"}  # fmt: skip
    found = history_of(layout, [row, row | {"region": "elsewhere"}, row | {"first_seen": "2026-06-01 00:00"}])
    assert [one.first_seen for one in found] == [date(2026, 6, 1), date(2026, 7, 2)]
    assert replace(found[0], first_seen=date(2026, 7, 2)) == found[1]


def test_the_memory_bar_has_the_figures_of_fit():
    asked = FitAsked("H100-SXM-80GB", 4, 1, "", "32")
    used, said = fit_of(fields.DEFAULT, asked, [fields.DEFAULT["model"]])
    replica = name_replica(load_model(fields.DEFAULT["model"]), "H100-SXM-80GB", tp=4)
    assert used == fit(replica, context_tokens=2300, concurrency=32, policy=MemoryPolicy()).memory
    assert said == ""
    for wrong in (replace(asked, tp=3), replace(asked, at_once="-1"), replace(asked, gpu="none")):
        nothing, why = fit_of(fields.DEFAULT, wrong, [fields.DEFAULT["model"]])
        assert nothing is None
        assert why
    assert fit_of({"model": "/etc/passwd"}, asked, [fields.DEFAULT["model"]])[0] is None


def test_sliders_in_the_middle_ask_the_question_as_it_stands(plan):
    levers = {lever.name: lever for lever in levers_of(fields.DEFAULT, plan)}
    assert set(levers) == {"traffic", "budget", "ttft", "tpot", "price"}
    still = asked_by(fields.DEFAULT, levers, dict.fromkeys(levers, 0), "gpu=X")
    assert (still.question, still.offers, still.factor) == (fields.DEFAULT, "", 1.0)
    moved = asked_by(fields.DEFAULT, levers, {"traffic": -8, "budget": 4, "ttft": -4, "price": 8}, "gpu=X")
    assert fields.get(moved.question, "workload.request_rate") == 1
    assert fields.get(moved.question, "limits.budget_usd_per_hour") == pytest.approx(2 * plan.cost.usd_per_hour)
    assert fields.get(moved.question, "targets.ttft_ms") == 750
    assert (moved.offers, moved.factor) == ("gpu=X", 2.0)
    build_scenario(moved.question)


class _Settings:
    def __init__(self, token: str | None):
        self.token = token

    def token_holds(self, given: str | None) -> bool:
        return self.token is None or given == self.token


async def _page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"the page"})


def _get(token: str | None, path: str = "/", method: str = "GET", body: bytes = b"", query: str = "", **headers: str):
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": named}
    asyncio.run(Gate(_page, _Settings(token))(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"].decode()


def test_without_a_token_everybody_passes_under_a_policy_that_loads_nothing_from_elsewhere():
    status, headers, body = _get(None)
    assert (status, body) == (200, "the page")
    policy = headers[b"content-security-policy"].decode()
    assert "default-src 'self'" in policy
    assert "http" not in policy.replace("https://www", "")
    assert "*" not in policy


def test_a_token_in_the_address_becomes_a_cookie_that_opens_the_page():
    status, headers, _ = _get("secret-of-ours", query="q=abc&token=secret-of-ours")
    assert status == 303
    assert headers[b"location"] == b"/?q=abc"
    cookie = headers[b"set-cookie"].decode()
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "secret-of-ours" not in cookie
    value = cookie.partition(";")[0]
    assert _get("secret-of-ours", cookie=f"a=b; {value}")[0] == 200
    assert _get("another-secret", cookie=value)[0] == 401
    until, signature = value.removeprefix(f"{COOKIE}=").split(".")
    assert _get("secret-of-ours", cookie=f"{COOKIE}={int(until) + 1}.{signature}")[0] == 401
    assert _get("secret-of-ours", cookie=f"{COOKIE}=1.{signature}")[0] == 401
    assert _get("secret-of-ours", authorization="Bearer secret-of-ours")[0] == 200


def test_the_login_form_takes_the_token_and_goes_on_only_within_the_page():
    for wanted, onward in (("/?q=a", "/?q=a"), ("//evil.example/", "/"), ("https://evil.example", "/")):
        status, headers, _ = _get("secret", "/login", "POST", f"token=secret&next={wanted}".encode())
        assert (status, headers[b"location"].decode()) == (303, onward)
    status, _, body = _get("secret", "/login", "POST", b"token=wrong&next=%22%3E%3Cscript%3E")
    assert status == 401
    assert "not the token" in body
    assert "<script>" not in body


def test_without_the_token_nothing_but_the_login_is_answered():
    assert _get("secret")[0] == 401
    assert "<form" in _get("secret", query="q=%22%3E%3Cscript%3E")[2]
    assert "<script>" not in _get("secret", query="q=%22%3E%3Cscript%3E")[2]
    assert _get("secret", "/_nicegui/static/nicegui.js")[2] == "a token is needed"
