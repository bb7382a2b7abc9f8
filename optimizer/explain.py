"""Reasons in words: why another GPU lost, why one has no layout at all, and what was ruled out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from optimizer.answer import Answer
from optimizer.candidates import allowed_weights
from optimizer.capacity import LATENCIES, least_memory_share
from optimizer.plan import Alternative
from optimizer.rules import bit, bits_of_kind, broken_names, get_rule, merged, tally
from optimizer.scenario import Scenario
from optimizer.wording import gpus_words, milliseconds, rate_words

if TYPE_CHECKING:
    from optimizer.solve import Problem

Ints = NDArray[np.int64]


def ruled_out(problem: Problem) -> dict[str, int]:
    """Count the candidates (a split on a node shape) that are ruled out, each under the first rule that it breaks.

    A candidate that could be rented from several offers is counted once, under what its least hindered offer breaks.
    """
    dead, choices = problem.candidates.dead, problem.choices.frame
    early = tally(dead["broken"].to_numpy(), dead["count"].to_numpy())
    if choices.empty:
        return early
    candidate, broken = choices["candidate"].to_numpy(), choices["broken"].to_numpy()
    order = np.lexsort([broken, _bit_counts(broken), candidate])
    first = np.unique(candidate[order], return_index=True)[1]
    return merged([early, tally(broken[order][first])])


def _bit_counts(bits: Ints) -> Ints:
    return np.asarray(np.bitwise_count(bits), dtype=np.int64)


def why_lost(problem: Problem, best_row: pd.Series, best: Answer, row: pd.Series, answer: Answer) -> str:
    """Say in one line why this layout costs more than the answer: GPUs, price, and what demands them."""
    mine, theirs = answer.layout, best.layout
    gpus, best_gpus = mine.nodes * mine.gpus_per_node, theirs.nodes * theirs.gpus_per_node
    price, best_price = answer.cost.usd_per_hour / gpus, best.cost.usd_per_hour / best_gpus
    if answer.cost.usd_per_hour == best.cost.usd_per_hour:
        return f"costs the same; {tie_words(best_row, row)}"
    if gpus <= best_gpus:
        return f"${price:.2f} per GPU-hour against ${best_price:.2f}, {gpus_words(gpus)} against {best_gpus}"
    needs = what_demands(problem, row, answer)
    return f"{gpus_words(gpus)} at ${price:.2f} against {best_gpus} at ${best_price:.2f}: {needs}"


def tie_words(best_row: pd.Series, row: pd.Series) -> str:
    """Say what decides between two choices of the same cost."""
    for column, reason in (
        ("gpus_rented", "the answer rents fewer GPUs"),
        ("precision", "the answer keeps the wider precision"),
        ("pp", "the answer has fewer pipeline stages"),
        ("load_permille", "the answer has more room for the traffic"),
    ):
        if row[column] != best_row[column]:
            return reason
    return "the answer comes first by size and name"


def what_demands(problem: Problem, row: pd.Series, answer: Answer) -> str:
    """Say what keeps this GPU type from doing with fewer GPUs."""
    layout, scenario = answer.layout, problem.scenario
    if layout.replicas > 1:
        carried = rate_words(scenario, float(row["capacity"]))
        limit = limited_by(problem.scenario, row)
        return f"a replica carries {carried}{_within(scenario)} ({limit}), so {layout.replicas} are needed"
    idle = layout.nodes * layout.gpus_per_node - layout.gpus_used
    if idle:
        return f"sold {layout.gpus_per_node} to a node, of which {gpus_words(idle)} would stay idle"
    return _why_not_smaller(problem, row)


def _has_targets(scenario: Scenario) -> bool:
    return any(getattr(scenario.targets, f"{name}_ms") is not None for name in LATENCIES)


def _within(scenario: Scenario) -> str:
    """Say that a replica would carry more without the latency targets, where there are any."""
    return " within the targets" if _has_targets(scenario) else ""


def limited_by(scenario: Scenario, row: pd.Series) -> str:
    """Say what keeps a replica from running more requests at once: memory, the user's cap, or a target."""
    if row["concurrency"] >= row["memory_concurrency"]:
        return f"memory holds {int(row['memory_concurrency'])} requests at once"
    if row["concurrency"] >= scenario.limits.max_concurrency_per_replica:
        return f"at most {int(row['concurrency'])} requests at once"
    if not _has_targets(scenario):
        return f"more than {int(row['concurrency'])} requests at once deliver no more"
    return f"the latency targets hold up to {int(row['concurrency'])} requests at once"


