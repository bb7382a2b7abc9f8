from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from catalogs.models import ModelSpec
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.open_loop import Variability
from optimizer.performance.simulator import Requests, StepTimes, simulate
from optimizer.performance.speed import CHUNK_TOKENS, SpeedModel
from tests.optimizer.performance.traffic import random_requests

ReplicaTable = Callable[..., pd.DataFrame]


@pytest.fixture(scope="module")
def speed(llama_70b: ModelSpec, replicas: ReplicaTable) -> SpeedModel:
    """Two H200, and four of them in two pipeline stages."""
    return SpeedModel(llama_70b, replicas({}, {"tp": 2, "pp": 2}))


def requests(*rows: tuple[float, int, int]) -> Requests:
    """Requests as (arrival, tokens in, tokens out)."""
    arrival, inputs, outputs = zip(*rows, strict=True)
    return Requests(np.array(arrival, dtype=float), np.array(inputs), np.array(outputs))


@pytest.mark.parametrize("row", [0, 1])
def test_a_lone_request_is_what_the_speed_model_says(speed: SpeedModel, row: int) -> None:
    """Prefill, then 299 decode steps whose context grows from 2,000: within 0.1% of steps at the mean context."""
    done = simulate(speed, requests((5.0, 2000, 300)), slots=8, row=row)
    alone = predict_closed_loop(speed, 1, 2000, 300)
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        assert getattr(done, name)[0] == pytest.approx(getattr(alone, name)[row], rel=1e-3)


def step_by_step(times: StepTimes, wanted: Requests, slots: int, budget: float) -> tuple[list[float], list[float]]:
    """First and last token of each request, by a loop over every step: the simulator's rules, none of its code."""
    count = len(wanted.arrival_s)
    ready = [float(arrival) + times.fixed_s for arrival in wanted.arrival_s]
    prompt = [int(tokens) for tokens in wanted.input_tokens]
    left = [int(tokens) for tokens in wanted.output_tokens]
    context = [0] * count
    first, last, started = [0.0] * count, [0.0] * count, [0.0] * count
    running: list[int] = []
    coming = list(range(count))
    now = 0.0
    while coming or running:
        if not running and ready[coming[0]] > now:
            now = ready[coming[0]]
        while coming and ready[coming[0]] <= now and len(running) < slots:
            running.append(coming.pop(0))
        decoding = [one for one in running if prompt[one] == 0]
        seconds = times.decode(len(decoding), sum(context[one] for one in decoding) / len(decoding)) if decoding else 0
        room, begun, ended = max(budget - len(decoding), 1), now, []
        for one in (one for one in running if prompt[one] > 0):
            if room <= 0:
                break
            if context[one] == 0:
                started[one] = begun
            chunk = int(min(room, prompt[one]))
            cost = times.occupancy if seconds else times.alone
            seconds += cost(context[one] + chunk) - cost(context[one])
            context[one], prompt[one], room = context[one] + chunk, prompt[one] - chunk, room - chunk
            ended += [one] if prompt[one] == 0 else []
        now += seconds
        for one in [*decoding, *ended]:
            context[one] += 1
            left[one] -= 1
            if one in ended:
                first[one] = max(now, started[one] + times.alone(float(wanted.input_tokens[one])))
            if left[one] == 0:
                last[one] = now if one not in ended else first[one]
                running.remove(one)
    return first, last


@pytest.mark.parametrize(
    ("slots", "budget", "rate"), [(4, CHUNK_TOKENS, 1.0), (32, 512.0, 3.0), (32, CHUNK_TOKENS, 6.0)]
)
def test_leaps_give_what_single_steps_give(speed: SpeedModel, slots: int, budget: float, rate: float) -> None:
    """150 unlike requests: first and last tokens within half a percent of a loop over every step."""
    wanted = random_requests(150, rate, 800, 60, Variability(2.0, 1.0, 1.0), seed=3)
    done = simulate(speed, wanted, slots=slots, step_tokens=budget)
    longest = int((wanted.input_tokens + wanted.output_tokens).max())
    first, last = step_by_step(StepTimes(speed, 0, slots, longest), wanted, slots, budget)
    assert done.ttft_s + wanted.arrival_s == pytest.approx(first, rel=0.005)
    assert done.e2e_s + wanted.arrival_s == pytest.approx(last, rel=0.005)


def test_one_slot_is_a_queue_with_constant_service(speed: SpeedModel) -> None:
    """M/D/1 at load 0.7 waits rho / (2 (1 - rho)) = 1.167 services on average; 30,000 requests, within 8%."""
    service = float(predict_closed_loop(speed, 1, 500, 50).e2e_s[0] - speed.fixed_prefill_seconds[0])
    done = simulate(speed, random_requests(30_000, 0.7 / service, 500, 50, seed=4), slots=1)
    assert done.waited_s.mean() / service == pytest.approx(0.7 / 0.6, rel=0.08)
    assert float(done.busy_s[0]) / done.end_s == pytest.approx(0.7, rel=0.02)


