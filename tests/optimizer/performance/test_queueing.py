from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.performance.queueing import prefill_wait_seconds, slot_wait_seconds


def test_one_slot_is_mm1() -> None:
    """M/M/1 at load 0.8 with 2 s of service waits rho/(1-rho) x s = 0.8/0.2 x 2 = 8 s; constant service half of it."""
    assert slot_wait_seconds(0.4, 1, 2.0) == pytest.approx(8.0)
    assert slot_wait_seconds(0.4, 1, 2.0, cv2=0.0) == pytest.approx(4.0)


def erlang_c(slots: int, erlang: float) -> float:
    """The probability that an arrival waits in M/M/m, by the recursion on Erlang B."""
    blocked = 1.0
    for m in range(1, slots + 1):
        blocked = erlang * blocked / (m + erlang * blocked)
    return blocked / (1.0 - erlang / slots * (1.0 - blocked))


@pytest.mark.parametrize(("slots", "erlang"), [(1, 0.7), (2, 1.6), (10, 8.0), (64, 60.0)])
def test_sakasegawa_is_close_to_erlang_c(slots: int, erlang: float) -> None:
    """M/M/m waits C / (m - a) services exactly; the approximation stays within 10% at the loads that matter."""
    exact = erlang_c(slots, erlang) / (slots - erlang)
    assert slot_wait_seconds(erlang, slots, 1.0) == pytest.approx(exact, rel=0.10)


def test_saturation_is_an_infinite_wait() -> None:
    assert np.isinf(slot_wait_seconds([1.0, 2.0, 0.1, 0.0], [10, 10, 0, 0], 10.0)).tolist() == [True] * 4
    assert np.isinf(prefill_wait_seconds([1.0, 2.0], 1.0)).all()


def test_prefill_wait_is_md1() -> None:
    """Load 0.5 with 0.2 s prefills waits 0.2 x 0.5 / (2 x 0.5) = 0.1 s."""
    assert prefill_wait_seconds(2.5, 0.2) == pytest.approx(0.1)


@given(
    rate=st.floats(0, 100),
    more=st.floats(0, 100),
    slots=st.integers(1, 4096),
    service=st.floats(1e-3, 1e3),
)
def test_waits_grow_with_the_rate(rate: float, more: float, slots: int, service: float) -> None:
    assert 0 <= slot_wait_seconds(rate, slots, service) <= slot_wait_seconds(rate + more, slots, service)
    assert 0 <= prefill_wait_seconds(rate, service) <= prefill_wait_seconds(rate + more, service)
