"""The interface of speed backends, grids in logarithms, and tables laid over another backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.models import ModelSpec
from optimizer.performance.backends.grid import LogGrid, running_maximum
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.backends.tabled import NONE, TabledSpeed, Tables
from optimizer.performance.bands import Bands
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.operating_point import max_arrival_rate, predict_open_loop
from optimizer.performance.speed import SpeedModel
from tests.optimizer.performance.conftest import ReplicaTable

BATCHES, CONTEXTS = np.array([1.0, 4.0, 16.0]), np.array([100.0, 1000.0, 10_000.0])
# 20 ms, and a little more with requests and context.
STEPS = 0.020 * (BATCHES[:, np.newaxis] * CONTEXTS / 100.0) ** 0.05
PREFILLS = 1e-4 * CONTEXTS
WIDE = Bands({f"loop dense {size} {name}": (-0.5, 0.5) for size in ("small", "large") for name in ("tpot", "ttft")})


@pytest.fixture
def speed(llama_70b: ModelSpec, replicas: ReplicaTable) -> SpeedModel:
    """Two replicas of one kind, so that a table of the first leaves the second as it is."""
    return SpeedModel(llama_70b, replicas({}, {}))


@pytest.fixture
def tabled(speed: SpeedModel) -> TabledSpeed:
    tables = Tables("told", LogGrid(BATCHES, CONTEXTS, [STEPS]), LogGrid([1.0], CONTEXTS, [[PREFILLS]]), bands=WIDE)
    return TabledSpeed(speed, tables, np.array([0, NONE]), np.ones(2), moe=False)


def test_the_roofline_and_tables_over_it_are_backends(speed: SpeedModel, tabled: TabledSpeed) -> None:
    assert isinstance(speed, SpeedBackend)
    assert isinstance(tabled, SpeedBackend)


def test_the_roofline_answers_for_itself(speed: SpeedModel) -> None:
    assert [names.tolist() for names in speed.sources(1, 100, 100)] == [["roofline"] * 2] * 2


def test_a_table_answers_for_its_rows_and_the_other_backend_for_the_rest(
    speed: SpeedModel, tabled: TabledSpeed
) -> None:
    found = tabled.decode_step_seconds(4.0, 1000.0)

    assert found[0] == pytest.approx(STEPS[1, 1])
    assert found[1] == speed.decode_step_seconds(4.0, 1000.0)[1]
    assert tabled.sources(4.0, 1000.0, 1000.0).decode.tolist() == ["told", "roofline"]


def test_a_prefill_has_the_fixed_cost_of_a_request_on_top(speed: SpeedModel, tabled: TabledSpeed) -> None:
    assert tabled.prefill_seconds(1000.0)[0] == pytest.approx(0.1 + speed.fixed_prefill_seconds[0])


def test_between_points_logarithms_are_linear(tabled: TabledSpeed) -> None:
    """Twice the batch of 1 is half way to 4, so the step is the geometric mean of both."""
    assert tabled.decode_step_seconds(2.0, 100.0)[0] == pytest.approx(np.sqrt(STEPS[0, 0] * STEPS[1, 0]))


def test_beyond_a_table_the_other_backend_answers_but_never_below_its_edge(
    speed: SpeedModel, tabled: TabledSpeed
) -> None:
    ours = speed.decode_step_seconds(64.0, 100.0)[0]

    assert tabled.decode_step_seconds(64.0, 100.0)[0] == max(ours, STEPS[2, 0])
    assert tabled.sources(64.0, 100.0, 1e6).decode[0] == "roofline"
    assert tabled.sources(64.0, 100.0, 1e6).prefill[0] == "roofline"


def test_causes_sum_to_the_step_that_the_table_says(tabled: TabledSpeed) -> None:
    assert sum(tabled.decode_breakdown(0, 4.0, 1000.0).values()) == pytest.approx(STEPS[1, 1])


def test_a_wider_band_is_that_of_covered_rows_only(speed: SpeedModel, tabled: TabledSpeed) -> None:
    low, high = tabled.error_band("tpot", 4.0)

    assert (low[0], high[0]) == pytest.approx((np.exp(-0.5), np.exp(0.5)))
    assert high[1] == speed.error_band("tpot", 4.0)[1][1]
    assert tabled.at_confidence("tpot", 0.9)[0] == pytest.approx(np.exp(0.5))


def test_rows_taken_answer_as_they_did(tabled: TabledSpeed) -> None:
    whole, part = tabled, tabled.take(np.array([1, 0, 0]))
    at = (3.0, 500.0)

    assert part.rows == 3
    assert part.decode_step_seconds(*at).tolist() == whole.decode_step_seconds(*at)[[1, 0, 0]].tolist()
    assert part.prefill_occupancy_seconds(700.0).tolist() == whole.prefill_occupancy_seconds(700.0)[[1, 0, 0]].tolist()


def test_ranks_share_the_requests_of_a_replica(speed: SpeedModel, tabled: TabledSpeed) -> None:
    spread = TabledSpeed(speed, tabled.tables, np.array([0, NONE]), np.full(2, 4.0), moe=False)

    assert spread.decode_step_seconds(16.0, 100.0)[0] == pytest.approx(STEPS[1, 0])


def test_latencies_under_load_are_worked_out_on_tables_alike(tabled: TabledSpeed) -> None:
    loop = predict_closed_loop(tabled, 8.0, 1000, 200)
    rate = max_arrival_rate(tabled, 16, 1000, 200, tpot_target_s=0.05)
    busy = predict_open_loop(tabled, rate * 0.9, 16, 1000, 200)

    assert (loop.tpot_s > 0).all()
    assert (busy.tpot_s <= 0.05 * 1.001).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1.0, 300.0), min_size=2, max_size=2),
    st.lists(st.floats(1.0, 1e5), min_size=2, max_size=2),
)
def test_a_step_never_falls_with_requests_or_context(
    tabled_once: TabledSpeed, batches: list[float], contexts: list[float]
) -> None:
    """Inside the table, outside it, and from one to the other."""
    less = tabled_once.decode_step_seconds(min(batches), min(contexts))
    more = tabled_once.decode_step_seconds(max(batches), max(contexts))

    assert (more >= less * (1 - 1e-9)).all()


@pytest.fixture(scope="module")
def tabled_once(llama_70b: ModelSpec, replicas: ReplicaTable) -> TabledSpeed:
    """A table far above the roofline at its top, and with a corner missing."""
    steps = STEPS * 3.0
    steps[2, 2] = np.nan
    tables = Tables("told", LogGrid(BATCHES, CONTEXTS, [steps]), LogGrid([1.0], CONTEXTS, [[PREFILLS]]))
    return TabledSpeed(SpeedModel(llama_70b, replicas({})), tables, np.zeros(1, dtype=np.intp), np.ones(1), moe=False)


def test_figures_that_fall_are_raised_and_by_how_much_is_said() -> None:
    """10, 9, 12: the 9 is raised to 10, by a ninth; what is not known stays so."""
    raised, share = running_maximum(np.array([[[10.0], [9.0], [12.0]], [[1.0], [np.nan], [2.0]]]))

    assert raised[0, :, 0].tolist() == [10.0, 10.0, 12.0]
    assert np.isnan(raised[1, 1, 0])
    assert share.tolist() == pytest.approx([1 / 9, 0.0])
