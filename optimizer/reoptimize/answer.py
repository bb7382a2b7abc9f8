"""What `shardwise reoptimize --json` prints: a verdict for each saved plan. Every field is documented here."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from optimizer.fleet.plan import FleetPlan
from optimizer.plan import AnswerPart, Plan

Verdict = Literal["keep", "switch", "invalid", "infeasible", "failed"]
VERDICTS: tuple[Verdict, ...] = ("keep", "switch", "invalid", "infeasible", "failed")


class Rules(AnswerPart):
    """When a switch is worth it.

    Attributes:
        switch_cost_usd: what switching costs, once.
        min_saving: share of the plan's cost at today's prices that a switch has to save.
        horizon_hours: the switching cost has to be earned back within it.
        at_once: one look is enough; else a saving has to be seen at two looks in a row, or be twice `min_saving`.
        signed: what a plan commits to is signed or bought: it is paid on after a switch, which has to save it too.
    """

    switch_cost_usd: float = 200.0
    min_saving: float = 0.05
    horizon_hours: float = 720.0
    at_once: bool = False
    signed: bool = False


class Figures(AnswerPart):
    """What a look at a plan found; kept in the state file.

    Attributes:
        summary: the saved plan in one line; question: what it answers.
        usd_per_hour_then: what the saved plan cost when it was saved; null where it had no layout.
        usd_per_hour_now: what it costs at the prices of the day; null where one of its offers is gone.
        committed_usd_per_hour: the part of `usd_per_hour_now` that is paid whatever runs, once it is signed or bought.
        breaks: rules of the question that the saved plan breaks at the prices of the day, with their numbers; "offer"
            where an offer of it is no longer listed.
        best_summary, best_usd_per_hour: the best answer at the prices of the day; null where nothing is feasible.
        seen_on: the day that the oldest price among the plan's and the best answer's was seen.
        stale: whether that is longer ago than the question's `stale_after_days`.
        proved: whether the best answer is proved to cost least (or that nothing is feasible).
        conflict: where nothing is feasible, the rules that cannot hold together.
        notes: what else a person should know.
        replacement: the best answer whole, where it is not the saved plan.
    """

    question: str
    summary: str
    usd_per_hour_then: float | None
    usd_per_hour_now: float | None
    committed_usd_per_hour: float = 0.0
    breaks: dict[str, str] = Field(default_factory=dict)
    best_summary: str | None
    best_usd_per_hour: float | None
    seen_on: date | None = None
    stale: bool = False
    proved: bool
    conflict: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    replacement: Plan | FleetPlan | None = None


class PlanVerdict(AnswerPart):
    """The verdict on one saved plan.

    Attributes:
        file: the plan file.
        verdict: "keep"; "switch": another answer is worth it; "invalid": the plan cannot run as it was saved;
            "infeasible": nothing can; "failed": it could not be looked at.
        was: the verdict of the look before; null at the first one.
        why: the verdict in one sentence.
        resolved: whether it was solved anew; false where no price that could matter to it has changed.
        waiting: a saving that would be worth it, seen at one look only.
        saving_usd_per_hour, saving_usd_per_month: what the best answer costs less than the plan does today, less what
            is paid on (see Rules.signed); null where one of them does not exist, zero where nothing is saved.
        saving_share: of what the plan costs today.
        payback_hours: until the switching cost is earned back; null where nothing is saved.
        figures: what they rest on; null where it failed.
    """

    file: str
    verdict: Verdict
    was: Verdict | None = None
    why: str
    resolved: bool = False
    waiting: bool = False
    saving_usd_per_hour: float | None = None
    saving_usd_per_month: float | None = None
    saving_share: float | None = None
    payback_hours: float | None = None
    figures: Figures | None = None

    @property
    def changed(self) -> bool:
        """Whether the verdict is another one than at the look before; a first "keep" is no news."""
        return self.verdict != (self.was or "keep")


class SourceOutcome(AnswerPart):
    """What pulling one source of prices came to: status is "ok", "partial", "failed" or "skipped".

    Attributes:
        message: what went wrong; empty where nothing did.
    """

    name: str
    status: str
    message: str = ""


class Reoptimization(AnswerPart):
    """Saved plans at the prices of a day.

    Attributes:
        as_of: the day whose prices count; looked_at: when.
        sources: what pulling prices came to, where that was asked for.
        warnings: what went wrong on the way and stopped nothing.
        rules: when a switch is worth it.
        plans: the verdict on each plan.
    """

    schema_version: Literal["1"] = "1"
    kind: Literal["reoptimization"] = "reoptimization"
    shardwise_version: str
    as_of: date
    looked_at: datetime
    rules: Rules
    sources: tuple[SourceOutcome, ...] = ()
    plans: tuple[PlanVerdict, ...]
    warnings: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many plans got each verdict."""
        return {name: sum(one.verdict == name for one in self.plans) for name in VERDICTS}
