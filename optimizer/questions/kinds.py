"""Every kind of question: its name, what is asked, what comes back; and how any of them is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import ValidationError

from catalogs.models import names_only
from optimizer.export.answer import Export
from optimizer.fit import Fit
from optimizer.fleet.budget import FleetBudgets
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import AnswerPart, Plan
from optimizer.predict import Speed
from optimizer.questions import answers, list_answers
from optimizer.questions import list_requests as lists
from optimizer.questions import requests as ask
from optimizer.questions.listed import Listed
from optimizer.questions.refusal import invalid, is_ours, refusal
from optimizer.whatif.api import ApiComparison
from optimizer.whatif.breakeven_answer import BreakEvens
from optimizer.whatif.budget_report import BudgetReport
from optimizer.whatif.explain_answer import Explained
from optimizer.whatif.fleet_explain_answer import FleetExplained
from optimizer.whatif.fleet_shock_answer import FleetShock
from optimizer.whatif.front_points import Front
from optimizer.whatif.shock_answer import Shock
from optimizer.whatif.sweep import Sweep

Asked = TypeVar("Asked", bound=ask.Question)


@dataclass(frozen=True)
class Kind:
    """A kind of question.

    Attributes:
        name: as it stands in an address: "solve", "whatif/budget".
        question: what is asked.
        results: what may come back.
        answer: from one to the other.
        reads: it lists facts, and is asked with GET.
    """

    name: str
    question: type[ask.Question]
    results: tuple[type[AnswerPart], ...]
    answer: Callable[[Any], AnswerPart]
    reads: bool = False

    @property
    def summary(self) -> str:
        """The first sentence of what is said of the question."""
        return (self.question.__doc__ or "").split("\n", maxsplit=1)[0]

    @property
    def details(self) -> str:
        """What is said of the question, without lists of its fields."""
        return (self.question.__doc__ or "").partition("Attributes:")[0].strip()


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("solve", ask.SolveQuestion, (Plan, FleetPlan), answers.solve),
        Kind("fit", ask.FitQuestion, (Fit,), answers.fit),
        Kind("predict", ask.PredictQuestion, (Speed,), answers.predict),
        Kind("explain", ask.ExplainQuestion, (Explained, FleetExplained), answers.explain),
        Kind("pareto", ask.ParetoQuestion, (Front,), answers.pareto),
        Kind("whatif/budget", ask.BudgetQuestion, (BudgetReport, FleetBudgets), answers.budget),
        Kind("whatif/shock", ask.ShockQuestion, (Shock, FleetShock), answers.shock),
        Kind("whatif/breakeven", ask.BreakEvenQuestion, (BreakEvens,), answers.breakeven),
        Kind("whatif/api", ask.ApiQuestion, (ApiComparison,), answers.api),
        Kind("whatif/sweep", ask.SweepQuestion, (Sweep,), answers.sweep),
        Kind("export", ask.ExportQuestion, (Export,), answers.export),
        Kind("catalog/gpus", lists.GpusQuestion, (Listed,), list_answers.gpus, reads=True),
        Kind("catalog/models", lists.ModelsQuestion, (Listed,), list_answers.models, reads=True),
        Kind("catalog/nodes", lists.NodesQuestion, (Listed,), list_answers.nodes, reads=True),
        Kind("catalog/offers", lists.OffersQuestion, (Listed,), list_answers.offers, reads=True),
        Kind("prices", lists.PricesQuestion, (Listed,), list_answers.prices, reads=True),
        Kind("prices/history", lists.HistoryQuestion, (Listed,), list_answers.history, reads=True),
        Kind("prices/diff", lists.DiffQuestion, (Listed,), list_answers.diff, reads=True),
        Kind("prices/sources", lists.SourcesQuestion, (Listed,), list_answers.sources, reads=True),
    )
}


@lru_cache(maxsize=1)
def _by_question() -> dict[type[ask.Question], Kind]:
    return {kind.question: kind for kind in KINDS.values()}


def kind_of(question: ask.Question) -> Kind:
    """Return the kind that a question is of."""
    return _by_question()[type(question)]


def build_question(question: type[Asked], fields: Mapping[str, Any]) -> Asked:
    """Check the fields of a request and return the question.

    Raises:
        Refusal: naming each field with its value and what would be accepted.
    """
    try:
        return question.model_validate(fields)
    except ValidationError as error:
        raise invalid(error, question) from None


def answer(question: ask.Question) -> AnswerPart:
    """Answer a question, in this process.

    Raises:
        Refusal: it cannot be answered as it was asked.
        AuditError: the checker found a rule broken in the answer.
    """
    try:
        with names_only({}):
            return kind_of(question).answer(question)
    except Exception as error:
        if not is_ours(error):
            raise
        raise refusal(error, "scenario" if hasattr(question, "scenario") else "") from None
