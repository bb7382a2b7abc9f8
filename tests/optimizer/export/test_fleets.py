"""Fleets read into deployments: pools, the nodes that they share, the offers that those are bought at."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from catalogs.offers import OfferTable
from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment
from optimizer.export.options import ExportOptions
from optimizer.export.plans import deployments
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import build_fleet_scenario, load_fleet_scenario
from optimizer.fleet.solve import solve_fleet
from tests.optimizer.catalogs import MEDIUM, SMALL, catalog, offer
from tests.optimizer.export.flags import parsed

EXAMPLES = Path(__file__).parents[3] / "examples"


def fleet(fields: dict[str, Any], *offers: dict[str, Any]) -> FleetPlan:
    """The fleet for a question on a small catalog."""
    table: OfferTable = catalog(*offers)
    return solve_fleet(build_fleet_scenario(fields), catalog=table)


@cache
def three_models() -> FleetPlan:
    """The example of three models on shared nodes."""
    return solve_fleet(load_fleet_scenario(EXAMPLES / "fleet-three-models.yaml"))


def read(plan: FleetPlan, **options: Any) -> dict[str, Deployment]:
    """Its deployments by name; each command is held against its engine's flags."""
    found = deployments(plan, ExportOptions(**options))
    for one in found:
        for process in one.launch.processes:
            parsed(process.command, one.launch.engine, one.launch.version)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


def test_models_that_share_nodes_have_gpus_and_ports_of_their_own() -> None:
    """Four, two and one GPU of each node of eight, the largest first."""
    found = read(three_models())
    assert list(found) == ["chat", "code", "tags"]
    at = {name: one.placements[0] for name, one in found.items()}
    assert {name: (one.units, one.gpu_indices, one.ports) for name, one in at.items()} == {
        "chat": (2, ((0, 1, 2, 3),), (8000,)),
        "code": (2, ((4, 5),), (8001,)),
        "tags": (2, ((6,),), (8002,)),
    }
    assert len({one.group for one in at.values()}) == 1
    assert "shares its nodes with code, tags" in found["chat"].context
    assert [one.replicas for one in found.values()] == [2, 2, 2]
    assert found["code"].replica.model == "Qwen/Qwen3-32B"
    assert found["code"].replica.max_model_len_tokens == 4400


def test_a_day_is_started_as_its_busiest_hour() -> None:
    """Nodes under contract first, then those by the hour: a deployment for each offer."""
    plan = fleet(
        {
            "model": MEDIUM,
            "classes": [{"name": "chat", "input_tokens": 1000, "output_tokens": 100, "request_rate": 60}],
            "profile": [0.2] * 12 + [1.0] * 12,
            "commitments": [{"years": 1, "percent_off": 40}],
            "limits": {"gpus": ["H100-SXM-80GB"], "tp": [1]},
        },
        offer("H100-SXM-80GB", 3.0),
    )
    found = read(plan)
    assert len({one.nodes.term for one in found.values()}) == len(found) == 2
    (pool,) = plan.pools
    assert sum(one.replicas for one in found.values()) == max(pool.replicas_by_period)
    contract = next(one for one in found.values() if one.nodes.term == "reserved-1y")
    assert contract.replicas == min(pool.replicas_by_period)
    assert any(
        f"{min(pool.replicas_by_period)} to {max(pool.replicas_by_period)} replicas" in line
        for line in contract.context
    )


def test_the_longest_class_of_a_pool_sets_the_longest_request() -> None:
    """A context that a class states counts; one replica may serve several classes."""
    plan = fleet(
        {
            "model": SMALL,
            "classes": [
                {"name": "short", "input_tokens": 200, "output_tokens": 50, "request_rate": 1},
                {
                    "name": "long",
                    "input_tokens": 2000,
                    "output_tokens": 50,
                    "request_rate": 0.1,
                    "context_tokens": 6000,
                },
            ],
            "fleet": {"max_kinds": 1},
        },
        offer("H100-SXM-80GB", 2.0),
    )
    (one,) = read(plan).values()
    assert one.replica.max_model_len_tokens == 6000


def test_one_checkpoint_cannot_stand_for_several_models() -> None:
    """--model is for fleets of one model."""
    with pytest.raises(QuestionError, match="several models"):
        deployments(three_models(), ExportOptions(model="/models/x"))


def test_a_name_is_numbered_by_pool() -> None:
    """Three pools of one name."""
    assert list(read(three_models(), name="prod")) == ["prod-pool-1", "prod-pool-2", "prod-pool-3"]


def test_a_fleet_without_pools_starts_nothing() -> None:
    """An infeasible fleet."""
    plan = fleet(
        {
            "model": MEDIUM,
            "classes": [{"input_tokens": 1000, "output_tokens": 100, "request_rate": 60}],
            "limits": {"budget_usd_per_hour": 0.5},
        },
        offer("H100-SXM-80GB", 3.0),
    )
    with pytest.raises(QuestionError, match="infeasible"):
        deployments(plan)
