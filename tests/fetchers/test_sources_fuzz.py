"""Whatever a server sends, reading it gives rows or one clear error, never a crash."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from fetchers.errors import ContentError
from fetchers.normalize import place
from fetchers.pulls import RawPull, new_part
from fetchers.source import source_classes
from tests.fetchers.recorded import DAY, RECORDED, recorded_pull

ODD = [
    None,
    True,
    "",
    "x",
    -1,
    0,
    1e308,
    float("nan"),
    float("inf"),
    [],
    {},
    [None],
    {"a": None},
    "9" * 400,
    10**30,
    "\0",
]
ROUNDS = 60


def mutated(value: object, draw: random.Random) -> object:
    """Return JSON with one place in it changed."""
    if draw.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return draw.choice(ODD)
    if isinstance(value, dict):
        key = draw.choice(sorted(value))
        if draw.random() < 0.2:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: mutated(value[key], draw)}
    place_ = draw.randrange(len(value))
    return [*value[:place_], mutated(value[place_], draw), *value[place_ + 1 :]]


def with_body(pull: RawPull, number: int, body: bytes) -> RawPull:
    part = pull.parts[number]
    new = new_part(label=part.label, url=part.url, fetched_at=part.fetched_at, body=body)
    return replace(pull, parts=(*pull.parts[:number], new, *pull.parts[number + 1 :]))


def read(name: str, pull: RawPull) -> None:
    try:
        rows = source_classes()[name]().parse(pull, DAY)
    except ContentError:
        return
    for offer in place(rows).offers:
        assert 0 < offer.price_usd_per_node_hour < 1e6
        assert offer.gpus_per_node >= 1


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_changed_fields(name: str) -> None:
    draw = random.Random(name)
    pull = recorded_pull(name)
    for _ in range(ROUNDS):
        number = draw.randrange(len(pull.parts))
        body = pull.parts[number].body
        if body.lstrip()[:1] in (b"{", b"["):
            value: object = json.loads(body)
            for _ in range(draw.randint(1, 3)):
                value = mutated(value, draw)
            body = json.dumps(value).encode()
        else:
            lines = body.splitlines(keepends=True)
            line = draw.randrange(len(lines))
            cells = lines[line].split(b",")
            cells[draw.randrange(len(cells))] = str(draw.choice(ODD)).encode()
            lines[line] = b",".join(cells)
            body = b"".join(lines)
        read(name, with_body(pull, number, body))


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_bytes_that_are_lost(name: str) -> None:
    draw = random.Random(name)
    pull = recorded_pull(name)
    for _ in range(ROUNDS // 2):
        number = draw.randrange(len(pull.parts))
        body = pull.parts[number].body
        start = draw.randrange(len(body))
        read(name, with_body(pull, number, body[:start] + body[start + draw.randint(1, 200) :]))


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"3", b'"x"', b"\xff\xff", b"<html>", b"a,b\n1,2\n"])
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_other_documents(name: str, body: bytes) -> None:
    pull = recorded_pull(name)
    for number in range(len(pull.parts)):
        read(name, with_body(pull, number, body))


@pytest.mark.parametrize("name", sorted(name for name, parts in RECORDED.items() if parts[0][2].endswith(".json")))
def test_renamed_fields_are_told_as_a_changed_interface(name: str) -> None:
    """When every entry loses its price, the answer is refused as a whole, not read as a market without prices."""
    pull = recorded_pull(name)
    prices = (b"dph_total", b"price_per_hour", b"retailPrice", b"securePrice", b"hourly_price", b"price_hourly")
    prices += (b"hourly_cost", b"price_per_gpu_hour", b"OnDemandPrice", b"pricingInfo", b"currencyCodeLocalizations")
    renamed = pull
    for number, part in enumerate(pull.parts):
        body = part.body
        for price in prices:
            body = body.replace(b'"' + price + b'"', b'"renamed"')
        renamed = with_body(renamed, number, body)
    if renamed != pull:
        with pytest.raises(ContentError, match="has the field"):
            source_classes()[name]().parse(renamed, DAY)
