"""Which rules of a fleet cannot hold together: a set of them from which none can be left out."""

from __future__ import annotations

from dataclasses import replace

from optimizer.programs.fleet_instance import UNLIMITED, FleetInstance
from optimizer.programs.fleet_solve import solve_fleet
from optimizer.programs.fleet_table import read_instance
from optimizer.programs.layout import Settings
from optimizer.programs.mathopt_outcome import Deadline


def conflicting_rules(instance: FleetInstance, settings: Settings | None = None) -> tuple[str, ...]:
    """Return names of rules that cannot all hold, from which none can be left out; empty when all can hold.

    Each rule is left out in turn, on a model without an objective, and stays out where the others still conflict; the
    last solve is of the core alone. "traffic" becomes "traffic:INDEX" where the demand of that one class is enough.
    Where the solver runs out of time on whether a rule can be left out, the rule stays.

    Raises:
        QuestionError: replicas can share a node in too many ways to be packed exactly.
        RuntimeError: the solver ran out of time before it found any conflict, or the core did not conflict alone.
    """
    search = _Search(instance, settings or Settings())
    names = rule_names(instance)
    if search.feasible(names, strict=True):
        return ()
    core = list(names)
    for name in names:
        fewer = [other for other in core if other != name]
        if not search.feasible(fewer):
            core = fewer
    if search.feasible(core):
        raise RuntimeError(f"the conflict {core} did not hold when solved alone")
    if "traffic" in core:
        alone = search.class_alone(core)
        core = [f"traffic:{alone}" if name == "traffic" and alone is not None else name for name in core]
    return tuple(core)


def rule_names(instance: FleetInstance) -> tuple[str, ...]:
    """Return the names of the rules that an instance has; a later one is rather kept in a conflict."""
    asked = {
        "survive": instance.survive != "nothing",
        "spot_share": instance.max_spot_share < 1,
        "min_providers": instance.min_providers > 1,
        "min_regions": instance.min_regions > 1,
        "max_kinds": instance.max_kinds is not None,
        "max_kinds_per_group": instance.max_kinds_per_group is not None,
        "stock": any(option.node_cap < UNLIMITED for site in instance.sites for option in site.options),
    }
    names = [name for name, there in asked.items() if there]
    names += dict.fromkeys(limit.name for limit in instance.limits)
    names += ["budget"] if instance.budget_micro_usd is not None else []
    return (*names, "traffic")


class _Search:
    """Asks whether some of the rules can hold together."""

    def __init__(self, instance: FleetInstance, settings: Settings):
        self.instance = instance
        self.settings = settings
        self.names = rule_names(instance)

    def feasible(self, names: list[str] | tuple[str, ...], *, only: int | None = None, strict: bool = False) -> bool:
        """Whether these rules can hold together; of the classes, `only` one where given.

        Where the solver runs out of time they are taken to; with `strict` that is an error.
        """
        instance = self._without_caps() if "stock" not in names else self.instance
        if only is not None:
            kept = tuple(
                tuple(amount if index == only else 0.0 for index, amount in enumerate(period))
                for period in instance.demand
            )
            instance = replace(instance, demand=kept)
        table = read_instance(instance)
        if "traffic" in names and any(
            not any(b in served for served in table.serves.values()) for b in range(len(table.bundles))
        ):
            return False
        left_out = [name for name in self.names if name not in names]
        clock = Deadline(self.settings.time_limit_s)
        status = solve_fleet(table, self.settings, clock, aim="nothing", without=left_out).status
        if status == "unknown" and strict:
            raise RuntimeError(
                "the solver ran out of time before it knew which rules conflict; give it a longer time limit"
            )
        return status != "infeasible"

    def class_alone(self, core: list[str]) -> int | None:
        """Return a class whose demand alone conflicts with the rest of the core."""
        table = read_instance(self.instance)
        for bundle in table.bundles:
            # Of like classes, the one with the largest demand conflicts if any does.
            largest = max(bundle.classes, key=lambda index: max(period[index] for period in self.instance.demand))
            if not self.feasible(core, only=largest):
                return largest
        return None

    def _without_caps(self) -> FleetInstance:
        sites = tuple(
            replace(site, options=tuple(replace(option, node_cap=UNLIMITED) for option in site.options))
            for site in self.instance.sites
        )
        return replace(self.instance, sites=sites)
