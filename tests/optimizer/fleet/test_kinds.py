"""What replica kinds carry of each class, which of them are needed, and how a pool does at its mix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catalogs.models import load_model
from optimizer.candidates import build_candidates, node_shapes
from optimizer.fleet.instance import pose_fleet
from optimizer.fleet.kinds import ModelKinds, model_kinds, no_tighter, target_sets
from optimizer.fleet.mix import Part, at_mix
from optimizer.fleet.question import FleetScenario, build_fleet_scenario
from optimizer.fleet.sites import rental_sites
from optimizer.fleet.traffic import Traffic, read_traffic
from optimizer.performance.simulator import Requests, simulate
from optimizer.scenario import Targets
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, catalog, offer

SHORT = {"name": "short", "input_tokens": 300, "output_tokens": 100, "request_rate": 4}
LONG = {"name": "long", "input_tokens": 6000, "output_tokens": 400, "request_rate": 1}


def kinds_of(*offers: dict[str, Any], **fields: Any) -> tuple[FleetScenario, Traffic, ModelKinds]:
    scenario = build_fleet_scenario({"model": MEDIUM, "classes": [SHORT, LONG]} | fields)
    traffic = read_traffic(scenario)
    shapes = node_shapes(catalog(*offers).frame)[0]
    return scenario, traffic, model_kinds(scenario, 0, load_model(fields.get("model", MEDIUM)), traffic.demands, shapes)


def test_a_kind_carries_of_a_class_what_one_layout_would() -> None:
    scenario, traffic, kinds = kinds_of(offer("H100-SXM-80GB", 2.0), targets={"ttft_ms": 2000, "tpot_ms": 40})
    shapes = node_shapes(catalog(offer("H100-SXM-80GB", 2.0)).frame)[0]
    for column, demand in enumerate(traffic.demands):
        one = scenario.class_scenario(scenario.traffic[0], demand.traffic, demand.targets)
        alone = build_candidates(one, load_model(MEDIUM), shapes).frame
        row = alone[alone["gpus"] == 1].iloc[0]
        assert kinds.rates[0, column] == row["capacity"]
        assert kinds.concurrency[0, column] == row["concurrency"]


def test_a_class_longer_than_the_models_context_is_carried_by_nothing() -> None:
    endless = LONG | {"input_tokens": 200_000}
    _, _, kinds = kinds_of(offer("H100-SXM-80GB", 2.0, 8), classes=[SHORT, endless])
    assert (kinds.rates[:, 0] > 0).all()
    assert (kinds.rates[:, 1] == 0).all()


def test_a_replica_of_looser_targets_does_not_serve_a_class_of_tighter_ones() -> None:
    loose, tight = Targets(tpot_ms=80), Targets(tpot_ms=20, ttft_ms=900)
    assert no_tighter(tight, loose)
    assert not no_tighter(loose, tight)
    assert no_tighter(tight, Targets())
    assert not no_tighter(Targets(tpot_ms=20, at="p95"), Targets(tpot_ms=20))
    both = target_sets([loose, Targets(ttft_ms=500)])
    assert both[-1] == Targets(tpot_ms=80, ttft_ms=500)  # the tightest of all together is a set of its own


def test_kinds_are_there_for_each_set_of_targets() -> None:
    tight = SHORT | {"targets": {"tpot_ms": 8}}
    _, _, kinds = kinds_of(offer("H100-SXM-80GB", 2.0), classes=[tight, LONG], targets={"tpot_ms": 60})
    by_set = {int(number): kinds.rates[kinds.table["targets"] == number] for number in kinds.table["targets"]}
    at_8, at_60 = (next(i for i, one in enumerate(kinds.targets) if one.tpot_ms == ms) for ms in (8, 60))
    assert (by_set[at_60][:, 0] == 0).all()  # the loose set may not serve the tight class
    assert (by_set[at_8][:, 0] > 0).all()
    assert by_set[at_60][:, 1].max() > by_set[at_8][:, 1].max()  # and carries more of the loose one


def test_no_kind_stays_that_smaller_ones_on_the_same_gpus_outdo() -> None:
    _, _, kinds = kinds_of(offer("H100-SXM-80GB", 16.0, 8), classes=[SHORT], targets={"tpot_ms": 60})
    gpus = kinds.table["gpus"].to_numpy()
    for i in range(len(gpus)):
        for j in range(len(gpus)):
            if i != j and gpus[i] % gpus[j] == 0:
                assert (gpus[i] // gpus[j] * kinds.rates[j] < kinds.rates[i]).any()


def test_equal_hours_are_one_period_unless_their_order_matters() -> None:
    offers = (offer("L4-24GB", 1.0),)
    fields = {"profile": [1.0, 0.5] * 12, "model": SMALL}
    found = {}
    for name, fleet in (("free", {"startup_s": 0, "billing_s": 1}), ("costly", {"startup_s": 600})):
        scenario, traffic, kinds = kinds_of(*offers, **fields, fleet=fleet)
        frame = catalog(*offers).frame
        one = scenario.class_scenario(scenario.traffic[0], traffic.demands[0].traffic, scenario.targets)
        sites = rental_sites(scenario, one, frame, node_shapes(frame)[1], traffic.demands, TODAY)
        found[name] = pose_fleet(scenario, traffic, (kinds,), sites).instance.hours
    assert found == {"free": (12.0, 12.0), "costly": (1.0,) * 24}


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_pool_at_its_mix_does_what_the_simulator_does(share: float) -> None:
    """A replica that gives each class a part of its time: predicted means against continuous batching, replayed.

    TTFT is within two fifths of it at these loads of 80% and more, where waiting for a slot is most of it.
    """
    table = catalog(offer("H100-SXM-80GB", 2.0))
    _, traffic, kinds = kinds_of(offer("H100-SXM-80GB", 2.0), targets={"ttft_ms": 2000, "tpot_ms": 30})
    row = int(np.argmax(kinds.rates.sum(axis=1)))
    shares = (share, 1 - share)
    parts = [
        Part(demand, float(kinds.rates[row, i]) * shares[i], float(kinds.rates[row, i]), int(kinds.concurrency[row, i]))
        for i, demand in enumerate(traffic.demands)
    ]
    scenario = next(one for one in kinds.scenarios[0] if one is not None)
    mix = at_mix(kinds, row, parts, 1, scenario, 0, table.frame)
    dice, seconds = np.random.default_rng(3), 400.0
    counts = [dice.poisson(part.rate * seconds) for part in parts]
    arrival = np.concatenate([dice.uniform(0, seconds, count) for count in counts])
    which = np.repeat([0, 1], counts)
    order = np.argsort(arrival)
    which = which[order]
    lengths = [(part.demand.traffic.input_tokens, part.demand.traffic.output_tokens) for part in parts]
    done = simulate(
        kinds.candidates.speed.take(kinds.table["replica"].to_numpy()[[row]]),
        Requests(arrival[order], *(np.array(column)[which] for column in zip(*lengths, strict=True))),
        slots=mix.concurrency,
        replicas=1,
        kv_tokens=float(mix.memory.kv_tokens),
        step_tokens=8192.0,
    )
    assert all(mix.holds)
    for position in (0, 1):
        mine = which == position
        found = mix.latencies_ms[position]
        assert found["tpot"] == pytest.approx(float(np.nanmean(done.tpot_s[mine])) * 1e3, rel=0.15)
        assert found["ttft"] == pytest.approx(float(np.nanmean(done.ttft_s[mine])) * 1e3, rel=0.4)
        assert found["tpot"] <= 30 * 1.001
