"""From what a look found to a verdict, so that a plan does not flap.

A switch is worth it where it saves at least `min_saving` of what the plan costs today and earns the switching cost back
within the horizon. One look is not enough: the saving has to be seen at two looks in a row, at least an hour apart, or
be twice `min_saving` at the first. A plan that cannot run as it was saved needs no second look.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from optimizer.choices import MICRO
from optimizer.plan import HOURS_PER_MONTH
from optimizer.reoptimize.answer import Figures, PlanVerdict, Rules, Verdict
from optimizer.reoptimize.state import Kept

LOOKS_APART = timedelta(hours=1)  # running the same command twice over is one look
AT_ONCE_TIMES = 2.0  # a saving of so many times the margin needs no second look
HOURS_PER_DAY = 24


def decide(
    file: str, figures: Figures, rules: Rules, moment: datetime, before: Kept | None, resolved: bool
) -> tuple[PlanVerdict, datetime | None]:
    """Return the verdict on a plan, and since when a switch has been worth it (None where it is not).

    Args:
        file: the plan's file.
        figures: what the look found.
        rules: when a switch is worth it.
        moment: of the look.
        before: what is kept of the look before; None at the first.
        resolved: whether the plan was solved anew.
    """
    common: dict[str, Any] = {
        "file": file,
        "was": None if before is None else before.verdict,
        "resolved": resolved,
        "figures": figures,
    }
    if figures.best_usd_per_hour is None:
        return _without_answer(figures, common), None
    if figures.usd_per_hour_then is None or figures.usd_per_hour_now is None or figures.breaks:
        return _has_to_move(figures, rules, common), None
    return _may_move(figures, rules, moment, before, common)


def _without_answer(figures: Figures, common: dict[str, Any]) -> PlanVerdict:
    if not figures.proved:
        return PlanVerdict(verdict="failed", why="the solver found no answer within its time limit", **common)
    said = f": {', '.join(figures.conflict)}" if figures.conflict else ""
    return PlanVerdict(verdict="infeasible", why=f"nothing keeps every rule at these prices{said}", **common)


def _has_to_move(figures: Figures, rules: Rules, common: dict[str, Any]) -> PlanVerdict:
    instead = _instead(figures)
    if figures.usd_per_hour_then is None:
        why = f"the saved plan had no answer; there is one now: {instead}"
        return PlanVerdict(verdict="switch", why=why, **common)
    broken = "; ".join(f"{rule}: {said}" for rule, said in figures.breaks.items())
    why = f"{broken}; best now: {instead}"
    return PlanVerdict(verdict="invalid", why=why, **_money(figures, rules), **common)


def _may_move(
    figures: Figures, rules: Rules, moment: datetime, before: Kept | None, common: dict[str, Any]
) -> tuple[PlanVerdict, datetime | None]:
    common |= (money := _money(figures, rules))
    share, payback = money["saving_share"] or 0.0, money["payback_hours"]
    if payback is None:
        why = "nothing is cheaper" if figures.proved else "nothing cheaper was found within the time limit"
        return PlanVerdict(verdict="keep", why=why, **common), None
    said = f"{_instead(figures)} saves {_share_words(share)}"
    if share < rules.min_saving:
        return PlanVerdict(verdict="keep", why=f"{said}, less than {_share_words(rules.min_saving)}", **common), None
    earned = f"and earns ${rules.switch_cost_usd:,.0f} back in {hours_words(payback)}"
    if payback > rules.horizon_hours:
        why = f"{said}, {earned} only, not in {hours_words(rules.horizon_hours)}"
        return PlanVerdict(verdict="keep", why=why, **common), None
    since = _since(before, moment)
    if rules.at_once or share >= AT_ONCE_TIMES * rules.min_saving or moment - since >= LOOKS_APART:
        return PlanVerdict(verdict="switch", why=f"{said}, {earned}", **common), since
    why = f"{said}: worth it if the next look, an hour or more from now, finds it too"
    return PlanVerdict(verdict="keep", waiting=True, why=why, **common), since


def _instead(figures: Figures) -> str:
    return f"{figures.best_summary} at ${figures.best_usd_per_hour:,.2f}/hour"


def _since(before: Kept | None, moment: datetime) -> datetime:
    """Return since when a switch has been worth it at every look; a look back in time begins anew."""
    if before is None or before.worth_since is None or moment < before.moment:
        return moment
    return before.worth_since


def _money(figures: Figures, rules: Rules) -> dict[str, float | None]:
    """Return what moving saves; what moving costs more where a plan has to move."""
    now, best = figures.usd_per_hour_now, figures.best_usd_per_hour
    if now is None or best is None:
        return {"saving_share": None, "payback_hours": None}
    goes_on = figures.committed_usd_per_hour if rules.signed else 0.0
    saving = round((now - best - goes_on) * MICRO) / MICRO
    if not figures.breaks:
        saving = max(saving, 0.0)
    return {
        "saving_usd_per_hour": saving,
        "saving_usd_per_month": saving * HOURS_PER_MONTH,
        "saving_share": saving / now if now > 0 else 0.0,
        "payback_hours": rules.switch_cost_usd / saving if saving > 0 else None,
    }


def _share_words(share: float) -> str:
    return f"{100 * share:.3g}%"


def hours_words(hours: float) -> str:
    """Say a time of so many hours."""
    if hours < 48:
        return f"{hours:.3g} h"
    return f"{hours / HOURS_PER_DAY:,.3g} days" if hours < 1e6 else "more than a century"


def exit_code(verdicts: list[Verdict]) -> int:
    """Return 11 where a plan is no longer valid, else 10 where a switch is worth it, else 0; 2 where none was read."""
    if verdicts and all(one == "failed" for one in verdicts):
        return 2
    if any(one in ("invalid", "infeasible") for one in verdicts):
        return 11
    return 10 if "switch" in verdicts else 0
