from __future__ import annotations

import numpy as np
import pytest

from optimizer.performance.queueing import SlotWait, slot_wait


def erlang_c(slots: int, erlang: float) -> float:
    """The probability that an arrival waits in M/M/m, by the recursion on Erlang B."""
    blocked = 1.0
    for m in range(1, slots + 1):
        blocked = erlang * blocked / (m + erlang * blocked)
    return blocked / (1.0 - erlang / slots * (1.0 - blocked))


def markov(slots: float, erlang: float, **cv2: float) -> SlotWait:
    """A service of 1 s that does not grow with load: a Poisson number in flight."""
    one = np.ones(1)
    return slot_wait(erlang * one, np.sqrt(erlang) * one, slots * one, erlang * one, slots * one, **cv2)


@pytest.mark.parametrize(("slots", "erlang"), [(2, 1.6), (10, 8.0), (64, 55.0), (256, 240.0)])
def test_it_is_close_to_erlang_c(slots: int, erlang: float) -> None:
    """In M/M/m an arrival waits with probability C, here within 10%, and then 1 / (m - a) services, here exactly."""
    found = markov(slots, erlang)
    assert float(found.share[0]) == pytest.approx(erlang_c(slots, erlang), rel=0.10)
    assert float(found.if_any_s[0]) == pytest.approx(1 / (slots - erlang))


def test_it_is_a_few_in_a_thousand_off_where_hardly_anyone_waits() -> None:
    """Ten slots at half load: 3.6% wait; the normal says 2.9%."""
    assert float(markov(10, 5.0).share[0]) == pytest.approx(erlang_c(10, 5.0), abs=0.01)


def test_equal_requests_wait_half_as_long_and_bursts_longer() -> None:
    """Kingman: a wait is proportional to (ca2 + cs2) / 2: 1 for M/M, 1/2 for M/D, 2.5 for bursts of 4."""
    factors = [
        float((markov(10, 8.0, arrivals_cv2=ca2, slot_cv2=cs2).if_any_s / markov(10, 8.0).if_any_s)[0])
        for ca2, cs2 in ((1, 1), (1, 0), (4, 1))
    ]
    assert factors == pytest.approx([1.0, 0.5, 2.5])


def test_percentiles_of_the_wait_follow_from_its_share() -> None:
    """One in ten waits 2 s on average: p50 and p90 are 0, p95 is 2 ln(0.1 / 0.05) = 1.386 s, the mean 0.2 s."""
    wait = SlotWait(np.array([0.1]), np.array([2.0]))
    assert [float(wait.at(level)[0]) for level in ("p50", "p90", "p95")] == pytest.approx([0.0, 0.0, 1.386], abs=1e-3)  # type: ignore[arg-type]
    assert float(wait.mean_s[0]) == pytest.approx(0.2)


def test_a_wait_adds_to_a_percentile_as_independent_parts_do() -> None:
    """Mean 1, p95 at 4, a wait of 4 at p95: 1 + sqrt(3^2 + 4^2) = 6; below the mean the wait is added as it is."""
    wait = SlotWait(np.ones(1), np.ones(1))
    mean, high, low, waited = (np.array([value]) for value in (1.0, 4.0, 0.5, 4.0))
    assert float(wait.add(mean, high, waited)[0]) == pytest.approx(6.0)
    assert float(wait.add(mean, low, waited)[0]) == pytest.approx(4.5)


def test_saturation_is_an_infinite_wait_of_everyone() -> None:
    for slots, erlang in ((10.0, 10.0), (10.0, 12.0), (0.0, 1.0)):
        found = markov(slots, erlang)
        assert float(found.share[0]) == 1.0
        assert np.isinf(found.mean_s).all()
        assert np.isinf(found.at("p50")).all()


def test_nobody_waits_where_nobody_comes() -> None:
    found = markov(10.0, 1e-9)
    assert float(found.mean_s[0]) == pytest.approx(0.0, abs=1e-12)
    assert float(found.at("p99")[0]) == 0.0
