"""Offers: the committed snapshot's integrity, as-of views, which source stands, discounts, and the user's own CSV."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path

import pandas as pd
import pytest

from catalogs.errors import CatalogError, DataFileError, UnknownNameError
from catalogs.gpus import load_gpus
from catalogs.nodes import load_nodes
from catalogs.offer_files import MAX_USD_PER_GPU_HOUR, MIN_USD_PER_GPU_HOUR, PRICE_COLUMNS, read_price_files
from catalogs.offers import OFFER_COLUMNS, PRICES_FOLDER, Discount, Offer, discounted, first_day, load_offers
from catalogs.providers import load_providers

BRIEF_DAY = date(2026, 8, 14)
TODAY = date(2026, 11, 30)
FILES = sorted(path for path in PRICES_FOLDER.glob("*/*.csv") if not path.name.endswith(".set_aside.csv"))
HEADER = ",".join(PRICE_COLUMNS)


@pytest.fixture(scope="module")
def newest() -> pd.DataFrame:
    return load_offers().frame


@pytest.fixture(scope="module")
def every_file() -> pd.DataFrame:
    return read_price_files([(f"{path.parent.name}/{path.stem}", path) for path in FILES])


@pytest.fixture(scope="module")
def spheron() -> pd.Series:
    """On-demand prices of Spheron on the day of the brief, by node size."""
    frame = load_offers(BRIEF_DAY).frame
    chosen = frame[(frame["provider"] == "spheron") & (frame["term"] == "on-demand")]
    return chosen.set_index("instance_type")["price_usd_per_node_hour"]


class TestCommittedSnapshot:
    """Invariants of the data, apart from the code."""

    def test_covers_the_providers_that_were_asked_for(self, newest: pd.DataFrame) -> None:
        wanted = {"aws", "azure", "gcp", "lambda", "runpod", "vast", "verda", "nebius", "spheron", "crusoe", "oci"}
        assert wanted <= set(newest["provider"])
        assert newest["provider"].nunique() >= 15

    def test_holds_every_term_and_kind(self, newest: pd.DataFrame) -> None:
        assert set(newest["term"]) == {"on-demand", "spot", "reserved-1y", "reserved-3y"}
        assert set(newest["provider_kind"]) == {"hyperscaler", "gpu-cloud", "marketplace"}
        on_demand = newest[(newest["term"] == "on-demand") & (newest["provider_kind"] != "marketplace")]
        assert on_demand["provider"].nunique() >= 15

    def test_no_price_is_zero_or_absurd(self, every_file: pd.DataFrame) -> None:
        per_gpu = every_file["price_usd_per_node_hour"] / every_file["gpus_per_node"]
        assert per_gpu.between(MIN_USD_PER_GPU_HOUR, MAX_USD_PER_GPU_HOUR).all()

    def test_every_gpu_and_provider_is_in_its_catalog(self, every_file: pd.DataFrame) -> None:
        assert set(every_file["gpu"]) <= set(load_gpus())
        assert set(every_file["provider"]) <= set(load_providers())

    def test_provider_kinds_are_those_of_the_catalog_except_community_hosts(self, every_file: pd.DataFrame) -> None:
        kinds = every_file["provider"].map({name: provider.kind for name, provider in load_providers().items()})
        community = every_file["instance_type"].str.endswith("(community)")
        assert (every_file["provider_kind"] == kinds.where(~community, "marketplace")).all()

    def test_machines_agree_with_the_node_table(self, every_file: pd.DataFrame) -> None:
        for row in every_file.drop_duplicates(["provider", "instance_type"]).itertuples():
            node = load_nodes().get((str(row.provider), str(row.instance_type)))
            if node is not None:
                assert (row.gpu, row.gpus_per_node) == (node.gpu, node.gpus_per_node), row.instance_type

    def test_a_model_beyond_one_board_has_somewhere_to_span_nodes(self, newest: pd.DataFrame) -> None:
        # 405 billion parameters in BF16 are 810 GB, more than the 8 x 80 GB of an H100 board.
        boards = newest[(newest["gpu"] == "H100-SXM-80GB") & (newest["gpus_per_node"] == 8)]
        spanning = boards[(boards["term"] == "on-demand") & (boards["network_gbit_per_s"] >= 3200)]
        assert {"aws", "azure", "oci", "nebius", "crusoe", "coreweave"} <= set(spanning["provider"])

    def test_a_board_with_no_published_network_stays_unknown(self, newest: pd.DataFrame) -> None:
        lambda_board = newest[newest["instance_type"] == "gpu_8x_h100_sxm5"]
        assert set(lambda_board["network"]) == {"unknown"}
        assert lambda_board["network_gbit_per_s"].isna().all()

    def test_no_offer_stands_twice_in_a_file(self, every_file: pd.DataFrame) -> None:
        assert not every_file.duplicated(["source", "provider", "region", "instance_type", "term"]).any()

    def test_no_row_was_seen_after_the_date_of_its_file(self, every_file: pd.DataFrame) -> None:
        file_day = pd.to_datetime(every_file["source"].str.split("/").str[1])
        assert (every_file["seen_on"] <= file_day).all()
        assert (every_file["seen_on"] >= file_day - pd.Timedelta(days=14)).all()

    def test_spot_and_commitments_never_cost_more_than_on_demand(self, newest: pd.DataFrame) -> None:
        by_term = newest.pivot(
            index=["provider", "region", "instance_type"], columns="term", values="price_usd_per_node_hour"
        )
        for term in ("spot", "reserved-1y", "reserved-3y"):
            assert not (by_term[term] > by_term["on-demand"]).any(), term

    def test_gcp_commitments_are_hourly(self, newest: pd.DataFrame) -> None:
        # Read as 44,810.08 $ a month for one year: / 730 h = 61.38 $/h, against 88.49 on-demand.
        a3 = newest[(newest["instance_type"] == "a3-highgpu-8g") & (newest["region"] == "us-central1")]
        prices = a3.set_index("term")["price_usd_per_node_hour"]
        assert prices["reserved-1y"] == pytest.approx(44810.08066464 / 730, rel=1e-6)
        assert prices["on-demand"] == 88.49

    def test_small_a3_machines_are_spot_only(self, newest: pd.DataFrame) -> None:
        small = newest[newest["instance_type"].isin(["a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"])]
        assert set(small["term"]) == {"spot"}

    def test_lambda_h100_price_depends_on_the_machine(self, newest: pd.DataFrame) -> None:
        # 4.29 alone, 8 x 3.99 = 31.92 as a board.
        prices = newest[newest["provider"] == "lambda"].set_index("instance_type")["price_usd_per_node_hour"]
        assert prices["gpu_1x_h100_sxm5"] == 4.29
        assert prices["gpu_8x_h100_sxm5"] == pytest.approx(31.92)

    def test_is_small(self) -> None:
        assert sum(path.stat().st_size for path in PRICES_FOLDER.rglob("*.csv")) < 3_000_000

    def test_every_source_has_a_citation_and_the_licence_note_that_its_licence_asks_for(self) -> None:
        table = load_offers()
        assert set(table.frame["source"]) <= set(table.sources)
        assert "GPU rental price data by gpurentalprices.com" in table.sources["gpurentalprices"]
        assert "CC BY 4.0" in table.sources["gpurentalprices"]

    def test_what_was_left_out_is_counted(self) -> None:
        set_aside = load_offers().set_aside
        assert set_aside["price missing or not in USD"] > 0
        assert set_aside["a serverless service, not a rentable node"] > 0
        assert all(count > 0 for count in set_aside.values())


class TestSpheronFiguresOfTheBrief:
    """The two ranges of 14 August 2026."""

    def test_two_h200_cost_9_68_to_12_18(self, spheron: pd.Series) -> None:
        # 2 x 4.84 and 2 x 6.09.
        assert spheron["2x H200-SXM-141GB (low end)"] == pytest.approx(9.68, abs=1e-9)
        assert spheron["2x H200-SXM-141GB (high end)"] == pytest.approx(12.18, abs=1e-9)

    def test_four_a100_cost_5_72(self, spheron: pd.Series) -> None:
        # 4 x 1.43.
        assert spheron["4x A100-SXM-80GB"] == pytest.approx(5.72, abs=1e-9)

    def test_other_figures_of_that_day(self, spheron: pd.Series) -> None:
        assert spheron["1x L40S-48GB"] == 0.96
        assert spheron["1x RTX5090-32GB"] == 0.86
        assert spheron["1x A100-PCIE-80GB"] == 1.43

    def test_answers_by_default_because_spheron_is_not_a_marketplace(self) -> None:
        frame = load_offers(BRIEF_DAY).frame
        assert set(frame.loc[frame["provider"] == "spheron", "provider_kind"]) == {"gpu-cloud"}

    def test_source_says_that_the_form_factor_was_not_stated(self) -> None:
        assert "form factor was not stated" in load_offers(BRIEF_DAY).sources["stated"]


class TestAsOf:
    def test_columns_order_and_sorting(self, newest: pd.DataFrame) -> None:
        assert tuple(newest.columns) == OFFER_COLUMNS
        assert newest["price_usd_per_node_hour"].is_monotonic_increasing
        assert list(newest.index) == list(range(len(newest)))

    def test_nothing_seen_later_enters(self) -> None:
        for day in (date(2026, 7, 5), date(2026, 8, 13), BRIEF_DAY):
            assert load_offers(day).frame["seen_on"].max() <= pd.Timestamp(day)

    def test_prices_of_each_day_are_told_apart(self) -> None:
        # Spheron's H200 stood at 5.86, 5.90, 4.79 on three days running.
        seen = []
        for day in (13, 14, 15):
            frame = load_offers(date(2026, 8, day)).frame
            seen.append(frame.set_index(["provider", "instance_type", "term"])["price_usd_per_node_hour"])
        key = ("spheron", "1x H200-SXM-141GB", "on-demand")
        assert [float(prices[key]) for prices in seen] == [5.86, 5.90, 4.79]

    def test_a_day_before_the_first_names_the_first(self) -> None:
        with pytest.raises(CatalogError, match=f"the first are of {first_day()}"):
            load_offers(date(2020, 1, 1))

    def test_first_day_itself_has_prices(self) -> None:
        assert len(load_offers(first_day()).frame) > 0

    def test_a_future_day_takes_the_newest(self, newest: pd.DataFrame) -> None:
        table = load_offers(date(2030, 1, 1))
        assert table.as_of == date(2030, 1, 1)
        pd.testing.assert_frame_equal(table.frame, newest)

    def test_without_a_date_it_is_as_of_today(self) -> None:
        assert load_offers(today=TODAY).as_of == TODAY

    def test_loads_fast(self) -> None:
        load_offers()
        took = []
        for _ in range(5):
            start = time.perf_counter()
            load_offers()
            took.append(time.perf_counter() - start)
        assert min(took) < 0.12  # about 0.025 s alone on the machine


def _write_look(folder: Path, source: str, day: str, *rows: str, set_aside: str = "") -> None:
    (folder / source).mkdir(parents=True, exist_ok=True)
    (folder / source / f"{day}.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    if set_aside:
        (folder / source / f"{day}.set_aside.csv").write_text(f"reason,rows\n{set_aside}\n")
    (folder / "sources.toml").write_text('a = "source a"\nb = "source b"\n')


def _price_row(price: float, seen_on: str, region: str = "global") -> str:
    return f"lambda,gpu-cloud,{region},gpu_1x_a10,A10-24GB,1,on-demand,{price},,{seen_on}"


class TestWhichSourceStands:
    def test_the_row_seen_last_stands(self, tmp_path: Path) -> None:
        _write_look(tmp_path, "a", "2026-01-01", _price_row(1.0, "2026-01-01"))
        _write_look(tmp_path, "b", "2026-01-02", _price_row(2.0, "2026-01-02"))
        assert list(load_offers(folder=tmp_path).frame["price_usd_per_node_hour"]) == [2.0]
        assert list(load_offers(date(2026, 1, 1), folder=tmp_path).frame["price_usd_per_node_hour"]) == [1.0]

    def test_on_a_tie_the_source_that_sorts_first_stands(self, tmp_path: Path) -> None:
        _write_look(tmp_path, "b", "2026-01-01", _price_row(1.0, "2026-01-01"))
        _write_look(tmp_path, "a", "2026-01-01", _price_row(2.0, "2026-01-01"))
        assert list(load_offers(folder=tmp_path).frame["source"]) == ["a"]

    def test_another_region_is_another_offer(self, tmp_path: Path) -> None:
        rows = (_price_row(1.0, "2026-01-01"), _price_row(1.0, "2026-01-01", region="us-east-1"))
        _write_look(tmp_path, "a", "2026-01-01", *rows)
        assert len(load_offers(folder=tmp_path).frame) == 2

    def test_prices_over_a_year_older_than_the_newest_are_set_aside(self, tmp_path: Path) -> None:
        _write_look(tmp_path, "a", "2025-01-01", _price_row(1.0, "2025-01-01", region="old"), set_aside="no price,3")
        _write_look(tmp_path, "b", "2026-01-02", _price_row(2.0, "2026-01-02"))
        table = load_offers(folder=tmp_path)
        assert list(table.frame["region"]) == ["global"]
        assert table.set_aside == {"no price": 3, "seen over a year before the newest price": 1}

    def test_bad_rows_are_all_named(self, tmp_path: Path) -> None:
        _write_look(tmp_path, "a", "2026-01-01", _price_row(0.0, "2026-01-01"), _price_row(1.0, "yesterday"))
        with pytest.raises(DataFileError) as error:
            load_offers(folder=tmp_path)
        assert error.value.problems == (
            "line 2.price_usd_per_node_hour: got '0.0'",
            "line 3.seen_on: got 'yesterday'",
        )

    def test_a_file_not_named_by_its_date_is_refused(self, tmp_path: Path) -> None:
        _write_look(tmp_path, "a", "latest", _price_row(1.0, "2026-01-01"))
        with pytest.raises(DataFileError, match="not named by its date"):
            load_offers(folder=tmp_path)

    def test_an_empty_folder_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CatalogError, match="no dated price files"):
            load_offers(folder=tmp_path)

    def test_a_source_without_a_citation_is_an_error(self, tmp_path: Path) -> None:
        _write_look(tmp_path, "c", "2026-01-01", _price_row(1.0, "2026-01-01"))
        with pytest.raises(DataFileError, match="no citation for c"):
            load_offers(folder=tmp_path)


class TestOffer:
    def test_row_becomes_a_record_of_plain_values(self) -> None:
        table = load_offers(BRIEF_DAY)
        row = table.frame.index[table.frame["instance_type"] == "4x A100-SXM-80GB"][0]
        offer = Offer.at(table, row)
        assert (offer.gpus_per_node, offer.fabric, offer.scale_up_gpus) == (4, "nvswitch", 4)
        assert offer.price_usd_per_gpu_hour == pytest.approx(1.43)
        assert offer.seen_on == BRIEF_DAY
        assert type(offer.seen_on) is date
        assert type(offer.gpus_per_node) is int
        assert (offer.max_nodes, offer.network_gbit_per_s) == (None, None)


class TestDiscounts:
    def test_takes_percent_off_what_matches_and_sorts_anew(self) -> None:
        table = load_offers()
        after = discounted(table, [Discount("coreweave", 90.0, gpu="h100-sxm-80gb")])

        def price(frame: pd.DataFrame, gpu: str) -> float:
            return float(
                frame[(frame["provider"] == "coreweave") & (frame["gpu"] == gpu)]["price_usd_per_node_hour"].iloc[0]
            )

        # 8 x 6.155 = 49.24; a tenth of it is 4.924. The H200 (8 x 6.305 = 50.44) keeps its price.
        assert price(after.frame, "H100-SXM-80GB") == pytest.approx(4.924)
        assert price(after.frame, "H200-SXM-141GB") == pytest.approx(50.44)
        assert after.frame["price_usd_per_node_hour"].is_monotonic_increasing
        assert price(table.frame, "H100-SXM-80GB") == pytest.approx(49.24)

    def test_discounts_multiply(self) -> None:
        table = load_offers()
        half = discounted(table, [Discount(None, 50.0)]).frame["price_usd_per_node_hour"].sum()
        quarter = discounted(table, [Discount(None, 50.0), Discount(None, 50.0)]).frame["price_usd_per_node_hour"].sum()
        assert quarter == pytest.approx(half / 2)

    def test_term_and_machine_narrow_it(self) -> None:
        rule = Discount("gcp", 10.0, instance_type="a3-highgpu-8g", term="reserved-1y")
        before, after = load_offers(), discounted(load_offers(), [rule])
        keys = ["provider", "region", "instance_type", "term"]
        ratio = (
            after.frame.set_index(keys)["price_usd_per_node_hour"]
            / before.frame.set_index(keys)["price_usd_per_node_hour"]
        )
        touched = ratio[ratio < 0.999].reset_index()
        assert set(touched["instance_type"]) == {"a3-highgpu-8g"}
        assert set(touched["term"]) == {"reserved-1y"}

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            (Discount("lamda", 10.0), "Unknown provider 'lamda'. Did you mean lambda"),
            (Discount("lambda", 10.0, gpu="H100-SXM"), "Unknown GPU"),
            (Discount("lambda", 10.0, instance_type="gpu_8x_h100_sxm"), "Did you mean gpu_8x_h100_sxm5"),
        ],
    )
    def test_unknown_names_offer_near_matches(self, rule: Discount, message: str) -> None:
        with pytest.raises(UnknownNameError, match=message):
            discounted(load_offers(), [rule])

    @pytest.mark.parametrize("percent", [-1.0, 100.0, float("nan"), float("inf")])
    def test_percent_is_at_least_0_and_below_100(self, percent: float) -> None:
        with pytest.raises(CatalogError, match="Expected a discount of 0 to below 100 percent"):
            Discount("aws", percent)


def _own(tmp_path: Path, text: str | bytes) -> pd.DataFrame:
    path = tmp_path / "own.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    table = load_offers(BRIEF_DAY, (path,), today=TODAY)
    return table.frame[table.frame["source"] == "own:own.csv"].reset_index(drop=True)


def _problems(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(DataFileError) as error:
        _own(tmp_path, text)
    assert error.value.path.endswith("own.csv")
    return "\n".join(error.value.problems)


class TestOwnOffers:
    def test_smallest_file(self, tmp_path: Path) -> None:
        offer = _own(tmp_path, "provider,gpu,gpus_per_node,price_usd_per_gpu_hour\nbasement,h100-sxm-80gb,8,1.25\n")
        first = offer.iloc[0]
        assert first["instance_type"] == "8x H100-SXM-80GB"
        assert first["price_usd_per_node_hour"] == 10.0  # 8 x 1.25
        assert (first["provider_kind"], first["region"], first["term"]) == ("own", "global", "on-demand")
        assert (first["fabric"], first["scale_up_gpus"], first["network"]) == ("nvswitch", 8, "unknown")
        assert first["seen_on"] == pd.Timestamp(TODAY)

    def test_a_bundled_machine_brings_its_own_facts_and_stands_before_the_bundled_price(self, tmp_path: Path) -> None:
        text = "provider,instance_type,price_usd_per_node_hour,region\naws,p5.48xlarge,40,us-east-1\n"
        offer = _own(tmp_path, text).iloc[0]
        assert (offer["gpu"], offer["gpus_per_node"], offer["network"]) == ("H100-SXM-80GB", 8, "efa")
        path = tmp_path / "own.csv"
        frame = load_offers(extra_files=(path,)).frame
        same = frame[(frame["instance_type"] == "p5.48xlarge") & (frame["region"] == "us-east-1")]
        assert list(same["price_usd_per_node_hour"]) == [40.0]

    def test_stated_fabric_and_network_stand(self, tmp_path: Path) -> None:
        columns = "provider,gpu,gpus_per_node,price_usd_per_node_hour,fabric,network,network_gbit_per_s,max_nodes"
        text = f"{columns}\nus,H100-PCIE-80GB,4,5,nvlink_bridge,infiniband,400,3\nus,H100-PCIE-80GB,2,3,pcie,,,\n"
        frame = _own(tmp_path, text)
        bridged = frame[frame["gpus_per_node"] == 4].iloc[0]
        assert (bridged["fabric"], bridged["scale_up_gpus"]) == ("nvlink_bridge", 2)
        assert (bridged["network"], bridged["network_gbit_per_s"], bridged["max_nodes"]) == ("infiniband", 400, 3)
        assert frame[frame["gpus_per_node"] == 2].iloc[0]["scale_up_gpus"] == 1

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("us,H100-SXM-80GB,8,-3", "line 2.price_usd_per_node_hour: expected a number above 0"),
            ("us,H100-SXM-80GB,8,0", "line 2.price_usd_per_node_hour: expected a number above 0"),
            ("us,H100-SXM-80GB,8,NaN", "got 'NaN'"),
            ("us,H100-SXM-80GB,8,inf", "got 'inf'"),
            ("us,H100-SXM-80GB,8,abc", "got 'abc'"),
            ("us,H100-SXM-80GB,8,1e99", "got '1e99'"),
            ("us,H100-SXM-80GB,8,", "a missing price is not zero"),
            ("us,H100-SXM,8,3", "line 2.gpu: unknown GPU; did you mean H100-SXM-80GB"),
            ("us,,8,3", "line 2.gpu: expected a GPU"),
            ("us,H100-SXM-80GB,0,3", "line 2.gpus_per_node: expected a number of at least 1"),
            ("us,H100-SXM-80GB,2.5,3", "line 2.gpus_per_node: expected a whole number"),
            ("us,H100-SXM-80GB,,3", "line 2.gpus_per_node: expected a count"),
            ("us,H100-SXM-80GB,1e300,3", "line 2.gpus_per_node"),
            (",H100-SXM-80GB,8,3", "line 2.provider: expected a name"),
            ("=cmd|' /C calc'!A0,H100-SXM-80GB,8,3", "starting with a letter or digit"),
            (f"{'x' * 300},H100-SXM-80GB,8,3", "at most 200 characters"),
            ("us,H100-SXM-80GB,8,3,9", "line 2: has 5 cells, the header has 4"),
        ],
    )
    def test_a_bad_cell_is_named_with_line_field_and_value(self, tmp_path: Path, line: str, problem: str) -> None:
        assert problem in _problems(tmp_path, f"provider,gpu,gpus_per_node,price_usd_per_node_hour\n{line}\n")

    @pytest.mark.parametrize(
        ("column", "value", "problem"),
        [
            ("term", "monthly", "expected one of on-demand, spot, reserved-1y, reserved-3y"),
            ("provider_kind", "cloud", "expected one of hyperscaler"),
            ("network", "wifi", "expected one of infiniband"),
            ("fabric", "single", "expected 'single' exactly where gpus_per_node is 1"),
            ("scale_up_gpus", "3", "expected a divisor of gpus_per_node"),
            ("network_gbit_per_s", "400", "expected a network beside it"),
            ("max_nodes", "0", "expected a number of at least 1"),
            ("seen_on", "2031-01-01", "expected a past day as YYYY-MM-DD"),
            ("seen_on", "soon", "expected a past day as YYYY-MM-DD"),
            ("region", "+1", "starting with a letter or digit"),
            ("price_usd_per_gpu_hour", "9", "is not price_usd_per_node_hour / gpus_per_node"),
        ],
    )
    def test_a_bad_optional_cell_is_named(self, tmp_path: Path, column: str, value: str, problem: str) -> None:
        text = f"provider,gpu,gpus_per_node,price_usd_per_node_hour,{column}\nus,H100-SXM-80GB,8,3,{value}\n"
        assert f"line 2.{column}: " in _problems(tmp_path, text)
        assert problem in _problems(tmp_path, text)

    def test_every_bad_row_is_named(self, tmp_path: Path) -> None:
        text = "provider,gpu,gpus_per_node,price_usd_per_node_hour\nus,A,8,3\n\nus,L4-24GB,1,-1\nus,B,1,1\n"
        problems = _problems(tmp_path, text)
        assert [f"line {line}." in problems for line in (2, 3, 4, 5)] == [True, False, True, True]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", "is empty"),
            (" \n \n", "is empty"),
            ("provider,gpu,gpus_per_node,price_usd_per_node_hour\n", "has a header but no offer"),
            ("gpu,gpus_per_node,price_usd_per_node_hour\nL4-24GB,1,1\n", "misses column provider"),
            ("provider,gpu,price_usd_per_node_hour\nus,L4-24GB,1\n", "misses column instance_type"),
            ("provider,gpu,gpus_per_node\nus,L4-24GB,1\n", "misses column price_usd_per_node_hour or"),
            (
                "provider,gpu,gpus_per_node,price_per_node\nus,L4-24GB,1,1\n",
                "unknown column 'price_per_node'; did you mean",
            ),
            ("provider,provider,instance_type,price_usd_per_node_hour\na,b,c,1\n", "column 'provider' stands twice"),
            ("provider;gpu;gpus_per_node\nus;L4-24GB;1\n", "unknown column 'provider;gpu;gpus_per_node'"),
            (b"provider,gpu\n\xff\xfe\n", "is not UTF-8 text: byte 13 is 0xff"),
            (b"provider,gpu\n\x00\n", "NUL"),
            ('provider,gpu\n"open,L4\n', "is not a CSV table"),
            (f"provider,gpu\n{'x' * 30_000}\n", "has a line of 30000 characters"),
            (
                "provider,instance_type,price_usd_per_node_hour\naws,p5.48xlarge,1\naws,p5.48xlarge,2\n",
                "line 3: the same offer as line 2 (aws global p5.48xlarge on-demand)",
            ),
        ],
    )
    def test_a_bad_file_is_explained(self, tmp_path: Path, text: str | bytes, problem: str) -> None:
        assert problem in _problems(tmp_path, text)

    def test_a_machine_named_with_the_wrong_gpu_or_count_is_refused(self, tmp_path: Path) -> None:
        text = "provider,instance_type,gpu,gpus_per_node,price_usd_per_node_hour\naws,p5.48xlarge,L4-24GB,4,9\n"
        problems = _problems(tmp_path, text)
        assert "line 2.gpu: is not the GPU of this instance_type" in problems
        assert "line 2.gpus_per_node: is not the count of this instance_type" in problems

    def test_a_missing_file_is_explained(self, tmp_path: Path) -> None:
        with pytest.raises(DataFileError, match=r"gone\.csv"):
            load_offers(extra_files=(tmp_path / "gone.csv",))

    def test_byte_order_mark_and_spaces_are_harmless(self, tmp_path: Path) -> None:
        text = "\ufeffProvider, GPU ,gpus_per_node,price_usd_per_node_hour\n us , L4-24GB ,1, 0.5\n"
        assert _own(tmp_path, text).iloc[0]["provider"] == "us"

    def test_a_hundred_thousand_rows_load(self, tmp_path: Path) -> None:
        rows = "\n".join(f"us,zone-{i},L4-24GB,1,{1 + i / 1e5}" for i in range(100_000))
        frame = _own(tmp_path, f"provider,region,gpu,gpus_per_node,price_usd_per_node_hour\n{rows}\n")
        assert len(frame) == 100_000
