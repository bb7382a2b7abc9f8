"""Self-hosting against a managed API: what each costs at this traffic, and from which rate self-hosting pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from math import isinf
from typing import Any, Literal

from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.errors import QuestionError
from optimizer.plan import HOURS_PER_MONTH, AnswerPart, Plan
from optimizer.scenario import Scenario
from optimizer.solve import pose, solve
from optimizer.version import __version__
from optimizer.whatif.api_prices import ApiPrice, api_price, context_window
from optimizer.whatif.duty import ALWAYS, Duty, hours_of_day, read_duty
from optimizer.whatif.fields import apply
from optimizer.whatif.inputs import load_model_once, offers_of
from optimizer.whatif.paying_rates import Interval, Rental, cost_at, paying, rentals_of

SECONDS_PER_HOUR = 3600
NEARBY = 1e-6  # how far beside a break-even, as a share of it, the re-solves stand that show it
MOST_STRETCHES = 12  # of rates at which self-hosting pays before it always does
ROUNDING = 1e-9  # USD per hour: at a break-even the two costs are equal but for this
SAME_COST = 1e-5  # USD per hour: prices are whole micro-dollars, a break-even is a quotient of them


class Side(AnswerPart):
    """What one way costs at the scenario's traffic.

    Attributes:
        usd_per_busy_hour: an hour at the scenario's rate.
        usd_per_month: at the real duty, 730 hours a month.
        usd_per_million_output_tokens, usd_per_million_tokens: at the real duty; the second counts input tokens too.
    """

    usd_per_busy_hour: float
    usd_per_month: float
    usd_per_million_output_tokens: float
    usd_per_million_tokens: float


class Check(AnswerPart):
    """A re-solve beside a break-even.

    Attributes:
        request_rate: requests per second while busy.
        self_hosted_usd_per_hour: the solved cost of a rented hour; null where nothing is feasible.
        api_usd_per_hour: what the API costs per rented hour.
        pays: whether self-hosting costs no more.
        as_expected: whether that is what the steps of the choices say.
    """

    request_rate: float
    self_hosted_usd_per_hour: float | None
    api_usd_per_hour: float
    pays: bool
    as_expected: bool
    summary: str


class Stretch(AnswerPart):
    """Request rates, both included, between which self-hosting costs no more than the API.

    Attributes:
        from_request_rate, to_request_rate: requests per second while busy.
    """

    from_request_rate: float
    to_request_rate: float


class BreakEven(AnswerPart):
    """From which request rate self-hosting pays, at the scenario's lengths and targets.

    Attributes:
        duty: when traffic arrives and GPUs are rented.
        pays_from: requests per second while busy from which on it pays at every rate that is feasible; null for never.
        most_request_rate: the most that any layout carries within the limits.
        stretches: rates at which it pays, the last of them from `pays_from` on; only the first dozen of earlier ones.
        checks: re-solves at the ends of stretches and just beside them.
        verified: every check came out as the steps of the choices say.
    """

    duty: Duty
    pays_from: float | None
    most_request_rate: float
    stretches: tuple[Stretch, ...]
    checks: tuple[Check, ...]
    verified: bool


class ApiComparison(AnswerPart):
    """Self-hosting against an API.

    Attributes:
        requests_per_second: while busy.
        cheaper: which way costs less a month at the real duty; null where self-hosting is infeasible.
        saving_usd_per_month: by how much.
        break_evens: at the real duty, then (where that is another) with traffic at all hours.
        layout: the self-hosted layout in one line; "" where there is none.
        conflict: rules that cannot hold together where self-hosting is infeasible.
        price: the API's price.
        cached_share: share of prompt tokens that the API's cache serves.
        duty: when traffic arrives and GPUs are rented.
        api: what the API costs.
        self_hosted: what self-hosting costs; null where it is infeasible.
    """

    shardwise_version: str = __version__
    scenario: dict[str, Any]
    price: ApiPrice
    cached_share: float
    duty: Duty
    requests_per_second: float
    api: Side
    self_hosted: Side | None
    cheaper: Literal["api", "self-hosted"] | None
    saving_usd_per_month: float | None
    layout: str
    conflict: tuple[str, ...]
    break_evens: tuple[BreakEven, ...]
    notes: tuple[str, ...]


class _Question:
    """A scenario at any request rate, on one catalog."""

    def __init__(self, scenario: Scenario, model: ModelSpec, catalog: OfferTable, today: date):
        self.scenario, self.model, self.catalog, self.today = scenario, model, catalog, today

    def solved_at(self, request_rate: float | None = None) -> Plan:
        scenario, work = self.scenario, self.scenario.workload
        if request_rate is not None:
            of_kind = request_rate * (1 if work.kind == "request_rate" else work.output_tokens)
            scenario = apply(scenario, {f"workload.{work.kind}": of_kind})
        return solve(scenario, model=self.model, catalog=self.catalog, today=self.today, reasons=False)

    def rentals(self) -> list[Rental]:
        """What can be rented, with capacities in requests per second."""
        choices = pose(self.scenario, model=self.model, catalog=self.catalog, today=self.today).choices.frame
        if self.scenario.workload.kind == "output_tokens_per_second":
            choices = choices.assign(capacity=choices["capacity"] / self.scenario.workload.output_tokens)
        return rentals_of(choices, self.scenario.limits)


def compare(
    scenario: Scenario,
    against: str,
    *,
    cached_share: float = 0.0,
    duty_cycle: float | None = None,
    profile: Sequence[float] | None = None,
    hours_per_day: float | None = None,
    price_factors: Mapping[str, float] | None = None,
    model: ModelSpec | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
) -> ApiComparison:
    """Compare self-hosting with an API.

    Args:
        scenario: the question; its traffic is that of the busiest hours.
        against: "provider/model" as genai-prices calls them.
        cached_share: share of input tokens that the API reads from its prompt cache.
        duty_cycle: share of hours in which traffic arrives, at the scenario's rate.
        profile: traffic by hour instead: 24 values (UTC, where API prices depend on the time) or 168.
        hours_per_day: hours of each day for which GPUs are rented; all of them when not given.
        price_factors: factors on list prices of GPUs, by "price:PATTERN".
        model: where the caller has it already; else the scenario's is loaded.
        catalog: offers at list prices, likewise.
        today: the day that price ages count from.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong.
    """
    day = today or date.today()
    duty, work = read_duty(duty_cycle, profile, hours_per_day), scenario.workload
    lengths = work.input_tokens, work.output_tokens
    price, flat = (
        api_price(against, *lengths, cached_share=cached_share, day=scenario.prices.as_of or day, hours=hours)
        for hours in (hours_of_day(profile), None)
    )
    asked = _Question(
        scenario,
        model or load_model_once(scenario.model),
        catalog if catalog is not None else offers_of(scenario, day, price_factors),
        day,
    )
    plan = asked.solved_at()
    rate = _request_rate(scenario, plan)
    api = _side(scenario, rate, price.usd_per_request * rate * SECONDS_PER_HOUR, duty, duty.traffic_share)
    own = None if plan.cost is None else _side(scenario, rate, plan.cost.usd_per_hour, duty, duty.rented_share)
    return ApiComparison(
        scenario=scenario.model_dump(mode="json"),
        price=price,
        cached_share=cached_share,
        duty=duty,
        requests_per_second=rate,
        api=api,
        self_hosted=own,
        cheaper=None if own is None else "self-hosted" if own.usd_per_month <= api.usd_per_month else "api",
        saving_usd_per_month=None if own is None else abs(own.usd_per_month - api.usd_per_month),
        layout=plan.summary if plan.layout is not None else "",
        conflict=tuple(conflict.rule for conflict in plan.conflict),
        break_evens=_break_evens(asked, {duty: price} | {ALWAYS: flat}),
        notes=tuple(_notes(scenario, price, context_window(against), plan)),
    )


def _request_rate(scenario: Scenario, plan: Plan) -> float:
    """Return the requests per second of the scenario's traffic; of a fixed concurrency, what the layout makes of it."""
    work = scenario.workload
    if work.kind == "request_rate":
        return work.demand
    if work.kind == "output_tokens_per_second":
        return work.demand / work.output_tokens
    if plan.performance is None:
        raise QuestionError(
            "workload.concurrency says no rate, and no layout is feasible from which one would follow; "
            "give workload.request_rate (--set workload.request_rate=4)"
        )
    return plan.performance.requests_per_second


