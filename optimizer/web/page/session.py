"""One open page: what is asked, what is being worked out, and what is shown of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from nicegui import background_tasks, ui
from nicegui.element import Element

from optimizer.errors import QuestionError
from optimizer.export.answer import Export
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import AnswerPart, Plan
from optimizer.questions.kinds import build_question
from optimizer.questions.list_requests import HistoryQuestion
from optimizer.questions.listed import Listed
from optimizer.questions.requests import (
    ExportQuestion,
    ParetoQuestion,
    Question,
    SolveQuestion,
)
from optimizer.web.page import answer, link, words
from optimizer.web.page.advice import follow
from optimizer.web.page.elements import Words, announce, box, card, with_attributes
from optimizer.web.page.examples import show_start
from optimizer.web.page.fields import DEFAULT
from optimizer.web.page.fields import Question as Fields
from optimizer.web.page.fit_bar import FitBar
from optimizer.web.page.fleet import show_fleet
from optimizer.web.page.form import Form
from optimizer.web.page.history import history_of, patterns_of
from optimizer.web.page.keep import keep_buttons
from optimizer.web.page.launch import LaunchFiles
from optimizer.web.page.pasting import Pasting
from optimizer.web.page.problems import REFUSED, problem_line, problems_of, show_refusal
from optimizer.web.page.what_if import Asked, WhatIf
from optimizer.whatif.front_points import Front
from optimizer.whatif.shock_answer import Shock

SETTLED_S = 0.25  # a slider rests so long before it is asked
FIRST_S = 0.02


class Answers(Protocol):
    """What answers questions: the processes of the service."""

    async def run(self, question: Question) -> AnswerPart:
        """Return the answer; cancelled, the work ends."""


class Session:
    """The page of one browser tab."""

    def __init__(self, answers: Answers, names: Mapping[str, Sequence[str]], models: Sequence[str]):
        """Prepare it; `build` builds it.

        Args:
            answers: what answers questions.
            names: options of fields that the catalog knows, by path.
            models: names of models to choose from.
        """
        self._answers, self._names, self._models = answers, names, models
        self._main: asyncio.Task[None] | None = None
        self._side: asyncio.Task[None] | None = None
        self._later: asyncio.Task[None] | None = None
        self._form: Form
        self._fit: FitBar
        self._root: Element
        self._answer: Element
        self._status: Words
        self._what_if: WhatIf | None = None

    def build(self, asked: str | None) -> None:
        """Build the page.

        Args:
            asked: the text of a link (see `link`), where the page was opened with one.
        """
        ui.context.client.on_delete(self._give_up)
        with box("div", "columns") as self._root:
            with box("div", "aside"):
                with box("section", "card", aria_label="The question"):
                    self._form = Form(
                        DEFAULT,
                        models=self._models,
                        names=dict(self._names),
                        on_submit=self.solve,
                        on_change=self._changed,
                    )
                with card("Does one replica fit?"):
                    gpus = self._names["limits.gpus"]
                    self._fit = FitBar(lambda: self._form.question, self._models, gpus)
                Pasting(
                    lambda: self._form.question,
                    ask=self.ask,
                    ask_fleet=lambda fields: self._start(self._solve_fleet(fields)),
                    refuse=self._show_refusal,
                )
            with box("main", "answer", tabindex="-1", aria_label="The answer") as main:
                self._status = Words("", "p", "unseen")
                with_attributes(self._status, role="status", aria_live="polite")
                self._answer = box("div", "answer")
        ui.skip_link("Skip to the answer", target=main)
        with self._answer:
            show_start(self.ask)
        if asked is not None:
            self._restore(asked)

    def _changed(self) -> None:
        self._fit.update()

    def _restore(self, text: str) -> None:
        try:
            question = link.decode(text)
        except QuestionError as error:
            self._show_refusal([str(error)])
            return
        self.ask(question)

    def ask(self, question: Fields) -> None:
        """Put a question into the form and solve it."""
        self._form.fill(question)
        self._fit.update()
        self.solve()

    def solve(self) -> None:
        """Solve what the form says; what is still being solved is given up."""
        fields = self._form.question
        self._form.show_problems(())
        self._start(self._solve(fields))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._give_up()
        self._main = self._create(work)

    def _give_up(self) -> None:
        """Cancel what is being worked out: nobody waits for it any more."""
        for task in (self._main, self._side, self._later):
            if task is not None:
                task.cancel()

    def _create(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def here() -> None:
            with self._root:  # what is shown from now on belongs to this page
                await work

        return background_tasks.create(here(), name="shardwise page")

    async def _solve(self, fields: Fields) -> None:
        try:
            question = build_question(SolveQuestion, {"scenario": fields})
            self._say("Solving ...", busy=True)
            plan = await self._answers.run(question)
        except Exception as error:
            self._show_refusal(problems_of(error))
            return
        if isinstance(plan, FleetPlan):
            self._show_fleet(plan)
        elif isinstance(plan, Plan):
            await self._show(fields, plan)

    async def _solve_fleet(self, fields: Fields) -> None:
        self._form.show_problems(())
        await self._solve(fields)

    def _say(self, text: str, *, busy: bool = False) -> None:
        self._status.text = text
        self._answer.classes(add="busy" if busy else "", remove="" if busy else "busy")

    def _show_refusal(self, problems: Sequence[str]) -> None:
        self._form.show_problems(problems)
        self._answer.clear()
        with self._answer:
            show_refusal(problems)
        self._say(REFUSED)

    def _show_fleet(self, plan: FleetPlan) -> None:
        self._answer.clear()
        with self._answer:
            show_fleet(plan)
            if plan.cost is not None:
                LaunchFiles(partial(self._export, plan), self._create)
        self._say(f"Fleet: {plan.status}. {plan.summary}")

    async def _show(self, fields: Fields, plan: Plan) -> None:
        text = link.encode(fields)
        if text is not None:
            ui.navigate.history.replace(f"/?q={text}")
        self._answer.clear()
        self._what_if = None
        with self._answer:
            if plan.status == "infeasible":
                can_follow = lambda flag: follow(fields, flag) is not None  # noqa: E731
                self._into_view(answer.show_infeasible(plan, self._follow, can_follow))
                keep_buttons(plan, text)
                answer.show_ruled_out(plan)
            else:
                self._into_view(answer.show_headline(plan))
                keep_buttons(plan, text)
        self._say(f"{answer.BADGES[plan.status]}. {plan.summary}")
        if plan.status != "infeasible":
            await asyncio.sleep(FIRST_S)  # what was asked for is on its way to the browser before the rest is built
            with self._answer:
                self._show_rest(fields, plan)

    @staticmethod
    def _into_view(element: Element) -> None:
        """Scroll to what has come, where it stands below the window's edge."""
        element.run_method("scrollIntoView", {"block": "nearest"})

    def _show_rest(self, fields: Fields, plan: Plan) -> None:
        answer.show_layout(plan)
        answer.show_memory(plan)
        answer.show_latency(plan)
        self._what_if = WhatIf(fields, plan, self._ask_what_if, self.ask)
        with card("Cost against latency"):
            front = box("div", "later")
            with front:
                Words("Working it out ...", "p", "muted")
        answer.Alternatives(plan)
        answer.show_cheaper(plan, self._follow)
        LaunchFiles(partial(self._export, plan), self._create)
        history = answer.show_prices(plan)
        answer.show_ladder(plan)
        answer.show_ruled_out(plan)
        self._fit.follow(plan)
        self._later = self._create(self._fill_in(fields, plan, front, history))

    async def _fill_in(self, fields: Fields, plan: Plan, front: Element, history: Element) -> None:
        """Work out what stands further below, once the answer is shown."""
        found = await self._besides(front, ParetoQuestion, {"scenario": fields})
        if isinstance(found, Front):
            answer.show_front(front, found, plan)
        if plan.layout is not None:
            listed = await self._besides(history, HistoryQuestion, patterns_of(plan.layout))
            if isinstance(listed, Listed):
                answer.show_history(history, plan, history_of(plan.layout, listed.rows))

    async def _besides(self, place: Element, kind: type[Question], fields: Mapping[str, Any]) -> AnswerPart | None:
        """Return an answer that goes into a place of the page; where there is none, the place says why."""
        try:
            return await self._answers.run(build_question(kind, fields))
        except Exception as error:
            place.clear()
            with place:
                Words(problem_line(error), "p", "bad")
            return None

    async def _export(self, plan: Plan | FleetPlan, target: str, place: Element) -> Export | None:
        asked = {"plan": plan.model_dump(mode="json"), "to": target}
        found = await self._besides(place, ExportQuestion, asked)
        return found if isinstance(found, Export) else None

    def _follow(self, flag: str) -> None:
        changed = follow(self._form.question, flag)
        if changed is None:
            announce(f"This has to be said in a scenario file: {flag}", "warning")
            return
        self.ask(changed)

    def _ask_what_if(self, asked: Asked) -> None:
        if self._side is not None:
            self._side.cancel()
        self._side = self._create(self._solve_what_if(asked))

    async def _solve_what_if(self, asked: Asked) -> None:
        shown = self._what_if
        if shown is None:
            return
        await asyncio.sleep(SETTLED_S)
        shown.show_busy()
        try:
            found = await self._answers.run(asked.build())
        except Exception as error:
            shown.show_problem(problem_line(error))
            return
        if isinstance(found, Shock):
            shown.show(found.after, words.shock_lines(found))
        elif isinstance(found, Plan):
            shown.show(found)
