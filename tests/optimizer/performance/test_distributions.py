from __future__ import annotations

import math

import numpy as np
import pytest

from optimizer.performance.distributions import (
    DEVIATES,
    PERCENTILES,
    SHARES,
    Cumulants,
    Mixture,
    count_dispersion,
    lognormal,
    moments,
    normal_cdf,
)

ONE = np.ones(1)


def test_the_normal_distribution_function_is_within_a_hundred_thousandth() -> None:
    points = np.linspace(-6, 6, 241)
    exact = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in points])
    assert np.abs(normal_cdf(points) - exact).max() < 1.2e-5
    assert [float(normal_cdf(np.array([DEVIATES[level]]))[0]) for level in PERCENTILES] == pytest.approx(
        [SHARES[level] for level in PERCENTILES], abs=2e-5
    )


@pytest.mark.parametrize("cv", [0.2, 0.5, 1.0, 2.0])
def test_a_lognormal_gives_back_its_own_percentiles(cv: float) -> None:
    """Mean 3: sigma^2 = ln(1 + cv^2), and a percentile is 3 exp(sigma z - sigma^2 / 2)."""
    sigma = math.sqrt(math.log1p(cv * cv))
    for level in PERCENTILES:
        exact = 3 * math.exp(sigma * DEVIATES[level] - sigma**2 / 2)
        assert float(lognormal(3 * ONE, cv).at(level)[0]) == pytest.approx(exact, rel=1e-6)


def test_without_skew_percentiles_are_those_of_the_normal() -> None:
    found = Cumulants(10 * ONE, 4 * ONE, 0 * ONE)
    assert float(found.at("p95")[0]) == pytest.approx(10 + 2 * 1.64485, rel=1e-3)
    assert float(found.at("mean")[0]) == 10


def test_a_sum_is_near_what_drawing_it_gives() -> None:
    """An exponential of mean 1 (cumulants 1, 1, 2) and a lognormal of mean 2 and cv 0.5, drawn a million times."""
    draw = np.random.default_rng(1)
    sigma = math.sqrt(math.log(1.25))
    drawn = draw.exponential(1.0, 1_000_000) + draw.lognormal(math.log(2) - sigma**2 / 2, sigma, 1_000_000)
    total = Cumulants(ONE, ONE, 2 * ONE) + lognormal(2 * ONE, 0.5)
    for level in PERCENTILES:
        assert float(total.at(level)[0]) == pytest.approx(np.quantile(drawn, SHARES[level]), rel=0.02)


def test_a_mixture_has_the_percentiles_of_its_cases() -> None:
    """Nine in ten near 1 and one in ten near 5: p50 is near 1, p95 in the middle of the second case."""
    tight = 1e-6 * ONE
    mixed = Mixture((0.9 * ONE, 0.1 * ONE), (Cumulants(ONE, tight, 0 * ONE), Cumulants(5 * ONE, tight, 0 * ONE)))
    assert float(mixed.at("p50")[0]) == pytest.approx(1, rel=0.01)
    assert float(mixed.at("p95")[0]) == pytest.approx(5, rel=0.01)
    assert float(mixed.at("mean")[0]) == pytest.approx(1.4)
    # Variance 0.9 x 0.4^2 + 0.1 x 3.6^2 = 1.44.
    assert float(mixed.cumulants.variance[0]) == pytest.approx(1.44, rel=1e-4)


def test_moments_of_a_time_over_lengths() -> None:
    """A time proportional to the length has its variation; one length gives the time itself."""
    found = moments(lambda tokens: 0.001 * tokens, 1000 * ONE, 0.5)
    assert float(found.mean[0]) == pytest.approx(1, rel=1e-3)
    assert float(found.variance[0]) == pytest.approx(0.25, rel=0.02)
    assert float(moments(lambda tokens: tokens**2, 3 * ONE, 0.0).mean[0]) == 9


@pytest.mark.parametrize("burstiness", [2.0, 4.0, 8.0])
def test_counts_of_gamma_arrivals_are_as_dispersed_as_drawn_ones(burstiness: float) -> None:
    """Variance over mean of counts in windows of 0.3 to 30 expected arrivals, within 12% of 400,000 drawn arrivals."""
    draw = np.random.default_rng(2)
    arrivals = np.cumsum(draw.gamma(1 / burstiness, burstiness, 400_000))
    for window in (0.3, 1.0, 3.0, 10.0, 30.0):
        counts = np.histogram(arrivals, bins=np.arange(0, arrivals[-1], window))[0]
        found = float(count_dispersion(np.array([window]), burstiness)[0])
        assert found == pytest.approx(counts.var() / counts.mean(), rel=0.12)


def test_poisson_counts_vary_as_much_as_they_are() -> None:
    assert count_dispersion(np.array([0.0, 0.1, 100.0]), 1.0).tolist() == [1.0, 1.0, 1.0]
