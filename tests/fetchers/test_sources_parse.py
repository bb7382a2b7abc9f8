"""What is read from each source's recorded answer: which offers come of it, and why each other row is set aside."""

from __future__ import annotations

from collections import Counter

import pytest

from fetchers.normalize import RawRow, place
from fetchers.source import source_classes
from tests.fetchers.recorded import DAY, RECORDED, recorded_pull


def rows_of(name: str) -> list[RawRow]:
    return source_classes()[name]().parse(recorded_pull(name), DAY)


# source -> offers as "provider region machine term price [nodes free]"
OFFERS = {
    "aws": """
        aws us-east-1 p5.48xlarge on-demand 55.04
        aws us-east-1-bos-1 g6e.xlarge on-demand 1.861
    """,
    # The newest price of each zone (24.50, not the older 19.00), then the cheapest zone.
    "aws-spot": """
        aws us-east-1 p5.48xlarge spot 22.1
        aws us-east-1 g6e.xlarge spot 0.78
    """,
    # 551221 / 8760 and 1078344 / 26280.
    "azure": """
        azure eastus Standard_ND96isr_H100_v5 on-demand 98.32
        azure eastus Standard_ND96isr_H100_v5 spot 30.5
        azure eastus Standard_ND96isr_H100_v5 reserved-1y 62.924772
        azure eastus Standard_ND96isr_H100_v5 reserved-3y 41.032877
        azure eastus Standard_NC40ads_H100_v5 on-demand 6.98
    """,
    "cloudrift": """
        cloudrift us-east-nc-nr-1 rtx49-8c-nr.1 on-demand 0.39 3
        cloudrift us-east-nc-nr-1 rtx49-16c-nr.2 on-demand 0.78 1
        cloudrift us-east-nc-nr-1 mi350x.8 on-demand 24 1
    """,
    "crusoe": "crusoe us-east1-a h100-80gb-sxm-ib.8x on-demand 31.2 3",  # 8 at 3.90
    "digitalocean": """
        digitalocean nyc2 gpu-h100x8-640gb on-demand 23.92
        digitalocean tor1 gpu-h100x8-640gb on-demand 23.92
    """,
    # 208 cores at 0.03 + 1872 GiB at 0.003 + 8 GPUs at 9.80 + 6000 GiB at 0.073 / 730; the smaller ones of the
    # family are not sold on demand. Spot: a third for cores and memory, 5.00 a GPU, half for the disk.
    "gcp": """
        gcp us-central1 a3-highgpu-8g on-demand 90.856
        gcp us-central1 a3-highgpu-1g spot 5.5315
        gcp us-central1 a3-highgpu-2g spot 11.063
        gcp us-central1 a3-highgpu-4g spot 22.126
        gcp us-central1 a3-highgpu-8g spot 44.252
        gcp us-central1 a4-highgpu-8g spot 28
    """,
    "gpuhunt": """
        gcp us-central1 g2-standard-4 on-demand 0.7
        gcp us-central1 g2-standard-4 spot 0.28
    """,
    "hot-aisle": "hotaisle us-michigan-1 vm-mi300x-1 on-demand 1.99 2",
    "lambda": """
        lambda global gpu_8x_h100_sxm5 on-demand 31.92
        lambda global gpu_1x_a10 on-demand 1.29
        lambda global gpu_2x_a6000 on-demand 1.6
    """,
    "linode": "linode global g1-gpu-rtx6000-1 on-demand 1.5",
    "lium": """
        lium US 8x H100-SXM-80GB on-demand 14 1
        lium NO 1x RTX5090-32GB on-demand 0.4 3
        lium NO 2x RTX5090-32GB on-demand 0.8 1
        lium NO 3x RTX5090-32GB on-demand 1.2 1
        lium global 8x A100-SXM-80GB spot 4.8 1
    """,
    "oci": """
        oci global BM.GPU.H100.8 on-demand 80
        oci global VM.GPU.A10.1 on-demand 2
        oci global VM.GPU.A10.2 on-demand 4
        oci global BM.GPU.A10.4 on-demand 8
    """,
    "prime-intellect": """
        primeintellect CANADA-1 hyperstack 8x H100_80GB SXM5 on-demand 19.6
        primeintellect CANADA-1 hyperstack 8x A100_80GB SXM4 spot 10
        primeintellect CANADA-1 hyperstack 1x L40S_48GB PCIe (community) on-demand 0.9
    """,
    "runpod": """
        runpod global 1x H100-SXM-80GB on-demand 3.3
        runpod global 8x H100-SXM-80GB on-demand 26.4
        runpod global 1x H100-SXM-80GB (community) on-demand 2.7
        runpod global 1x H100-SXM-80GB (community) spot 1.9
    """,
    "shadeform": """
        shadeform montreal-canada-2 hyperstack_H100_sxm5x8 on-demand 19.6
        shadeform kansascity-usa-1 massedcompute_A6000 on-demand 0.57
    """,
    "skypilot": """
        lambda global gpu_8x_h100_sxm5 on-demand 31.92
        lambda global gpu_1x_a10 on-demand 1.29
    """,
    "spheron": """
        spheron Finland 3 1x H100-SXM-80GB on-demand 2.9
        spheron Finland 3 1x H100-SXM-80GB spot 0.8
        spheron Finland 3 8x H100-SXM-80GB spot 9.6
        spheron canada-1 1x A100-PCIE-80GB on-demand 1.43
        spheron montreal-canada-2 8x H100-PCIE-80GB on-demand 20.6
    """,
    # 2.25 + 4 vCPUs at 0.003 + 64 GB at 0.002 + 200 GB at 0.00005, times the GPUs.
    "tensordock": """
        tensordock United States 1x H100-SXM-80GB on-demand 2.4
        tensordock United States 2x H100-SXM-80GB on-demand 4.8
    """,
    "vast": """
        vast CZ 8x H100-SXM-80GB on-demand 17.6 2
        vast CZ 8x H100-SXM-80GB spot 10.4 2
        vast global 1x A100-SXM-40GB on-demand 0.5 1
        vast global 1x A100-SXM-40GB spot 0.3 1
        vast US 1x A100-SXM-80GB on-demand 0.9 1
        vast US 1x A100-SXM-80GB spot 0.4 1
        vast TW 2x L40S-48GB spot 0.5 1
    """,
    "verda": """
        verda FIN-01 1H100.80S.30V on-demand 3.25
        verda ICE-01 1H100.80S.30V on-demand 3.25
        verda FIN-01 8H100.80S.176V on-demand 26
        verda FIN-01 2B300.60V spot 4.893
    """,
    "vultr": """
        vultr ewr vcg-l40s-16c-180g-48vram on-demand 1.671
        vultr ewr vcg-l40s-32c-360g-96vram on-demand 3.342
        vultr ord vbm-112c-2048gb-8-h100-gpu on-demand 23.92
    """,
}

