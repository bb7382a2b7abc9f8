"""What a managed API charges for a request: prices from the genai-prices package, as bundled with it, never fetched.

Prices there may depend on the length of the prompt (a tier holds for all tokens of a request), on the day, and on the
time of day (UTC). A request is priced at its mean lengths; over the hours of a day prices are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

from catalogs.errors import near_matches
from optimizer.errors import QuestionError
from optimizer.plan import AnswerPart

EXTRA = 'pip install "shardwise[api-prices]"'
MOST_LISTED = 40
TOKEN_PRICES = {
    "input_mtok": "input",
    "cache_read_mtok": "cached input",
    "output_mtok": "output",
}


class ApiPrice(AnswerPart):
    """What a request costs at an API.

    Attributes:
        usd_per_request: for a request of mean lengths, averaged over the hours of the day.
        usd_per_request_least, usd_per_request_most: at the cheapest and the dearest time of the day.
        usd_per_million: list prices per million tokens by kind, at the mean prompt length; averaged over the day.
        used: tiers and conditions that the price rests on.
        ignored: prices of the model that do not count here, and what a price leaves out.
        day: the day whose prices these are.
        data: the package and its version, and the newest day from which a price in it holds.
        provider_name: as people call it.
    """

    provider: str
    provider_name: str
    model: str
    usd_per_request: float
    usd_per_request_least: float
    usd_per_request_most: float
    usd_per_million: dict[str, float]
    used: tuple[str, ...]
    ignored: tuple[str, ...]
    day: date
    data: str


def api_price(
    against: str,
    input_tokens: int,
    output_tokens: int,
    *,
    cached_share: float = 0.0,
    day: date,
    hours: Sequence[float] | None = None,
) -> ApiPrice:
    """Return what a request costs at "provider/model".

    Args:
        against: provider and model as genai-prices calls them, joined by a slash.
        input_tokens: mean prompt length.
        output_tokens: mean answer length.
        cached_share: share of input tokens that the API reads from its prompt cache.
        day: the day whose prices count.
        hours: weights of the 24 hours of a UTC day, for prices that depend on the time; all alike when not given.

    Raises:
        QuestionError: the package is missing, there is no such provider or model, or it is not priced by tokens.
    """
    providers = _bundled()
    provider, model = _find(providers, against)
    wanted = against.partition("/")[2]
    cached = cached_share * input_tokens
    parts = [(weight, model.get_prices(at)) for weight, at in _times(model, day, hours)]
    costs = [_cost(against, prices, input_tokens, cached, output_tokens) for _, prices in parts]
    total = sum(weight for weight, _ in parts)
    return ApiPrice(
        provider=provider.id,
        provider_name=provider.name,
        model=model.id,
        usd_per_request=sum(weight * cost for (weight, _), cost in zip(parts, costs, strict=True)) / total,
        usd_per_request_least=min(costs),
        usd_per_request_most=max(costs),
        usd_per_million={
            said: sum(weight * _at_length(getattr(prices, key), input_tokens) for weight, prices in parts) / total
            for key, said in TOKEN_PRICES.items()
            if parts[0][1].__dict__.get(key) is not None
        },
        used=(
            *((f"{model.id}, as which the package reads {wanted!r}",) if wanted.lower() != model.id.lower() else ()),
            *_used(model, parts[0][1], input_tokens, day, hours is not None),
        ),
        ignored=tuple(_ignored(model, parts[0][1], cached_share)),
        day=day,
        data=_data_words(providers, day),
    )


def context_window(against: str) -> int | None:
    """Return the longest prompt that the model takes, where that is known."""
    window = _find(_bundled(), against)[1].context_window
    return None if window is None else int(window)


def _bundled() -> list[Any]:
    """Return the providers of the data that came with the package; whatever a program fetched is left alone."""
    try:
        from genai_prices.data import providers  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        raise QuestionError(f"API prices need the genai-prices package: {EXTRA}") from None
    return list(providers)


def _find(providers: list[Any], against: str) -> tuple[Any, Any]:
    name, slash, wanted = against.partition("/")
    if not slash or not name or not wanted:
        raise QuestionError(
            f"--against {against[:80]!r}: expected PROVIDER/MODEL, as in deepseek/deepseek-chat "
            f"(providers: {', '.join(one.id for one in providers)})"
        )
    provider = next((one for one in providers if one.id == name.lower()), None)
    if provider is None:
        near = near_matches(name[:80], [one.id for one in providers], limit=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise QuestionError(
            f"--against {against[:80]!r}: no provider {name[:80]!r}{hint} "
            f"(known: {', '.join(one.id for one in providers)})"
        )
    model = next((one for one in provider.models if one.id.lower() == wanted.lower()), None)
    model = model or provider.find_model(wanted)
    if model is None:
        known = [one.id for one in provider.models]
        near = near_matches(wanted[:80], known, limit=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        more = f", and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
        raise QuestionError(
            f"--against {against[:80]!r}: {provider.name} has no model {wanted[:80]!r}{hint} "
            f"(its models: {', '.join(known[:MOST_LISTED])}{more})"
        )
    return provider, model


def _times(model: Any, day: date, hours: Sequence[float] | None) -> list[tuple[float, datetime]]:
    """Return moments of the day with the weight of the stretch around each in which one price holds."""
    bounds = {float(hour) for hour in range(25)} if hours is not None else {0.0, 24.0}
    for price in model.prices if isinstance(model.prices, list) else ():
        start = getattr(price.constraint, "start_time", None)
        if start is not None:
            bounds |= {_hour(start), _hour(price.constraint.end_time)}
    edges = sorted(bounds)
    found = []
    for begin, end in pairwise(edges):
        weight = (end - begin) * (1.0 if hours is None else hours[int(begin)])
        if weight > 0:
            middle = datetime.combine(day, time(0), tzinfo=UTC) + timedelta(hours=(begin + end) / 2)
            found.append((weight, middle))
    return found


def _hour(at: time) -> float:
    """Return a time of day as hours of UTC."""
    moment = datetime.combine(date(2000, 1, 3), at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    return moment.hour + moment.minute / 60 + moment.second / 3600


def _cost(against: str, prices: Any, input_tokens: int, cached: float, output_tokens: int) -> float:
    from genai_prices import Usage  # noqa: PLC0415  an extra

    if prices.__dict__.get("input_mtok") is None or prices.__dict__.get("output_mtok") is None:
        raise QuestionError(f"--against {against[:80]!r}: is not priced by input and output tokens ({prices})")
    usage = Usage(input_tokens=input_tokens, cache_read_tokens=cached, output_tokens=output_tokens)
    return float(prices.calc_price(usage)["total_price"])


def _at_length(price: Any, input_tokens: int) -> float:
    """Return a price per million at a prompt length: the highest tier that the prompt is longer than."""
    for tier in reversed(getattr(price, "tiers", ())):
        if input_tokens > tier.start:
            return float(tier.price)
    return float(getattr(price, "base", price))


def _used(model: Any, prices: Any, input_tokens: int, day: date, by_profile: bool) -> list[str]:
    said = []
    tiers = [price for key in TOKEN_PRICES if getattr(price := prices.__dict__.get(key), "tiers", None)]
    if tiers:
        starts = [tier.start for tier in tiers[0].tiers]
        above = [start for start in starts if input_tokens > start]
        which = f"above {above[-1]:,} input tokens" if above else f"up to {starts[0]:,} input tokens"
        said.append(f"the tier of prompts {which}, at the mean length of {input_tokens:,} (tiers: {_listed(starts)})")
    conditions = [price.constraint for price in model.prices] if isinstance(model.prices, list) else []
    since = [one.start_date for one in conditions if getattr(one, "start_date", None) and one.start_date <= day]
    if since:
        said.append(f"prices that hold from {max(since)}")
    windows = [f"{one.start_time:%H:%M}-{one.end_time:%H:%M} UTC" for one in conditions if hasattr(one, "start_time")]
    if windows:
        how = "weighted by the profile, whose first hour is 00:00 UTC" if by_profile else "averaged over 24 hours"
        said.append(f"time-of-day prices ({', '.join(windows)} apart), {how}")
    return said


def _ignored(model: Any, prices: Any, cached_share: float) -> list[str]:
    said = []
    whens = dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in variant.when.items())
        for variant in model.price_variants or ()
        if any(key in TOKEN_PRICES for key in variant.prices.__dict__)
    )
    if whens:
        said.append(f"prices of {'; '.join(whens)}")
    if cached_share and prices.__dict__.get("cache_read_mtok") is None:
        said.append("the cached share: the data has no price for cached input, so all input is charged alike")
    if cached_share and prices.__dict__.get("cache_write_mtok") is not None:
        said.append("what writing to the prompt cache costs")
    others = [key for key, value in prices.__dict__.items() if value is not None and key.endswith("_kcount")]
    if "requests_kcount" in others:
        others.remove("requests_kcount")
    if others:
        said.append(f"prices of {', '.join(key.removesuffix('_kcount').replace('_', ' ') for key in others)}")
    if model.deprecated:
        said.append("that the provider calls the model deprecated")
    return said


def _listed(numbers: list[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


def _data_words(providers: list[Any], day: date) -> str:
    from importlib.metadata import version  # noqa: PLC0415  seldom asked for

    days = [
        price.constraint.start_date
        for provider in providers
        for model in provider.models
        if isinstance(model.prices, list)
        for price in model.prices
        if getattr(price.constraint, "start_date", day) < day
    ]
    newest = f"; the newest dated price in it holds from {max(days)}" if days else ""
    return f"genai-prices {version('genai-prices')}, as bundled{newest}"
