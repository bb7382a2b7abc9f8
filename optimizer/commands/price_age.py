"""`--max-price-age 24h`: no answer from older prices, and a word on how old they are where all of them are older."""

from __future__ import annotations

from datetime import date
from typing import TypeVar

from optimizer.errors import QuestionError
from optimizer.flags import whole_days
from optimizer.fleet.question import FleetScenario
from optimizer.scenario import Limits, Scenario, Workload

Question = TypeVar("Question", Scenario, FleetScenario)


def fresh(question: Question, max_age_hours: float | None) -> Question:
    """Return a question that accepts no older prices than this; the question itself where no age is given.

    Prices are dated by day, so an age in hours counts in whole days, rounded down: 24h is a day, less is today.

    Raises:
        QuestionError: every offer that the question allows is older.
    """
    days = whole_days(max_age_hours)
    if days is None or max_age_hours is None:
        return question
    most = days if question.prices.max_age_days is None else min(days, question.prices.max_age_days)
    prices = question.prices.model_copy(update={"max_age_days": most})
    _demand_one(question, days, max_age_hours)
    return question.model_copy(update={"prices": prices})


def _demand_one(question: Scenario | FleetScenario, days: int, max_age_hours: float) -> None:
    from catalogs.offers import load_offers  # noqa: PLC0415  needs pandas
    from optimizer.choices import broken_offer_rules  # noqa: PLC0415

    today = date.today()
    if question.prices.owned:
        return  # hardware of one's own has the price of today
    offers = load_offers(question.prices.as_of, question.prices.offers_files).frame
    allowed = offers[broken_offer_rules(_any_age(question), offers, today) == 0]
    if allowed.empty:
        return  # not for their age
    newest = allowed["seen_on"].max().date()
    age = (today - newest).days
    if age > days:
        asked = f"{max_age_hours:g}h" if max_age_hours % 24 else f"{max_age_hours / 24:g}d"
        raise QuestionError(
            f"--max-price-age {asked}: every price that this question allows is older: the newest was seen on "
            f"{newest}, {age} days ago. Pull new ones with `shardwise prices refresh`, or accept these with "
            f"--max-price-age {age}d"
        )


def _any_age(question: Scenario | FleetScenario) -> Scenario:
    """Return a question of one layout that allows the same offers, however old their prices."""
    prices = question.prices.model_copy(update={"max_age_days": None})
    if isinstance(question, Scenario):
        return question.model_copy(update={"prices": prices})
    work = Workload(input_tokens=1, output_tokens=1, request_rate=1.0)
    return Scenario(model="any", workload=work, limits=Limits(**question.limits.model_dump()), prices=prices)