def _side(scenario: Scenario, rate: float, usd_per_busy_hour: float, duty: Duty, share: float) -> Side:
    work = scenario.workload
    requests = rate * SECONDS_PER_HOUR * HOURS_PER_MONTH * duty.traffic_share
    a_month = usd_per_busy_hour * HOURS_PER_MONTH * share
    return Side(
        usd_per_busy_hour=usd_per_busy_hour,
        usd_per_month=a_month,
        usd_per_million_output_tokens=a_month / (requests * work.output_tokens) * 1e6,
        usd_per_million_tokens=a_month / (requests * (work.input_tokens + work.output_tokens)) * 1e6,
    )


def _break_evens(asked: _Question, prices: Mapping[Duty, ApiPrice]) -> tuple[BreakEven, ...]:
    if asked.scenario.workload.kind == "concurrency":
        return ()
    rentals = asked.rentals()
    if not rentals:
        return ()
    return tuple(_break_even(asked, price, rentals, duty) for duty, price in prices.items())


def _break_even(asked: _Question, price: ApiPrice, rentals: list[Rental], duty: Duty) -> BreakEven:
    """Find where the line of the API crosses the steps of renting, and show it by solving beside each crossing."""
    slope = price.usd_per_request * SECONDS_PER_HOUR * duty.traffic_share / duty.rented_share
    most = max(rental.capacity * rental.most for rental in rentals)
    intervals = paying(rentals, slope)
    always = bool(intervals) and intervals[-1].high >= most * (1 - 1e-12)
    earlier = intervals[:-1] if always else intervals
    shown = [*earlier[:MOST_STRETCHES], *intervals[-1:]] if always else earlier[:MOST_STRETCHES]
    checks = _checks(asked, rentals, shown, slope, most)
    return BreakEven(
        duty=duty,
        pays_from=intervals[-1].low if always else None,
        most_request_rate=most,
        stretches=tuple(Stretch(from_request_rate=one.low, to_request_rate=one.high) for one in shown),
        checks=checks,
        verified=all(check.as_expected for check in checks),
    )


