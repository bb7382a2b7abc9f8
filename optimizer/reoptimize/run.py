"""All plans at the prices of a day. A plan that cannot be looked at is reported, and stops none of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path

from catalogs.errors import CatalogError
from catalogs.offers import load_offers
from optimizer.errors import AuditError, QuestionError
from optimizer.programs.layout import Settings
from optimizer.reoptimize.answer import PlanVerdict, Reoptimization, Rules, SourceOutcome, Verdict
from optimizer.reoptimize.decide import decide
from optimizer.reoptimize.look import look_at
from optimizer.reoptimize.plans import find_plans, read_saved
from optimizer.reoptimize.prices import Catalogs, Load
from optimizer.reoptimize.state import Kept, State, read_state, write_state
from optimizer.version import __version__

Announce = Callable[[PlanVerdict], str]


def reoptimize(
    paths: Sequence[Path],
    rules: Rules,
    *,
    as_of: date | None = None,
    max_age_days: int | None = None,
    settings: Settings | None = None,
    sources: tuple[SourceOutcome, ...] = (),
    keep_state: bool = True,
    announce: Announce | None = None,
    load: Load = load_offers,
    now: datetime | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Reoptimization:
    """Look at saved plans at the prices of a day.

    Args:
        paths: plan files, or folders of them.
        rules: when a switch is worth it.
        as_of: the day; today when not given.
        max_age_days: refuse older prices than this.
        settings: how the solver runs.
        sources: what pulling prices came to, for the report.
        keep_state: read and write the state file beside the plans.
        announce: sends a changed verdict out; returns what went wrong, or "".
        load: gives the offers of a day (None: the newest) with files of the user's own.
        now: the moment of the look; the real one when not given. With `as_of` it is the start of that day.
        stop: asked before each plan; plans after it says so are left out.

    Raises:
        QuestionError: there are no plans.
    """
    real = now or datetime.now(UTC)
    moment = real if as_of is None else datetime.combine(as_of, time(), UTC)
    today = as_of or (real.date() if now else date.today())
    catalogs = Catalogs(as_of, load)
    by_folder: dict[Path, list[Path]] = {}
    for path in find_plans(paths):
        by_folder.setdefault(path.parent, []).append(path)
    found: dict[Path, PlanVerdict] = {}
    warnings: list[str] = []
    for folder, files in by_folder.items():
        state, damaged = read_state(folder) if keep_state else (State(), "")
        warnings += [damaged] if damaged else []
        kept = {name: one for name, one in state.plans.items() if (folder / name).exists()}
        for path in files:
            if stop():
                break
            before = kept.get(path.name)
            verdict, after = _one(path, catalogs, rules, today, moment, before, settings, max_age_days)
            found[path] = verdict
            if after is None:
                continue
            after, failed = _announced(verdict, after, before, announce)
            warnings += [failed] if failed else []
            kept[path.name] = after
            if keep_state and after != before and (said := write_state(folder, State(plans=kept))):
                warnings.append(said)
    return Reoptimization(
        shardwise_version=__version__,
        as_of=today,
        looked_at=real,
        rules=rules,
        sources=sources,
        plans=tuple(found.values()),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _one(
    path: Path,
    catalogs: Catalogs,
    rules: Rules,
    today: date,
    moment: datetime,
    before: Kept | None,
    settings: Settings | None,
    max_age_days: int | None,
) -> tuple[PlanVerdict, Kept | None]:
    was: Verdict | None = None if before is None else before.verdict
    try:
        saved = read_saved(path)
        look = look_at(saved, catalogs, today, before, settings, max_age_days)
    except (QuestionError, CatalogError, AuditError, RuntimeError, ArithmeticError, LookupError, TypeError) as error:
        said = str(error) if isinstance(error, (QuestionError, CatalogError)) else f"{type(error).__name__}: {error}"
        return PlanVerdict(file=str(path), verdict="failed", was=was, why=said), None
    verdict, since = decide(str(path), look.figures, rules, moment, before, look.resolved)
    if verdict.verdict == "failed":
        return verdict, None  # looked at again next time
    after = Kept(
        mark=look.mark,
        moment=moment,
        figures=look.figures,
        verdict=verdict.verdict,
        worth_since=since,
        announced=None if before is None else before.announced,
    )
    return verdict, after


def _announced(verdict: PlanVerdict, after: Kept, before: Kept | None, announce: Announce | None) -> tuple[Kept, str]:
    """Send a verdict out where it is another one than was sent last; a first "keep" is no news."""
    last = "keep" if before is None or before.announced is None else before.announced
    if announce is None or verdict.verdict == last:
        return after, ""
    failed = announce(verdict)
    return after if failed else after.model_copy(update={"announced": verdict.verdict}), failed
