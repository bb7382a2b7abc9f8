"""A front as an answer: what `shardwise pareto --json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from optimizer.display import flat
from optimizer.plan import AnswerPart, Layout

if TYPE_CHECKING:
    import pandas as pd

Objective = Literal["cost", "tpot", "ttft", "e2e", "throughput"]

OBJECTIVES: tuple[Objective, ...] = ("cost", "tpot", "ttft", "e2e", "throughput")
BY_DEFAULT: tuple[Objective, ...] = ("cost", "tpot", "ttft")
COLUMNS: dict[Objective, str] = {
    "cost": "cost_micro_usd",
    "tpot": "tpot_ms",
    "ttft": "ttft_ms",
    "e2e": "e2e_ms",
    "throughput": "traffic",
}
LATENCY: tuple[Objective, ...] = ("tpot", "ttft", "e2e")


class FrontPoint(AnswerPart):
    """A layout that none up to its cost beats in every objective.

    Attributes:
        tpot_ms, ttft_ms, e2e_ms: at the scenario's traffic, at the level and the confidence that targets are held at.
        most_traffic: the most that the layout carries within every rule and target, in the unit of the workload.
        best_in: objectives in which no other point is better.
        knee: this is the best step up from the cheapest (see Front).
    """

    usd_per_hour: float
    tpot_ms: float
    ttft_ms: float
    e2e_ms: float
    most_traffic: float
    best_in: tuple[Objective, ...]
    knee: bool
    summary: str
    layout: Layout


class Front(AnswerPart):
    """Every layout that no other one beats; what `shardwise pareto --json` prints.

    Attributes:
        objectives: what layouts are compared by: cost and latencies, the less the better; throughput, the more.
        at, confidence: what latencies are: means or a percentile, and the probability with which they hold.
        traffic_kind: the unit of `most_traffic`: request_rate, concurrency or output_tokens_per_second.
        up_to_usd_per_hour: layouts up to this cost were compared. Null when infeasible.
        compared: how many layouts were: every number of every replica, each on its cheapest offer.
        points: the front, cheapest first. Of layouts alike in every objective it holds one.
        knee: position among the points of the best step up from the cheapest: of those at least a tenth better than
            it (in the geometric mean of latencies, and of throughput, looked at), the one that gains most per dollar,
            both in proportion: log of the gain over log of the cost. The cheapest, where none is as much better.
        warnings: what to know before relying on it.
    """

    schema_version: Literal["1"] = "1"
    shardwise_version: str
    status: Literal["complete", "infeasible"]
    scenario: dict[str, Any]
    objectives: tuple[Objective, ...]
    at: str
    confidence: float | None
    traffic_kind: str
    up_to_usd_per_hour: float | None
    compared: int
    points: tuple[FrontPoint, ...]
    knee: int | None
    warnings: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return the front as a table, a row a point, with the columns of their layouts."""
        import pandas as pd  # noqa: PLC0415  answers are read without tables

        return pd.DataFrame([flat(point) for point in self.points])
