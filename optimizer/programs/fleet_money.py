"""What a fleet costs over its cycle, exactly, and the step that all such costs are whole multiples of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from optimizer.programs.fleet_instance import FleetInstance
from optimizer.programs.fleet_table import exact

ROUNDING = 1e-9  # relative: what a solver's floating-point bound can be off by


def cycle_hours(instance: FleetInstance) -> Fraction:
    """Hours of the whole cycle, exactly."""
    return sum(map(exact, instance.hours), Fraction(0))


def node_cost(instance: FleetInstance, site: int, option: int, period: int) -> Fraction:
    """Micro-dollars of one node: over the cycle where it is committed, else over one period."""
    one = instance.sites[site].options[option]
    hours = cycle_hours(instance) if one.committed else exact(instance.hours[period])
    return one.price_micro_usd * hours


def fleet_cost(instance: FleetInstance, nodes: Mapping[tuple[int, int, int], int]) -> Fraction:
    """Micro-dollars of the nodes (by site, option and period) over the cycle, with those that are switched on."""
    periods = range(len(instance.demand))
    total = Fraction(0)
    for site, where in enumerate(instance.sites):
        for option, one in enumerate(where.options):
            counts = [nodes.get((site, option, period), 0) for period in periods]
            if one.committed:
                total += counts[0] * node_cost(instance, site, option, 0)
                continue
            total += sum((counts[t] * node_cost(instance, site, option, t) for t in periods), Fraction(0))
            total += one.start_micro_usd * sum(max(counts[t] - counts[t - 1], 0) for t in periods)
    return total


def cost_step(costs: Iterable[Fraction]) -> Fraction:
    """Return the greatest amount of which every cost is a whole multiple; 0 where all are 0."""
    step = Fraction(0)
    for cost in costs:
        step = Fraction(
            math.gcd(step.numerator * cost.denominator, cost.numerator * step.denominator),
            step.denominator * cost.denominator,
        )
    return step


def is_proved(cost_micro_usd: float, bound_micro_usd: float | None) -> bool:
    """Whether a bound leaves no room for a cheaper fleet, but for what floating-point numbers cannot tell apart."""
    return bound_micro_usd is not None and bound_micro_usd >= cost_micro_usd * (1 - ROUNDING)
