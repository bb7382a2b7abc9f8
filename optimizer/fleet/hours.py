"""What the fleet program found, by the hour of the traffic instead of by its own periods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.programs.fleet_instance import FleetAnswer

if TYPE_CHECKING:
    from optimizer.fleet.problem import FleetProblem


class Hours:
    """An answer by the hour.

    Args:
        problem: the question and what it is answered from.
        answer: what the program found.
    """

    def __init__(self, problem: FleetProblem, answer: FleetAnswer):
        self.problem, self.answer = problem, answer
        self.period_of = problem.posed.period_of_hour
        self.count = len(self.period_of)

    def nodes(self, site: int, option: int) -> tuple[int, ...]:
        """Nodes that are paid for in one way."""
        return tuple(self.answer.nodes.get((site, option, period), 0) for period in self.period_of)

    def replicas(self, kind: int) -> tuple[int, ...]:
        """Replicas of a kind."""
        return tuple(self.answer.replicas.get((kind, period), 0) for period in self.period_of)

    def rates(self, kind: int, index: int) -> tuple[float, ...]:
        """Requests/s of a class on a kind."""
        return tuple(self.answer.rates.get((kind, index, period), 0.0) for period in self.period_of)
