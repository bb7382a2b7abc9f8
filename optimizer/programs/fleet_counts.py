"""The whole numbers that a fleet consists of, as a solver or a search found them."""

from __future__ import annotations


class Counts:
    """The whole numbers of a fleet, and the shares as the solver had them.

    Attributes:
        nodes, replicas, shares, filled: as the model's, with values.
        settled: whether every replica is needed.
    """

    def __init__(
        self,
        nodes: dict[tuple[int, int, int], int],
        replicas: dict[tuple[int, int], int],
        shares: dict[tuple[int, int, int], float],
        filled: dict[tuple[int, int], list[tuple[dict[int, int], int]]],
        *,
        settled: bool = False,
    ):
        self.nodes, self.replicas, self.shares, self.filled = nodes, replicas, shares, filled
        self.settled = settled

    def site_nodes(self, site: int, period: int) -> int:
        """Nodes of a site that are paid for in a period."""
        return sum(count for (s, _, t), count in self.nodes.items() if (s, t) == (site, period))
