"""What budgets buy, as an answer: what `shardwise whatif budget --json` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from optimizer.display import flat
from optimizer.plan import AnswerPart, Layout

if TYPE_CHECKING:
    import pandas as pd

Maximized = Literal["traffic", "context", "latency", "precision"]
MAXIMIZED: tuple[Maximized, ...] = ("traffic", "context", "latency", "precision")


class Binding(AnswerPart):
    """A rule that holds an answer back: without it alone, the same budget buys more. Found by asking again without it.

    Attributes:
        rule: its name, as in `shardwise solve`.
        words: what it asks for.
        value, said: what the budget buys without it; null and "more" where that was not worked out.
    """

    rule: str
    words: str
    value: float | None
    said: str


class Margin(AnswerPart):
    """What the next dollars buy: the least budget at which the answer gets better, and the gain there per dollar.

    Attributes:
        gain_per_usd: in the unit of the value, per dollar an hour above the budget.
        tokens_per_usd: output tokens more per dollar more; null for what is no traffic.
        value: what that budget buys.
        said: the same, in words.
    """

    usd_per_hour: float
    value: float
    said: str
    gain_per_usd: float
    tokens_per_usd: float | None


class Bought(AnswerPart):
    """The most that a budget buys of one thing.

    Attributes:
        what: traffic, context, tpot, ttft or precision.
        value, unit, said: how much; value is null where the budget buys none.
        usd_per_hour, summary, layout: the cheapest layout that reaches it; null where the budget buys none.
        tokens_per_usd: output tokens per dollar on that layout.
        confirmed_by: "solve" where the value was asked back as a question of its own, proved and audited; "audit" where
            it is the best of the whole table of layouts within the budget, and its layout was audited.
        same_as_usd_per_hour: a smaller budget that buys the same on the same layout.
        binds: what holds the answer back, the budget first where more money buys more.
        next: what the next dollars buy; null where no more money does (or none up to 16 times the budget, for a latency
            that is lower by at least 0.1%).
        least_usd_per_hour: the least budget that buys any; null where none does.
    """

    what: str
    value: float | None
    unit: str
    said: str
    usd_per_hour: float | None = None
    summary: str | None = None
    layout: Layout | None = None
    tokens_per_usd: float | None = None
    confirmed_by: str | None = None
    same_as_usd_per_hour: float | None = None
    binds: tuple[Binding, ...] = ()
    next: Margin | None = None
    least_usd_per_hour: float | None = None


class BudgetAnswer(AnswerPart):
    """What one budget buys, and whether it pays for the scenario as it is asked.

    Attributes:
        enough: it pays for the scenario as it is asked.
        bought: the most of each thing.
    """

    usd_per_hour: float
    enough: bool
    bought: tuple[Bought, ...]


class BudgetReport(AnswerPart):
    """What `shardwise whatif budget --json` prints.

    Attributes:
        scenario: the question; each budget takes the place of its own.
        at, confidence: what latencies are: means or a percentile, and the probability with which they hold.
        least_usd_per_hour: the least cost of the scenario as it is asked; null where it has no answer at any.
        maximize: what the most was looked for of.
        budgets: what each budget buys.
    """

    schema_version: Literal["1"] = "1"
    shardwise_version: str
    scenario: dict[str, Any]
    maximize: tuple[Maximized, ...]
    at: str
    confidence: float | None
    least_usd_per_hour: float | None
    budgets: tuple[BudgetAnswer, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each budget and thing that it buys the most of."""
        import pandas as pd  # noqa: PLC0415  answers are read without tables

        rows = [
            {"budget_usd_per_hour": answer.usd_per_hour} | flat(one) for answer in self.budgets for one in answer.bought
        ]
        return pd.DataFrame(rows).drop(columns="binds", errors="ignore")
