"""What a fleet would cost without one of the things that its question asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from optimizer.choices import MICRO
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import FleetScenario, ModelTraffic
from optimizer.programs.layout import Settings
from optimizer.scenario import Targets
from optimizer.whatif.fleet_explain_answer import GivenUp

SECONDS_EACH = 5.0  # for each question without one thing; what is not proved by then says so
LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "end-to-end"}

Solve = Callable[[FleetScenario, Settings], FleetPlan]


def given_up(plan: FleetPlan, scenario: FleetScenario, solve: Solve, settings: Settings | None) -> tuple[GivenUp, ...]:
    """Return what the fleet would cost without each thing asked, what saves the most first.

    Args:
        plan: the fleet; it keeps every one of these questions, so none costs more.
        scenario: its question.
        solve: the cheapest fleet of a question.
        settings: how the solver runs.
    """
    if plan.cost is None:
        return ()
    chosen = settings or Settings()
    limited = replace(chosen, time_limit_s=min(chosen.time_limit_s, SECONDS_EACH))
    now, left_open = plan.cost.usd_per_hour, plan.cost.usd_per_hour - plan.cost.bound_usd_per_hour
    found = []
    for rule, question in _without(scenario):
        other = solve(question, limited)
        cost = None if other.cost is None else other.cost.usd_per_hour
        saves = 0.0 if cost is None else max(round((now - cost) * MICRO) / MICRO, 0.0)
        found.append(
            GivenUp(
                rule=rule,
                usd_per_hour=cost,
                proved=other.status == "optimal",
                saves_usd_per_hour=saves,
                binds=saves > left_open + 0.5 / MICRO,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.saves_usd_per_hour))


def _without(scenario: FleetScenario) -> Iterator[tuple[str, FleetScenario]]:
    """Yield what can be given up, in words, with the question without it."""
    for name, words in LATENCIES.items():
        less = _without_target(scenario, f"{name}_ms")
        if less != scenario:
            yield f"no {words} targets", less
    if any(one.confidence is not None for one in _targets(scenario)):
        yield "targets without a confidence", _with_targets(scenario, {"confidence": None})
    yield from _of_memory(scenario)
    limits, fleet = scenario.limits, scenario.fleet
    if limits.max_utilization is None or limits.max_utilization < 1.0:
        yield "all of a replica's capacity used", _changed(scenario, "limits", max_utilization=1.0)
    if limits.max_gpus is not None or limits.max_nodes is not None or limits.quotas:
        yield "no quotas", _changed(scenario, "limits", max_gpus=None, max_nodes=None, quotas=())
    if fleet.max_kinds is not None or fleet.max_kinds_per_model is not None:
        yield "any number of replica kinds", _changed(scenario, "fleet", max_kinds=None, max_kinds_per_model=None)
    if fleet.survive != "nothing":
        yield f"without surviving the loss of a {fleet.survive}", _changed(scenario, "fleet", survive="nothing")
    if fleet.min_providers > 1 or fleet.min_regions > 1:
        yield "any number of providers and regions", _changed(scenario, "fleet", min_providers=1, min_regions=1)
    if fleet.max_spot_share < 1.0 and {"spot", "any"} & set(limits.terms):
        yield "any share on spot nodes", _changed(scenario, "fleet", max_spot_share=1.0)


def _of_memory(scenario: FleetScenario) -> Iterator[tuple[str, FleetScenario]]:
    if scenario.memory.policy == "engine":
        if scenario.memory.gpu_memory_utilization < 1.0:
            less = _changed(scenario, "memory", gpu_memory_utilization=1.0)
            yield "the engine's memory fraction at 100%", less
    elif scenario.memory.headroom > 0 or scenario.memory.overhead > 0:
        yield "no memory headroom and no overhead", _changed(scenario, "memory", headroom=0.0, overhead=0.0)


def _changed(scenario: FleetScenario, section: str, **values: Any) -> FleetScenario:
    return scenario.model_copy(update={section: getattr(scenario, section).model_copy(update=values)})


def _without_target(scenario: FleetScenario, name: str) -> FleetScenario:
    return _with_targets(scenario, {name: None})


def _targets(scenario: FleetScenario) -> list[Targets]:
    own = [scenario.targets]
    for model in scenario.traffic:
        own += [one for one in (model.targets, *(kind.targets for kind in model.classes)) if one is not None]
    return own


def _with_targets(scenario: FleetScenario, values: Mapping[str, None]) -> FleetScenario:
    """Return the question with all of its targets changed, wherever they stand."""

    def changed(one: Targets | None) -> Targets | None:
        return None if one is None else one.model_copy(update=dict(values))

    def of_model(model: ModelTraffic) -> ModelTraffic:
        classes = tuple(one.model_copy(update={"targets": changed(one.targets)}) for one in model.classes)
        return model.model_copy(update={"targets": changed(model.targets), "classes": classes})

    classes = tuple(one.model_copy(update={"targets": changed(one.targets)}) for one in scenario.classes)
    return scenario.model_copy(
        update={
            "targets": changed(scenario.targets),
            "classes": classes,
            "models": tuple(map(of_model, scenario.models)),
        }
    )
