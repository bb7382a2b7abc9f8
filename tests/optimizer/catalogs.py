"""Small catalogs and questions, made by hand or drawn from a seed, for tests that solve."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import yaml
from typer.main import get_command

from catalogs.gpus import get_gpu
from catalogs.nodes import default_fabric
from catalogs.offers import OFFER_COLUMNS, OfferTable
from optimizer.cli import app
from optimizer.flags import FIELDS, read_question
from optimizer.scenario import Scenario, build_scenario

SEEN = date(2026, 8, 14)
TODAY = date(2026, 8, 20)  # six days later

SMALL = "Qwen/Qwen2.5-0.5B-Instruct"
MEDIUM = "meta-llama/Llama-3.1-8B-Instruct"
EXPERTS = "Qwen/Qwen3-30B-A3B"

Fields = dict[str, dict[str, Any]]


def offer(gpu: str, price: float, gpus_per_node: int = 1, **facts: Any) -> dict[str, Any]:
    """One offer: so many GPUs at this price per node hour. Facts are the other columns of the table."""
    fabric, scale_up_gpus = default_fabric(get_gpu(gpu), gpus_per_node)
    fields: dict[str, Any] = {
        "provider": "acme",
        "provider_kind": "gpu-cloud",
        "region": "east",
        "instance_type": f"{gpus_per_node}x {gpu}",
        "gpu": gpu,
        "gpus_per_node": gpus_per_node,
        "fabric": fabric,
        "scale_up_gpus": scale_up_gpus,
        "network": "unknown",
        "network_gbit_per_s": float("nan"),
        "term": "on-demand",
        "price_usd_per_node_hour": price,
        "max_nodes": float("nan"),
        "seen_on": SEEN,
        "source": "by-hand",
    }
    return fields | facts


def catalog(*offers: dict[str, Any]) -> OfferTable:
    """A table of offers, sorted as the catalogs sort theirs."""
    frame = pd.DataFrame(list(offers), columns=list(OFFER_COLUMNS))
    frame = frame.astype(
        {"network_gbit_per_s": float, "max_nodes": float, "seen_on": "datetime64[ns]", "price_usd_per_node_hour": float}
    )
    names = ["price_usd_per_node_hour", "provider", "region", "instance_type", "term"]
    frame = frame.sort_values(names, kind="stable", ignore_index=True)
    return OfferTable(frame, SEEN, {"by-hand": "made for this test"}, {})


def question(sections: Fields | None = None, *, model: str = SMALL) -> Scenario:
    """4 requests/s of 1,000 tokens in and 100 out; sections change or add fields."""
    changed = dict(sections or {})
    workload = {"input_tokens": 1000, "output_tokens": 100, "request_rate": 4.0} | changed.pop("workload", {})
    return build_scenario({"model": model, "workload": workload} | changed)


@dataclass(frozen=True)
class Draw:
    """A catalog and a question about it."""

    offers: tuple[dict[str, Any], ...]
    fields: dict[str, Any]

    @property
    def table(self) -> OfferTable:
        """The catalog."""
        return catalog(*self.offers)

    @property
    def scenario(self) -> Scenario:
        """The question."""
        return build_scenario(self.fields)

    def with_limits(self, **limits: Any) -> Draw:
        """The same with some limits changed."""
        return Draw(self.offers, self.fields | {"limits": self.fields["limits"] | limits})


MODELS = (
    SMALL,
    "meta-llama/Llama-3.2-1B-Instruct",
    "meta-llama/Llama-3.2-3B-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct",
    EXPERTS,
)
GPUS = (
    "T4-16GB",
    "L4-24GB",
    "A10G-24GB",
    "L40S-48GB",
    "A100-SXM-40GB",
    "A100-SXM-80GB",
    "H100-SXM-80GB",
    "V100-SXM-16GB",
)
PRICES_PER_GPU = (0.35, 0.6, 0.75, 0.99, 1.29, 1.43, 1.9, 2.49, 2.49, 3.2)


def draw(seed: int) -> Draw:
    """Return one random catalog of three to eight offers, each of few nodes, with a question about it."""
    dice = Random(seed)
    model = dice.choice(MODELS)
    offers: dict[tuple[str, ...], dict[str, Any]] = {}
    for _ in range(dice.randint(3, 8)):
        one = _draw_offer(dice)
        offers[tuple(one[name] for name in ("provider", "region", "instance_type", "term"))] = one
    if len(offers) < 3:
        return draw(seed + 100_000)
    provider = dice.choice(sorted({one["provider"] for one in offers.values()}))
    fields = {
        "model": model,
        "workload": _draw_workload(dice, model),
        "targets": _draw_targets(dice, model),
        "limits": _draw_limits(dice, provider),
        "memory": {"policy": dice.choice(("framework", "framework", "engine"))},
    }
    if dice.random() < 0.2:
        fields["prices"] = {"discounts": [{"provider": provider, "percent": dice.choice((10, 25, 33.3))}]}
    return Draw(tuple(offers.values()), fields)


def _draw_offer(dice: Random) -> dict[str, Any]:
    gpu, count = dice.choice(GPUS), dice.choice((1, 1, 2, 2, 4))
    facts: dict[str, Any] = {
        "provider": dice.choice(("acme", "bolt")),
        "region": dice.choice(("east", "west")),
        "term": dice.choice(("on-demand", "on-demand", "spot")),
        "max_nodes": float(dice.choice((1, 2, 3, 4))),
    }
    if dice.random() < 0.5:
        facts |= {"network": "infiniband", "network_gbit_per_s": dice.choice((100.0, 400.0))}
    return offer(gpu, round(dice.choice(PRICES_PER_GPU) * count * dice.choice((1.0, 1.0, 1.1, 1.5)), 4), count, **facts)


def _draw_workload(dice: Random, model: str) -> dict[str, Any]:
    lengths = {"input_tokens": dice.choice((128, 1000, 4000)), "output_tokens": dice.choice((1, 64, 300))}
    weight = {SMALL: 4.0, EXPERTS: 0.5}.get(model, 1.0)
    kinds: tuple[dict[str, Any], ...] = (
        {"request_rate": round(dice.choice((0.1, 0.7, 2.0, 6.0, 15.0)) * weight, 3)},
        {"concurrency": dice.choice((1, 3, 7, 12, 24, 40))},
        {"output_tokens_per_second": round(dice.choice((20.0, 150.0, 600.0, 2500.0)) * weight, 3)},
    )
    held = {"context_tokens": dice.choice((8192, 20_000))} if dice.random() < 0.3 else {}
    return lengths | dice.choice(kinds) | held


def _draw_targets(dice: Random, model: str) -> dict[str, Any]:
    slow = {SMALL: 0.4}.get(model, 1.0)
    targets = {
        "ttft_ms": dice.choice((120, 300, 800, 2500)) * slow,
        "tpot_ms": dice.choice((8, 15, 30, 60)) * slow,
        "e2e_ms": dice.choice((900, 3000, 9000, 25_000)) * slow,
    }
    return {name: value for name, value in targets.items() if dice.random() < 0.4}


def _draw_limits(dice: Random, provider: str) -> dict[str, Any]:
    limits: dict[str, Any] = {
        "max_concurrency_per_replica": dice.choice((4, 8, 12)),
        "max_nodes_per_replica": dice.choice((1, 2)),
    }
    some: Sequence[tuple[float, str, Any]] = (
        (0.5, "terms", ["on-demand", "spot"]),
        (0.3, "weights", dice.choice((["any"], ["checkpoint", "fp8"], ["int8", "fp16"], ["bf16", "int4"]))),
        (0.15, "kv_cache", ["any"]),
        (0.15, "budget_usd_per_hour", dice.choice((1.0, 3.0, 8.0))),
        (0.15, "max_gpus", dice.choice((1, 2, 4, 6))),
        (0.15, "max_nodes", dice.choice((1, 2))),
        (0.15, "replicas", dice.choice(([1], [2], [1, 3], [2, 4, 8]))),
        (0.1, "tp", dice.choice(([1], [2], [1, 4]))),
        (0.1, "pp", dice.choice(([1], [2]))),
        (0.15, "max_utilization", dice.choice((0.5, 0.7, 1.0))),
        (0.1, "tp_across_nodes", True),
        (0.15, "quotas", [{"provider": provider, "max_gpus": dice.choice((1, 2, 4))}]),
        (0.1, "exclude_gpus", [dice.choice(GPUS)]),
    )
    return limits | {name: value for chance, name, value in some if dice.random() < chance}


def with_flags(scenario: Scenario, flags: str, folder: Path) -> Scenario:
    """The question with flags changed as an answer advises, read as the command reads them.

    "without --exclude-gpu X" takes a name off the question's own list.
    """
    fields = scenario.model_dump(mode="json")
    for name, value in re.findall(r"without --exclude-(gpu|provider) (\S+)", flags):
        fields["limits"][f"exclude_{name}s"].remove(value)
    flags = re.sub(r"without --exclude-(gpu|provider) \S+", "", flags)
    file = folder / "question.yaml"
    file.write_text(yaml.safe_dump(fields))
    command = get_command(app).commands["solve"]  # type: ignore[attr-defined]
    given = command.make_context("solve", [str(file), *shlex.split(flags)]).params
    return read_question(str(file), {name: given.get(name) for name in FIELDS})