def _checks(
    asked: _Question, rentals: list[Rental], intervals: list[Interval], slope: float, most: float
) -> tuple[Check, ...]:
    """Solve anew at the ends of the first and the last stretch, and just outside of them."""
    if not intervals:  # the line never reaches the steps: it comes closest where the cheapest per request is full
        closest = min(rentals, key=lambda rental: rental.price / rental.capacity)
        return (_check(asked, rentals, closest.capacity, slope),)
    rates: list[float] = []
    for one in dict.fromkeys((intervals[0], intervals[-1])):
        rates += [one.low * (1 - NEARBY), one.low]
        if one.high < most * (1 - 1e-12):
            rates += [one.high, one.high * (1 + NEARBY)]
    return tuple(_check(asked, rentals, rate, slope) for rate in dict.fromkeys(rates))


def _check(asked: _Question, rentals: list[Rental], rate: float, slope: float) -> Check:
    plan = asked.solved_at(rate)
    solved = None if plan.cost is None else plan.cost.usd_per_hour
    expected, api = cost_at(rentals, rate), slope * rate
    pays = solved is not None and solved <= api + ROUNDING
    same = isinf(expected) if solved is None else abs(solved - expected) <= SAME_COST
    return Check(
        request_rate=rate,
        self_hosted_usd_per_hour=solved,
        api_usd_per_hour=api,
        pays=pays,
        as_expected=same and pays == (expected <= api + ROUNDING),
        summary=plan.summary if plan.layout is not None else "",
    )


def _notes(scenario: Scenario, price: ApiPrice, window: int | None, plan: Plan) -> list[str]:
    work, api = scenario.workload, f"{price.provider}/{price.model}"
    said = [
        f"{api} and {scenario.model} are compared on price alone, not on how well they answer",
        "self-hosting is the price of GPUs alone: people, storage and traffic on the network come on top",
    ]
    if window is not None and work.held_tokens > window:
        said.append(f"the API takes {window:,} tokens at most; the scenario holds {work.held_tokens:,}")
    if work.input_cv or work.output_cv:
        said.append("API prices are of the mean lengths; longer prompts may fall into a dearer tier")
    if work.kind == "concurrency":
        said.append("there is no break-even rate for a fixed concurrency: give a workload.request_rate")
    if plan.layout is not None and plan.layout.term == "spot":
        said.append("spot nodes can be taken back at any time")
    return said
