"""What if: sliders that change the question or the prices, and how the answer to that differs from the one shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui
from nicegui.element import Element

from optimizer.plan import Plan
from optimizer.questions.kinds import build_question
from optimizer.questions.requests import ShockQuestion, SolveQuestion
from optimizer.report.drawings import Bar, draw_costs
from optimizer.report.text import dollars, milliseconds
from optimizer.web.page import words
from optimizer.web.page.answer import both_widths
from optimizer.web.page.elements import Words, box, bullets, button, card, with_attributes
from optimizer.web.page.fields import TRAFFIC, Question, put, traffic_kind, with_traffic

STEPS = 8  # to either side; the middle is the question as it stands
UNIT = {"request_rate": "requests/s", "concurrency": "in flight", "output_tokens_per_second": "tokens/s"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the sliders ask: a question, and a factor on the list prices of some offers (empty pattern for none)."""

    question: Question
    offers: str = ""
    factor: float = 1.0

    def build(self) -> SolveQuestion | ShockQuestion:
        """Return it as the workers are asked.

        Raises:
            Refusal: the fields of the question are wrong.
        """
        scenario = {"scenario": self.question}
        if not self.offers:
            return build_question(SolveQuestion, scenario | {"reasons": False})
        return build_question(ShockQuestion, scenario | {"price": [f"{self.offers}=x{self.factor:g}"]})


@dataclass(frozen=True, slots=True)
class Lever:
    """One slider: what it changes, from which value, and in which steps (each multiplies by 2 ** (1 / per_double))."""

    name: str
    label: str
    start: float
    per_double: int = 4

    def value(self, step: int) -> float:
        """Return the value at a step; three digits are enough."""
        return float(f"{self.start * 2 ** (step / self.per_double):.3g}")


def levers_of(question: Mapping[str, Any], plan: Plan) -> list[Lever]:
    """Return the sliders that make sense for a question and its answer."""
    if plan.cost is None or plan.performance is None:
        return []
    kind = traffic_kind(question)
    demand = float(plan.scenario["workload"][kind])
    targets = plan.scenario["targets"]
    found = [
        Lever("traffic", f"Traffic, {TRAFFIC[kind].lower()}", demand),
        Lever("budget", "Budget, USD/h", plan.scenario["limits"]["budget_usd_per_hour"] or plan.cost.usd_per_hour),
    ]
    for name in ("ttft", "tpot"):
        start = targets[f"{name}_ms"] or plan.performance.latency_ms(name, targets["at"])
        if start > 0:
            found.append(Lever(name, f"{name.upper()} target, ms", float(start)))
    return [*found, Lever("price", "Price, times", 1.0, per_double=8)]


def asked(question: Question, levers: Mapping[str, Lever], steps: Mapping[str, int], offers: str) -> Asked:
    """Return what the sliders ask. One in the middle changes nothing."""
    changed, factor = question, 1.0
    for name, lever in levers.items():
        step = steps.get(name, 0)
        if not step:
            continue
        value = lever.value(step)
        if name == "traffic":
            kind = traffic_kind(question)
            changed = with_traffic(changed, kind, max(round(value), 1) if kind == "concurrency" else value)
        elif name == "budget":
            changed = put(changed, "limits.budget_usd_per_hour", value)
        elif name == "price":
            factor = value
        else:
            changed = put(changed, f"targets.{name}_ms", value)
    return Asked(changed, offers if factor != 1.0 else "", factor)


def offers_of(plan: Plan) -> dict[str, str]:
    """Return which prices a slider may change, by the pattern that names them."""
    layout = plan.layout
    if layout is None:
        return {}
    return {
        f"gpu={layout.gpu}": f"of every {layout.gpu}",
        f"provider={layout.provider}": f"of {layout.provider}",
        f"{layout.provider}/{layout.instance_type}/{layout.region}/{layout.term}": "of this offer alone",
    }


