"""What `shardwise import --json` prints: the layout that was read, and its price against the best one."""

from __future__ import annotations

from datetime import date

from optimizer.export.served import ServedLayout
from optimizer.plan import AnswerPart, Calibration, Layout
from optimizer.whatif.explain_answer import WhyNot


class Met(AnswerPart):
    """A latency that is asked for, against what is predicted; null where the layout does not reach that traffic.

    Attributes:
        at: mean or percentile that the target is on.
        target_ms, predicted_ms: asked, and predicted.
        holds: whether it is met.
    """

    name: str
    at: str
    target_ms: float
    predicted_ms: float | None
    holds: bool


class Costed(AnswerPart):
    """A layout at this traffic.

    Attributes:
        feasible: it keeps every rule of the question.
        breaks: rule -> what it asks and what is there; empty where it is feasible.
        ttft_ms, tpot_ms, e2e_ms: predicted means; null where the replicas do not carry the traffic, or do not run.
        utilization: traffic over capacity at the concurrency limit.
        concurrency_per_replica: requests at once.
    """

    summary: str
    layout: Layout
    usd_per_hour: float
    usd_per_month: float
    usd_per_million_output_tokens: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    utilization: float | None
    concurrency_per_replica: int
    targets: tuple[Met, ...]
    feasible: bool
    breaks: dict[str, str]


class ServedPrice(AnswerPart):
    """What `shardwise import --json` prints.

    Attributes:
        command: the layout that was read from it.
        layout_words: the same in the words of `shardwise explain --why-not`; empty without a GPU type.
        today: what it costs and does, on the cheapest offer that fits; null without traffic, or where none fits.
        best: the cheapest layout that works for the same question; null where nothing does.
        saving_usd_per_hour: today's cost less the best one's.
        why_not: why the best layout is not today's, as `shardwise explain` says it.
        saving_usd_per_month: what the cheapest layout saves.
    """

    kind: str = "import"
    schema_version: str = "1"
    command: ServedLayout
    layout_words: str = ""
    today: Costed | None = None
    best: Costed | None = None
    saving_usd_per_hour: float | None = None
    saving_usd_per_month: float | None = None
    why_not: WhyNot | None = None
    prices_as_of: date | None = None
    calibration: Calibration | None = None
