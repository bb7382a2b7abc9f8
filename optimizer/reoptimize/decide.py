"""From what a look found to a verdict, so that a plan does not flap.

A switch is worth it where it saves at least `min_saving` of what the plan costs today and earns the switching cost back
within the horizon. One look is not enough: the saving has to be seen at two looks in a row, at least an hour apart, or
be twice `min_saving` at the first. A plan that cannot run as it was saved needs no second look.
"""

from __future__ import annotations

from datetime import datetime, timedelta

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
    was = None if before is None else before.verdict
    common = {"file": file, "was": was, "resolved": resolved, "figures": figures}
    now, best = figures.usd_per_hour_now, figures.best_usd_per_hour
    if best is None:
        why = f"nothing keeps every rule at these prices{_rules_of(figures)}"
        if not figures.proved:
            why = "the solver found no answer within its time limit"
            return PlanVerdict(verdict="failed", why=why, **common), None
        return PlanVerdict(verdict="infeasible", why=why, **common), None
    instead = f"{figures.best_summary} at ${best:,.2f}/hour"
    if figures.usd_per_hour_then is None:
        why = f"the saved plan had no answer; there is one now: {instead}"
        return PlanVerdict(verdict="switch", why=why, **common), None
    saving = None if now is None else round((now - best) * MICRO) / MICRO
    if saving is None or figures.breaks:
        broken = "; ".join(f"{rule}: {said}" for rule, said in figures.breaks.items())
        money = _money(saving, now, rules)
        return PlanVerdict(verdict="invalid", why=f"{broken}; best now: {instead}", **money, **common), None
    money = _money(max(saving, 0.0), now, rules)
    if saving <= 0:
        return PlanVerdict(verdict="keep", why="nothing is cheaper", **money, **common), None
    said = f"{instead} saves {_share_words(money['saving_share'])}"
    if money["saving_share"] < rules.min_saving:
        why = f"{said}, less than {_share_words(rules.min_saving)}"
        return PlanVerdict(verdict="keep", why=why, **money, **common), None
    if money["payback_hours"] > rules.horizon_hours:
        back, most = hours_words(money["payback_hours"]), hours_words(rules.horizon_hours)
        why = f"{said}, and earns ${rules.switch_cost_usd:,.0f} back in {back} only, not in {most}"
        return PlanVerdict(verdict="keep", why=why, **money, **common), None
    since = _since(before, moment)
    enough = rules.at_once or money["saving_share"] >= AT_ONCE_TIMES * rules.min_saving
    if enough or moment - since >= LOOKS_APART:
        back = hours_words(money["payback_hours"])
        why = f"{said}, and earns ${rules.switch_cost_usd:,.0f} back in {back}"
        return PlanVerdict(verdict="switch", why=why, **money, **common), since
    why = f"{said}: worth it if the next look, an hour or more from now, finds it too"
    return PlanVerdict(verdict="keep", waiting=True, why=why, **money, **common), since


def _since(before: Kept | None, moment: datetime) -> datetime:
    """Return since when a switch has been worth it at every look; a look back in time begins anew."""
    if before is None or before.worth_since is None or moment < before.moment:
        return moment
    return before.worth_since


def _money(saving: float | None, now: float | None, rules: Rules) -> dict[str, float | None]:
    if saving is None or now is None:
        return {}
    return {
        "saving_usd_per_hour": saving,
        "saving_usd_per_month": saving * HOURS_PER_MONTH,
        "saving_share": saving / now if now > 0 else 0.0,
        "payback_hours": rules.switch_cost_usd / saving if saving > 0 else None,
    }


def _rules_of(figures: Figures) -> str:
    return f": {', '.join(figures.conflict)}" if figures.conflict else ""


def _share_words(share: float | None) -> str:
    return f"{100 * (share or 0.0):.3g}%"


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
