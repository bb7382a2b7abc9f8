"""A fleet's question with some of its fields set, by their dotted names (see optimizer.whatif.fields)."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.errors import QuestionError
from optimizer.fields import shown
from optimizer.fleet.budget import with_traffic_times
from optimizer.fleet.question import FleetScenario, build_fleet_scenario
from optimizer.fleet.traffic import read_traffic
from optimizer.whatif.fields import TIMES, Value, set_field
from optimizer.whatif.price_factors import PREFIX

LEAST, MOST = 1e-6, 1e6


def apply_to_fleet(scenario: FleetScenario, changes: Mapping[str, Value]) -> FleetScenario:
    """Return a fleet's question with fields set, checked anew; factors on prices among the changes are the caller's.

    "traffic" multiplies the rates of all classes, after all else is set; they are spelled out then as they were read.

    Raises:
        QuestionError: a value is none that its field accepts, or does not go with the others.
    """
    own = {name: value for name, value in changes.items() if not name.startswith(PREFIX) and name != TIMES}
    changed = scenario
    if own:
        fields = scenario.model_dump()
        for name, value in own.items():
            _set(fields, name, value)
        changed = build_fleet_scenario(fields, "the changed scenario")
    if TIMES not in changes:
        return changed
    times = changes[TIMES]
    if isinstance(times, bool) or not isinstance(times, (int, float)) or not LEAST <= times <= MOST:
        raise QuestionError(f"{TIMES}: expected a factor from {LEAST:g} to {MOST:,.0f}; got {shown(str(times))}")
    if times == 1:
        return changed
    return with_traffic_times(changed, read_traffic(changed), float(times))


def _set(fields: dict[str, object], name: str, value: Value) -> None:
    try:
        set_field(fields, name, list(value) if isinstance(value, tuple) else value)
    except TypeError:  # a part that the question leaves out has no fields
        path = name.rpartition(".")[0]
        raise QuestionError(f"{name}: the scenario has no {path}, so nothing of it can be set") from None
