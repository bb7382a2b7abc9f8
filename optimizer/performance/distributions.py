"""Distributions in closed form, vectorized: the normal, sums known by three cumulants, and counts of arrivals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Level = Literal["mean", "p50", "p90", "p95", "p99"]

PERCENTILES: tuple[Level, ...] = ("p50", "p90", "p95", "p99")
SHARES: dict[Level, float] = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
# Normal quantiles of SHARES.
DEVIATES: dict[Level, float] = {"p50": 0.0, "p90": 1.2815515655, "p95": 1.6448536270, "p99": 2.3263478740}

# Dispersion of counts of a renewal process with gamma intervals, over a window of x expected arrivals:
# 1 + (burstiness - 1) x^a / (x^a + b). Fitted to simulated counts at burstiness 2, 4 and 8; within 6% from x = 0.1 on.
DISPERSION_POWER = 0.6
DISPERSION_HALF = 0.6
HALVINGS = 10  # leave a thousandth of the distance between the cases of a mixture, and a straight line the rest


@dataclass(frozen=True)
class Cumulants:
    """A sum of independent parts by its mean, variance and third cumulant: those of the parts add up."""

    mean: Array
    variance: Array
    third: Array

    def __add__(self, other: Cumulants) -> Cumulants:
        return Cumulants(self.mean + other.mean, self.variance + other.variance, self.third + other.third)

    def at(self, level: Level) -> Array:
        """Return the mean or a percentile, read from the shifted lognormal that has these three cumulants."""
        if level == "mean":
            return self.mean
        deviation, sigma, unit = self._shape()
        standard = np.expm1(sigma * DEVIATES[level] - 0.5 * sigma * sigma) / unit
        return np.asarray(self.mean + deviation * standard)

    def share_below(self) -> Callable[[Array], Array]:
        """Return the function that gives the probability of at most a value."""
        deviation, sigma, unit = self._shape()
        scale = unit / np.maximum(deviation, 1e-9 * np.maximum(self.mean, 1e-9))
        shift = 0.5 * sigma * sigma

        def share(value: Array) -> Array:
            inside = np.maximum(1.0 + (value - self.mean) * scale, 1e-300)
            return normal_cdf((np.log(inside) + shift) / sigma)

        return share

    def _shape(self) -> tuple[Array, Array, Array]:
        """Return the standard deviation, and of the lognormal its sigma and its coefficient of variation."""
        deviation = np.sqrt(np.maximum(self.variance, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            skew = np.where(deviation > 0.0, self.third / deviation**3, 0.0)
        # The root w of skew = (w + 2) sqrt(w - 1), by Cardano; w = exp(sigma^2) of the lognormal.
        square = np.clip(skew, 1e-3, 50.0) ** 2
        root = np.cbrt(1.0 + 0.5 * square + np.sqrt(square + 0.25 * square * square))
        spread = root + 1.0 / root - 1.0
        return deviation, np.sqrt(np.log(spread)), np.sqrt(spread - 1.0)


@dataclass(frozen=True)
class Mixture:
    """One of several cases, each with its probability."""

    shares: tuple[Array, ...]
    parts: tuple[Cumulants, ...]

    @property
    def mean(self) -> Array:
        """The mean of the whole."""
        total = np.zeros_like(self.shares[0])
        for share, part in zip(self.shares, self.parts, strict=True):
            total += share * part.mean
        return total

    @property
    def cumulants(self) -> Cumulants:
        """Those of the whole."""
        mean = self.mean
        variance, third = np.zeros_like(mean), np.zeros_like(mean)
        for share, part in zip(self.shares, self.parts, strict=True):
            gap = part.mean - mean
            variance = variance + share * (part.variance + gap**2)
            third = third + share * (part.third + 3.0 * gap * part.variance + gap**3)
        return Cumulants(mean, variance, third)

    def at(self, level: Level) -> Array:
        """Return the mean or a percentile of the whole."""
        if level == "mean":
            return self.mean
        ends = np.array([part.at(level) for part in self.parts])
        low, high = ends.min(axis=0), ends.max(axis=0)
        cases = [part.share_below() for part in self.parts]

        def below(value: Array) -> Array:
            total = np.zeros_like(value)
            for share, case in zip(self.shares, cases, strict=True):
                total += share * case(value)
            return total - SHARES[level]

        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            inside = below(middle) < 0.0
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        under, over = below(low), below(high)
        part = np.where(over > under, -under / np.maximum(over - under, 1e-300), 0.5)
        return np.asarray(low + np.clip(part, 0.0, 1.0) * (high - low))


def lognormal(mean: Array, cv: float) -> Cumulants:
    """Return the cumulants of a lognormal of this mean and coefficient of variation."""
    deviation = mean * cv
    return Cumulants(mean, deviation**2, deviation**3 * cv * (3.0 + cv * cv))


# Gauss-Hermite nodes and weights of five points, for a standard normal.
NODES = (-2.8569700139, -1.3556261800, 0.0, 1.3556261800, 2.8569700139)
WEIGHTS = (0.0112574113, 0.2220759220, 0.5333333333, 0.2220759220, 0.0112574113)


def moments(seconds: Callable[[Array], Array], tokens: Array, cv: float) -> Cumulants:
    """Return the cumulants of a time that depends on a lognormal length.

    Args:
        seconds: the time of so many tokens.
        tokens: mean length.
        cv: coefficient of variation of the length.
    """
    if cv == 0.0:
        value = seconds(tokens)
        return Cumulants(value, np.zeros_like(value), np.zeros_like(value))
    sigma = np.sqrt(np.log1p(cv * cv))
    values = np.array([seconds(np.maximum(tokens * np.exp(sigma * node - 0.5 * sigma**2), 1.0)) for node in NODES])
    mean = np.tensordot(WEIGHTS, values, axes=1)
    apart = values - mean
    return Cumulants(mean, np.tensordot(WEIGHTS, apart**2, axes=1), np.tensordot(WEIGHTS, apart**3, axes=1))


def normal_cdf(x: Array) -> Array:
    """Return the standard normal distribution function, within 0.00002 (Abramowitz and Stegun 26.2.16 is 0.00001)."""
    t = 1.0 / (1.0 + 0.33267 * np.abs(x))
    upper = normal_density(x) * t * (0.4361836 + t * (-0.1201676 + t * 0.9372980))
    return np.asarray(np.where(x >= 0.0, 1.0 - upper, upper))


def normal_density(x: Array) -> Array:
    """Return the standard normal density."""
    return np.asarray(np.exp(-0.5 * np.square(x)) / np.sqrt(2.0 * np.pi))


def count_dispersion(expected: Array, burstiness: float) -> Array:
    """Return variance over mean of the arrivals in a window that expects so many.

    Args:
        expected: mean number of arrivals in the window.
        burstiness: squared coefficient of variation of the times between arrivals (1 Poisson).
    """
    power = np.maximum(expected, 0.0) ** DISPERSION_POWER
    return np.asarray(1.0 + (burstiness - 1.0) * power / (power + DISPERSION_HALF))