def test_all_at_once_goes_in_order_of_arrival(speed: SpeedModel) -> None:
    done = simulate(speed, requests(*[(0.0, 4000, 20)] * 12), slots=4)
    assert (np.diff(done.ttft_s) >= 0).all()
    assert (done.waited_s[:4] == 0).all()
    assert (done.waited_s[4:] > 0).all()


def test_kv_cache_holds_back_what_slots_would_take(speed: SpeedModel) -> None:
    """Room for 2,500 tokens and requests of 1,100: two at a time, though there are eight slots. The third waits."""
    wanted = requests(*[(0.0, 1000, 100)] * 3)
    tight = simulate(speed, wanted, slots=8, kv_tokens=2500)
    assert tight.waited_s[1] == 0
    assert tight.waited_s[2] == pytest.approx(tight.e2e_s[0] - speed.fixed_prefill_seconds[0])
    assert (simulate(speed, wanted, slots=8, kv_tokens=3300).waited_s == 0).all()


def test_what_can_never_fit_is_refused_and_holds_nobody_up(speed: SpeedModel) -> None:
    done = simulate(speed, requests((0.0, 5000, 10), (0.0, 100, 10)), slots=8, kv_tokens=1000)
    assert done.refused.tolist() == [True, False]
    assert np.isnan(done.ttft_s[0])
    assert done.ttft_s[1] > 0


def test_one_output_token_ends_with_the_prompt(speed: SpeedModel) -> None:
    done = simulate(speed, requests((0.0, 1000, 1)), slots=8)
    assert done.ttft_s[0] == done.e2e_s[0]
    assert np.isnan(done.tpot_s[0])


def test_a_long_prompt_goes_in_chunks_between_which_others_decode(speed: SpeedModel) -> None:
    """A 6,000-token prompt in chunks of 500 lets a running request go on: its longest gap is far below the prompt."""
    wanted = requests((0.0, 100, 400), (1.0, 6000, 10))
    whole, parts = (simulate(speed, wanted, slots=8, step_tokens=tokens) for tokens in (CHUNK_TOKENS, 500.0))
    assert parts.ttft_s[1] > whole.ttft_s[1]
    assert parts.tpot_s[1] < whole.ttft_s[1]


def test_replicas_share_the_requests(speed: SpeedModel) -> None:
    """Four equal requests at once on four replicas: one each, both ways; each is as if it were alone."""
    wanted = requests(*[(0.0, 1000, 100)] * 4)
    alone = simulate(speed, requests((0.0, 1000, 100)), slots=8)
    for balancing in ("round_robin", "least_loaded"):
        done = simulate(speed, wanted, slots=8, replicas=4, balancing=balancing)  # type: ignore[arg-type]
        assert sorted(done.replica.tolist()) == [0, 1, 2, 3]
        assert done.e2e_s == pytest.approx(alone.e2e_s[0])


def test_the_least_loaded_replica_is_not_behind_a_long_answer(speed: SpeedModel) -> None:
    """One slot each, and every other request long: in turn, all long ones queue on one replica; least loaded, not."""
    rows = [(0.3 * index, 500, 400 if index % 2 == 0 else 4) for index in range(40)]
    turns, least = (
        simulate(speed, requests(*rows), slots=1, replicas=2, balancing=way)  # type: ignore[arg-type]
        for way in ("round_robin", "least_loaded")
    )
    assert least.waited_s.mean() < 0.8 * turns.waited_s.mean()


def test_time_and_requests_are_conserved(speed: SpeedModel) -> None:
    """Little's law holds exactly: requests in flight over time are the sum of what each spent in its slot."""
    wanted = random_requests(2000, 2.0, 1000, 200, Variability(3.0, 0.5, 0.5), seed=5)
    done = simulate(speed, wanted, slots=16, replicas=2)
    held = done.e2e_s - done.waited_s - speed.fixed_prefill_seconds[0]
    # Between its arrival and the end of the step that runs, a request has no slot yet.
    assert float(done.batch_seconds.sum()) == pytest.approx(float(held.sum()), rel=0.01)
    assert (done.busy_s <= done.end_s).all()
    assert np.isfinite(done.e2e_s).all()


def test_nothing_to_serve_is_refused(speed: SpeedModel) -> None:
    nothing = Requests(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    with pytest.raises(ValueError, match="Expected requests, slots and replicas, got 0, 8 and 1"):
        simulate(speed, nothing, slots=8)
