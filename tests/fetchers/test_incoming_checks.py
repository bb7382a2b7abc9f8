"""What was known and what came, without a network; and the mistakes of real catalogs, each with its report."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from catalogs.history import RecordedLook
from catalogs.models import load_model
from fetchers.dated_files import read_gpuhunt, read_skypilot
from fetchers.incoming_checks import (
    AGREE_COUNT_RATIO,
    MOVED,
    TOO_HIGH,
    TOO_LOW,
    Checked,
    Known,
    Waiting,
    check_incoming,
    usual_prices,
)
from fetchers.normalize import RawRow, place
from fetchers.pulls import RawPull, new_part
from fetchers.source import source_classes
from tests.fetchers.recorded import recorded_pull

NOW = datetime(2026, 8, 22, 6, 0, tzinfo=UTC)
DAY = NOW.date()
KEY = ("aws", "us-east-1", "p5.48xlarge", "on-demand")
EIGHT_H100 = {("H100-SXM-80GB", "hyperscaler", "on-demand"): 6.0}


def row(**fields: Any) -> RawRow:
    defaults: dict[str, Any] = {
        "source": "aws",
        "provider": "aws",
        "spelling": "p5.48xlarge",
        "instance_type": "p5.48xlarge",
        "region": "us-east-1",
        "price_usd": 55.0,
        "per": "node",
        "term": "on-demand",
        "seen_on": DAY,
    }
    return RawRow(**(defaults | fields))


def check(*rows: RawRow, known: Known | None = None, usual: Any = None, shortfall: str = "") -> Checked:
    return check_incoming(place(rows), known or Known(), moment=NOW, usual=usual, shortfall=shortfall)


def why(checked: Checked) -> list[str]:
    return [one.reason for one in checked.set_aside]


def standing(price: float, **fields: Any) -> Known:
    return Known(prices={KEY: price}, last=RecordedLook(NOW - timedelta(days=1), "", True, 1), **fields)


def test_a_move_is_held_against_the_price_in_force() -> None:
    # An AWS p5.48xlarge went from 98.32 to 55.04 in one night of June 2025: no mistake, and no three times.
    assert why(check(row(price_usd=55.04), known=standing(98.32))) == []
    assert why(check(row(price_usd=30.0), known=standing(98.32))) == [MOVED]
    # GCP's spot price of an a3-highgpu-8g went from 20 to 62 within days: a second look has to say so.
    assert why(check(row(price_usd=62.0), known=standing(20.0))) == [MOVED]


@pytest.mark.parametrize(
    ("changed", "passes"),
    [
        ({}, True),
        ({"price_usd_per_node_hour": 16.4}, True),
        ({"price_usd_per_node_hour": 17.0}, False),  # the two looks do not agree
        ({"last_seen": NOW - timedelta(minutes=9)}, False),  # not yet a second look
        ({"last_seen": NOW - timedelta(days=2)}, False),  # the look in between did not repeat it
        ({"key": ("aws", "us-east-2", "p5.48xlarge", "on-demand")}, False),
        ({"reason": "spot above on-demand"}, False),
    ],
)
def test_what_counts_as_a_second_look(changed: dict[str, Any], passes: bool) -> None:
    waiting = Waiting(7, MOVED, KEY, 15.0, NOW - timedelta(days=1))
    checked = check(row(price_usd=15.0), known=standing(60.0, waiting=(replace(waiting, **changed),)))
    assert (checked.confirms, why(checked)) == (((7,), []) if passes else ((), [MOVED]))


def test_a_price_of_a_new_offer_is_held_against_what_others_ask() -> None:
    assert why(check(row(price_usd=8 * 6.0 * 4), usual=EIGHT_H100)) == []
    assert why(check(row(price_usd=8 * 6.0 * 4 + 1), usual=EIGHT_H100)) == [TOO_HIGH]
    assert why(check(row(price_usd=8.1), usual=EIGHT_H100)) == []
    assert why(check(row(price_usd=7.9), usual=EIGHT_H100)) == [TOO_LOW]
    assert why(check(row(price_usd=7.9), usual=EIGHT_H100, known=standing(7.9))) == []  # known, and stands


def test_the_usual_price_is_the_median_of_at_least_four_providers() -> None:
    def offers(*prices: float) -> list[dict[str, Any]]:
        same = {"gpu": "H100", "provider_kind": "gpu-cloud", "term": "on-demand", "gpus_per_node": 2}
        return [{**same, "provider": str(n), "price_usd_per_node_hour": price} for n, price in enumerate(prices)]

    assert usual_prices(offers(2.0, 4.0, 6.0)) == {}
    assert usual_prices(offers(2.0, 4.0, 6.0, 8.0)) == {("H100", "gpu-cloud", "on-demand"): 2.5}


def test_a_short_look_is_believed_once_the_look_before_was_as_short() -> None:
    prices = {("aws", f"r{n}", "p5.48xlarge", "on-demand"): 55.0 for n in range(20)}
    came = [row(region=f"r{n}") for n in range(9)]

    def partial(last: RecordedLook) -> str:
        return check(*came, known=Known(prices, last)).partial

    before = NOW - timedelta(days=1)
    assert partial(RecordedLook(before, "", True, 20)).startswith("9 offers, 20 before")
    assert partial(RecordedLook(before, "", False, 9)) == ""
    assert partial(RecordedLook(before, "", False, round(9 / AGREE_COUNT_RATIO) - 1)) != ""
    assert partial(RecordedLook(NOW - timedelta(minutes=1), "", False, 9)) != ""


def test_what_a_source_says_it_lacks_is_never_overruled() -> None:
    assert check(row(), shortfall="1 of the 2 entries came").partial == "1 of the 2 entries came"


def test_rows_set_aside_say_the_same_at_every_look() -> None:
    first = check(row(price_usd=0.0, max_nodes=3.0), row(term="spot", price_usd=99.0), row(price_usd=55.0))
    later = [replace(one, seen_on=date(2026, 8, 23), max_nodes=5.0) for one in (row(price_usd=0.0),)]
    assert check(*later).set_aside[0].row == first.set_aside[0].row


@pytest.mark.parametrize("source", ["spheron", "linode", "digitalocean", "prime-intellect", "vultr"])
def test_half_of_the_pages_is_a_shortfall(source: str) -> None:
    whole = recorded_pull(source)
    assert source_classes()[source]().shortfall(whole) == ""
    grown = [
        new_part(label=part.label, url=part.url, fetched_at=part.fetched_at, body=_ten_times_the_total(part.body))
        for part in whole.parts
    ]
    assert "entries that it states came" in source_classes()[source]().shortfall(RawPull(source, tuple(grown)))


def test_a_list_that_ends_where_it_was_cut_is_a_shortfall(monkeypatch: pytest.MonkeyPatch) -> None:
    vast = source_classes()["vast"]()
    assert vast.shortfall(recorded_pull("vast")) == ""
    monkeypatch.setattr("fetchers.sources.vast.MAX_OFFERS", 3)
    assert "may have more" in vast.shortfall(recorded_pull("vast"))


def _ten_times_the_total(body: bytes) -> bytes:
    import json  # noqa: PLC0415

    answer = json.loads(body)
    for holder in (answer, answer.get("meta", {})):
        for name in ("total", "results", "totalCount"):
            if name in holder:
                holder[name] *= 10
    return json.dumps(answer).encode()


class TestReportedMistakes:
    """Kind e of the table of reported cases: what catalogs of others got wrong, with where and when it was reported."""

    HEADER = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor\n"

    def gpuhunt(self, *lines: str) -> Checked:
        return check(*read_gpuhunt(self.HEADER + "\n".join(lines), "aws", DAY, "gpuhunt"))

    def test_e02_a_count_without_a_name(self) -> None:
        """github.com/dstackai/gpuhunt/issues/41, 2024-02-29."""
        named = "p5.48xlarge,us-east-1,55.04,192,2048,8,H100,80,False,,nvidia"
        nameless = "unheard-of,us-east-1,9.0,192,2048,8,,80,False,,nvidia"
        checked = self.gpuhunt(named, nameless)
        assert len(checked.offers) == 1
        assert why(checked) == ["no GPU named"]

    def test_e03_capacity_blocks_at_nothing(self) -> None:
        """github.com/dstackai/gpuhunt/issues/36, 2024-02-07: eight A100 at 0.0."""
        checked = check(row(price_usd=0.0, region="a"), row())
        assert [offer.region for offer in checked.offers] == ["us-east-1"]
        assert why(checked) == ["price zero, negative or infinite"]

    def test_e06_a_spot_price_without_a_bid_cannot_be_bought(self) -> None:
        """github.com/dstackai/dstack/issues/4036, 2026-07-16: Vast's spot price is the lowest bid."""
        machine = (
            '{"gpu_name": "H100 SXM", "num_gpus": 8, "gpu_ram": 81559, "dph_total": 17.6, "rentable": true, '
            '"rented": false, "verification": "verified", "geolocation": "Czechia, CZ", "min_bid": %s}'
        )

        def terms(min_bid: str) -> list[str]:
            body = f'{{"offers": [{machine % min_bid}]}}'.encode()
            pull = RawPull("vast", (new_part(label="all", url="", fetched_at=NOW, body=body),))
            return sorted(offer.term for offer in check(*source_classes()["vast"]().parse(pull, DAY)).offers)

        assert terms("10.4") == ["on-demand", "spot"]
        assert terms("null") == ["on-demand"]

    def test_e07_an_h100_for_nothing(self) -> None:
        """github.com/skypilot-org/skypilot/issues/3615, 2024-05-29: the real price is about 8.8."""
        machine = {"provider": "azure", "instance_type": "Standard_ND96isr_H100_v5", "region": "eastus"}
        assert why(check(row(**machine, price_usd=0.0))) == ["price zero, negative or infinite"]
        assert why(check(row(**machine, price_usd=8 * 8.8))) == []

    @pytest.mark.parametrize(("spelling", "floor"), [("B200", 0.01), ("H100", 8.00), ("A100", 0.08)])
    def test_e08_a_bid_floor_as_a_price(self, spelling: str, floor: float) -> None:
        """github.com/skypilot-org/skypilot/issues/9156, 2026-03-22: the real prices are 3.45, 28.66 and 13.99."""
        stated = row(
            source="skypilot", provider="mithril", spelling=spelling, gpus=8, price_usd=floor, instance_type=""
        )
        assert why(check(stated)) == ["a bid floor, not a price"]

    def test_e08_the_same_floor_from_a_provider_that_is_not_known_for_it(self) -> None:
        assert why(check(row(price_usd=0.08), usual=EIGHT_H100)) == ["price outside 0.03 to 150 $ per GPU-hour"]
        assert why(check(row(price_usd=28.66), usual=EIGHT_H100)) == []

    def test_e10_one_price_for_any_number_of_gpus_and_every_row_twice(self) -> None:
        """github.com/skypilot-org/skypilot-catalog/issues/44, 2023-08-25: 1 to 8 RTX A6000, all at 0.79."""

        def machines(price_of_two: float) -> list[RawRow]:
            same = {"source": "gpuhunt", "provider": "runpod", "spelling": "A6000", "instance_type": ""}
            return [
                row(**same, gpus=count, price_usd=price) for count, price in ((1, 0.79), (1, 0.79), (2, price_of_two))
            ]

        checked = check(*machines(0.79))
        assert [offer.gpus_per_node for offer in checked.offers] == [1]
        assert why(checked) == ["a copy of another row", "several GPUs at the price of one"]
        assert [offer.gpus_per_node for offer in check(*machines(1.58)).offers] == [1, 2]

    @pytest.mark.parametrize("first", [0, 1])
    def test_e12_one_machine_at_two_prices(self, first: int) -> None:
        """github.com/skypilot-org/skypilot/issues/3750, 2024-07-14: 0.178 and 0.086 in one region."""
        two = [row(price_usd=price * 100) for price in (0.178, 0.086)]
        checked = check(two[first], two[1 - first])
        assert [offer.price_usd_per_node_hour for offer in checked.offers] == [17.8]
        assert why(checked) == ["one offer at two prices (the dearer is kept)"]

    def test_e14_the_column_of_host_memory_is_not_read(self) -> None:
        """github.com/skypilot-org/skypilot/issues/6824, 2025-09-26: 80 where the machine has 117 GiB."""

        def rows(memory: int) -> list[RawRow]:
            text = (
                "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
                f"1x_A100-80GB_SECURE,A100-80GB,1.0,8,{memory},1.64,US,,\n"
            )
            return read_skypilot(text, "runpod", DAY, "skypilot")

        assert rows(80) == rows(117)

    def test_e14_a_gpu_memory_that_is_not_the_gpus_is_refused(self) -> None:
        stated = row(source="gpuhunt", provider="runpod", spelling="H200", instance_type="", gpus=1, price_usd=3.5)
        assert why(check(replace(stated, memory_gb=141.0))) == []
        reason = "memory does not fit the GPU name (another card or a slice of one)"
        assert why(check(replace(stated, memory_gb=80.0))) == [reason]

    def test_e15_what_a_short_list_lacks_is_not_gone(self) -> None:
        """github.com/skypilot-org/skypilot/issues/1188, 2022-10-02: one region shown, the European ones missing."""
        prices = {("aws", f"r{n}", "p5.48xlarge", "on-demand"): 55.0 for n in range(20)}
        assert check(row(region="r0"), known=Known(prices)).partial
        assert not check(*(row(region=f"r{n}") for n in range(20)), known=Known(prices)).partial

    def test_e16_copies_are_dropped_before_anything_is_summed(self) -> None:
        """github.com/skypilot-org/skypilot/issues/1367, 2022-11-03: duplicates moved the price of eight A100."""
        checked = check(row(), row())
        assert (len(checked.offers), why(checked)) == (1, ["a copy of another row"])

    def test_e19_sizes_come_from_the_config_never_from_a_catalogs_default(self) -> None:
        """llm-d-planner's model catalog, 2026-04-27: DeepSeek-R1 W4A16 as a model of 4 GB; gpt-oss-120b of 240 GB."""
        assert load_model("deepseek-ai/DeepSeek-R1-0528").weight_bytes("int4") > 330e9
        gpt_oss = load_model("openai/gpt-oss-120b")
        assert gpt_oss.weight_bytes() < 70e9
        assert gpt_oss.max_context_tokens == 131_072