class WhatIf:
    """The sliders, and the answer to what they ask beside the base.

    Attributes:
        asked: what they ask now.
    """

    def __init__(self, question: Question, plan: Plan, ask: Callable[[Asked], Any], adopt: Callable[[Question], Any]):
        """Build them where the page stands.

        Args:
            question: what the answer is to.
            plan: the answer, the base.
            ask: called with what the sliders ask after each move.
            adopt: called with a question to be asked in place of this one.
        """
        self._question, self._plan, self._ask, self._adopt = question, plan, ask, adopt
        self._levers = {lever.name: lever for lever in levers_of(question, plan)}
        self._steps = dict.fromkeys(self._levers, 0)
        self._said: dict[str, Words] = {}
        self._sliders: dict[str, Element] = {}
        if self._levers:
            self._build()

    @property
    def asked(self) -> Asked:
        """What the sliders ask now."""
        return asked(self._question, self._levers, self._steps, str(self._offers.value))

    def _build(self) -> None:
        with card("What if"):
            with box("div", "sliders"):
                for lever in self._levers.values():
                    self._build_slider(lever)
            self._result = box("div", "result", role="status", aria_live="polite")
            with box("div", "actions"):
                self._take = button("Ask this instead", lambda: self._adopt(self.asked.question))
                button("Reset sliders", self._reset)
            self.show_base()

    def _build_slider(self, lever: Lever) -> None:
        with box("div", "lever"):
            with box("div", "lever-head"):
                Words(lever.label, "span")
                self._said[lever.name] = Words("", "strong")
            if lever.name == "price":
                options = offers_of(self._plan)
                self._offers = ui.select(options, label="Prices", value=next(iter(options)), on_change=self._moved)
                self._offers.props("outlined dense stack-label hide-bottom-space behavior=menu")
            # The browser's own slider: it is read aloud and moved by keys as people are used to. It has no value of
            # ours, which would come back and hold up the one who still moves it: the moment it becomes a range, whose
            # ends are known by then (type comes last), it stands in the middle.
            slider = box("input", min=str(-STEPS), max=str(STEPS), step="1", aria_label=lever.label, type="range")
            self._sliders[lever.name] = slider
            self._put(lever.name, 0)
            slider.on(
                "input",
                lambda event, name=lever.name: self._slid(name, event.args),
                js_handler="(event) => emit(event.target.value)",
            )

    def _put(self, name: str, step: int) -> None:
        said = self._words(self._levers[name], step)
        self._steps[name] = step
        self._said[name].text = said
        with_attributes(self._sliders[name], aria_valuetext=said)

    def _slid(self, name: str, args: Any) -> None:
        try:
            step = max(-STEPS, min(STEPS, round(float(args))))
        except (TypeError, ValueError, OverflowError):
            return
        if step != self._steps[name]:
            self._put(name, step)
            self._moved()

    def _moved(self) -> None:
        if any(self._steps.values()):
            self._ask(self.asked)
        else:
            self.show_base()

    def _words(self, lever: Lever, step: int) -> str:
        value = lever.value(step)
        asks = self._plan.scenario
        if lever.name == "price":
            return "as listed" if not step else f"{value - 1:+.0%}"
        if lever.name == "traffic":
            amount = f"{value:g} {UNIT[traffic_kind(self._question)]}"
            return f"as asked, {amount}" if not step else f"{amount} (x{2 ** (step / lever.per_double):.3g})"
        if lever.name == "budget":
            said = asks["limits"]["budget_usd_per_hour"]
            return (f"as asked, {dollars(said)}" if said else "as asked, none") if not step else dollars(value)
        said = asks["targets"][f"{lever.name}_ms"]
        return (f"as asked, {milliseconds(said)}" if said else "as asked, none") if not step else milliseconds(value)

    def _reset(self) -> None:
        for name, slider in self._sliders.items():
            slider.run_method("stepDown", 2 * STEPS)
            slider.run_method("stepUp", STEPS)
            self._put(name, 0)
        self.show_base()

    def show_base(self) -> None:
        """Show that nothing is changed."""
        self._say(["Move a slider: the question is solved anew, and held against this answer."])
        self._take.set_visibility(False)

    def show_busy(self) -> None:
        """Show that the answer is being worked out."""
        self._say(["Solving ..."])

    def show_problem(self, said: str) -> None:
        """Show why there is no answer."""
        self._say([said])

    def show(self, plan: Plan, besides: Sequence[str] = ()) -> None:
        """Show the answer to what the sliders ask, against the base.

        Args:
            plan: the answer.
            besides: lines that go with it.
        """
        self._say([*words.difference(self._plan, plan), *besides])
        base = self._plan.cost
        if plan.cost is not None and base is not None:
            bars = [Bar("the answer", base.usd_per_hour), Bar("what if", plan.cost.usd_per_hour, chosen=True)]
            with self._result:
                both_widths(lambda width: draw_costs(bars, title="Cost against the answer", width=width))
        self._take.set_visibility(self.asked.question != self._question)

    def _say(self, lines: list[str]) -> None:
        self._result.clear()
        with self._result:
            Words(lines[0], "strong")
            bullets(lines[1:], "plain")