def _why_not_smaller(problem: Problem, row: pd.Series) -> str:
    """Say why the best smaller replica on the same GPU and precision does not do: it carries less, or breaks a rule."""
    frame = problem.candidates.frame
    same = (frame["gpu"] == row["gpu"]) & (frame["weights"] == row["weights"]) & (frame["gpus"] < row["gpus"])
    smaller = frame[same]
    able = smaller[smaller["broken"] == 0]
    if not able.empty:
        most = able.loc[able["capacity"].idxmax()]
        if most["capacity"] >= problem.scenario.workload.demand:
            fewest = int(able.loc[able["capacity"] >= problem.scenario.workload.demand, "gpus"].min())
            return f"{gpus_words(fewest)} would carry the traffic, but no smaller node that may be rented costs less"
        carried = rate_words(problem.scenario, float(most["capacity"]))
        return f"a replica on {gpus_words(int(most['gpus']))} carries only {carried}{_within(problem.scenario)}"
    if smaller.empty:
        return "no smaller replica exists"
    nearest = _Reasons(problem).nearest(smaller.index.to_numpy())
    gpus = int(frame["gpus"].iloc[nearest[0]])
    return f"on {gpus_words(gpus)}, {_Reasons(problem).reason(nearest)}"


class _Reasons:
    """Why candidates break a rule, in words; the arrays are worked out once for all of them."""

    def __init__(self, problem: Problem):
        self.problem = problem
        frame = problem.candidates.frame
        self.broken = frame["broken"].to_numpy()
        self.memory_share = least_memory_share(frame, problem.scenario.memory)
        self.latency_s = {name: frame[f"alone_{name}_s"].to_numpy() for name in LATENCIES}

    def nearest(self, positions: Ints) -> Ints:
        """Return those of the candidates that break the fewest rules, the latest in rule order."""
        broken = self.broken[positions]
        order = np.lexsort([-broken, _bit_counts(broken)])
        return np.asarray(positions[broken == broken[order[0]]])

    def reason(self, positions: Ints) -> str:
        """Say with its number why all of these candidates, which break the same rules, do; by the nearest one."""
        scenario = self.problem.scenario
        rule = broken_names(int(self.broken[positions[0]]))[0]
        if rule == "vram_headroom":
            share = float(self.memory_share[positions].min())
            return f"one request needs {share:.0%} of the memory that the {scenario.memory.policy} policy allows"
        if rule in LATENCIES:
            least = float(self.latency_s[rule][positions].min()) * 1e3
            asked = getattr(scenario.targets, f"{rule}_ms")
            return f"{rule.upper()} is {milliseconds(least)} at best, over {milliseconds(asked)}"
        return f"rule {rule}: {get_rule(rule).meaning}"


def why_none(problem: Problem, shown: set[str]) -> tuple[Alternative, ...]:
    """Return, for each allowed GPU type on offer that has no feasible layout, what its best candidate breaks."""
    limits = problem.scenario.limits
    on_offer = sorted(set(problem.shapes["gpu"]) - shown - set(limits.exclude_gpus))
    wanted = [gpu for gpu in on_offer if not limits.gpus or gpu in limits.gpus]
    reasons = _Reasons(problem)
    frame = problem.candidates.frame
    gpus = frame["gpu"].to_numpy()
    within = (reasons.broken & bits_of_kind("limit")) == 0
    nothing: dict[str, Any] = dict.fromkeys(
        name
        for name, field in Alternative.model_fields.items()
        if not field.is_required() or field.annotation is not str
    )
    found = []
    for gpu in wanted:
        positions = np.nonzero(within & (gpus == gpu))[0]
        if len(positions):
            why = _why_no_layout(problem, reasons, positions)
        else:
            why = why_no_candidate(problem, problem.shapes.index[problem.shapes["gpu"] == gpu].to_numpy())
        found.append(Alternative(**nothing, gpu=gpu, summary="no layout keeps every rule", why=why))
    return tuple(found)


def _why_no_layout(problem: Problem, reasons: _Reasons, positions: Ints) -> str:
    whole = positions[reasons.broken[positions] == 0]
    if not len(whole):
        return reasons.reason(reasons.nearest(positions))
    choices = problem.choices.frame
    broken = choices["broken"].to_numpy()[np.isin(choices["candidate"].to_numpy(), whole)]
    least = int(broken[np.argmin(_bit_counts(broken))])
    return "no offer within the limits: " + ", ".join(broken_names(least))


def why_no_candidate(problem: Problem, shapes: Ints) -> str:
    """Say what keeps every split of the model off these node shapes (rows of the problem's), within the limits."""
    dead = problem.candidates.dead
    broken, count = dead["broken"].to_numpy(), dead["count"].to_numpy()
    mine = dead["shape"].isin(shapes).to_numpy() & ((broken & bits_of_kind("limit")) == 0)
    if not mine.any():
        return "nothing within the limits"
    if ((broken[mine] & bit("dtype_supported")) != 0).all():
        formats = " or ".join(allowed_weights(problem.scenario, problem.model))
        return f"it does not run {formats} weights"
    rule = broken_names(int(broken[mine][np.argmax(count[mine])]))[0]
    return f"rule {rule}: {get_rule(rule).meaning}"