# source -> reasons for which rows are set aside, with how many
SET_ASIDE: dict[str, dict[str, int]] = {
    "aws": {"a part of a GPU": 1, "price in CNY, not in USD": 1, "machine not in the node table": 1},
    "aws-spot": {},
    "azure": {
        "low priority, for batch accounts only": 1,
        "a term of 5 Years": 1,
        "with a Windows licence": 1,
        "a discount for test subscriptions": 1,
        "price zero, negative or infinite": 1,
        "price in EUR, not in USD": 1,
        "not in force yet": 1,
        "a dedicated host": 1,
        "not priced by the hour": 1,
    },
    "cloudrift": {"none free": 1, "machine not in the node table": 1},
    "crusoe": {"not free to rent": 1, "price missing or not in USD": 1},
    "digitalocean": {"no region has it": 1, "not free to rent": 1},
    "gcp": {"two prices for its gpu": 8, "listed on-demand although it is only sold as spot": 3},
    "gpuhunt": {
        "listed on-demand although it is only sold as spot": 1,
        "capacity reserved for set dates": 1,
        "price zero, negative or infinite": 1,
        "no GPU named": 1,
    },
    "hot-aisle": {"price zero, negative or infinite": 1},
    "lambda": {"no region has it free": 1, "machine not in the node table": 1, "a machine without a GPU": 1},
    "linode": {"price missing or not in USD": 1, "GPU not in the catalog": 2},
    "lium": {"not free to rent": 1, "its size is not stated": 1, "memory size not stated": 1},
    "oci": {"price in EUR, not in USD": 1, "price missing or not in USD": 1, "GPU name not in the alias table": 1},
    "prime-intellect": {"not free to rent": 1, "price in EUR, not in USD": 1},
    "runpod": {"none free": 7, "a slice of a GPU": 1, "price zero, negative or infinite": 1},
    "shadeform": {"form factor not stated": 1, "no place has it free": 1},
    "skypilot": {},
    "spheron": {
        "a cluster of nodes, not one node": 1,
        "under maintenance": 1,
        "not free to rent": 1,
        "the offer's name contradicts its GPU type": 1,
    },
    "tensordock": {
        "not free to rent": 1,
        "too little memory for its GPUs": 1,
        "price missing or not in USD": 1,
    },
    "vast": {
        "a machine that the marketplace has not verified": 2,
        "not free to rent": 3,
        "a bid, not an offer": 1,
        "price zero, negative or infinite": 1,
        "memory size not stated": 1,
        "no GPU named": 1,
    },
    "verda": {"no site has it free": 5, "price zero, negative or infinite": 1, "price in EUR, not in USD": 1},
    "vultr": {"a part of a GPU": 1, "form factor not stated": 1, "no place has it": 1, "not sold on demand": 1},
}


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_recorded_answers_give_these_offers(name: str) -> None:
    placed = place(rows_of(name)).offers
    told = [
        f"{o.provider} {o.region} {o.instance_type} {o.term} {o.price_usd_per_node_hour:g}"
        + (f" {o.max_nodes:g}" if o.max_nodes is not None else "")
        for o in placed
    ]
    expected = [line.strip() for line in OFFERS[name].strip().splitlines()]
    assert sorted(_rounded(told)) == sorted(_rounded(expected))


def _rounded(lines: list[str]) -> list[str]:
    return [
        " ".join(f"{float(w):.4g}" if w.replace(".", "", 1).isdigit() else w for w in line.split()) for line in lines
    ]


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_every_other_row_is_set_aside_with_its_reason(name: str) -> None:
    reasons = place(rows_of(name)).reasons
    assert reasons == +Counter(SET_ASIDE[name])


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_rows_carry_their_source_and_day(name: str) -> None:
    rows = rows_of(name)
    assert {row.source for row in rows} == {name}
    assert all(row.seen_on <= DAY for row in rows)


def test_crusoe_rows_are_as_old_as_the_price_page() -> None:
    assert {str(row.seen_on) for row in rows_of("crusoe") if row.price_usd} == {"2026-08-22"}


def test_other_currencies_keep_their_amount_and_are_not_converted() -> None:
    euros = [row for row in rows_of("azure") if row.currency == "EUR"]
    assert [(row.price_usd, row.price_in_currency) for row in euros] == [(None, 3.4)]


def test_a_reserved_price_is_the_term_total_over_its_hours() -> None:
    reserved = {
        row.term: row.price_usd for row in rows_of("azure") if row.term.startswith("reserved") and not row.refused
    }
    assert reserved == {"reserved-1y": pytest.approx(551221 / 8760), "reserved-3y": pytest.approx(1078344 / 26280)}
