"""Fields of a scenario changed one by one from the command line: `--set workload.request_rate=8`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalogs.errors import near_matches
from optimizer.errors import QuestionError, ScenarioError
from optimizer.fields import Part
from optimizer.scenario import Scenario, build_scenario
from optimizer.yaml_file import read_value

TRAFFIC = ("request_rate", "concurrency", "output_tokens_per_second")


def apply_fields(scenario: Scenario, assignments: Sequence[str]) -> Scenario:
    """Return the scenario with fields changed, checked again.

    A new kind of traffic takes the place of the old one; the context follows from new lengths where it is not set too.

    Args:
        scenario: the question.
        assignments: texts such as "workload.request_rate=8" or "limits.weights=[bf16, fp8]"; values are YAML.

    Raises:
        QuestionError: a text is no assignment, a field is unknown (near matches are named), or is given twice.
        ScenarioError: a value is not accepted.
    """
    if not assignments:
        return scenario
    given = dict(_read(text) for text in assignments)
    if len(given) < len(assignments):
        raise QuestionError("--set: a field is set twice; set it once")
    fields = scenario.model_dump()
    kinds = [name for name in TRAFFIC if f"workload.{name}" in given]
    if kinds:
        fields["workload"] |= dict.fromkeys(TRAFFIC)
    if {"workload.input_tokens", "workload.output_tokens"} & set(given):
        fields["workload"]["context_tokens"] = None
    for name, value in given.items():
        section, _, field = name.rpartition(".")
        (fields[section] if section else fields)[field] = value
    try:
        return build_scenario(fields, "scenario with --set")
    except ScenarioError as error:
        raise ScenarioError("--set", error.problems) from None


def settable() -> tuple[str, ...]:
    """Return the names of all fields that can be set, dotted."""
    names = []
    for name, field in Scenario.model_fields.items():
        part: Any = field.annotation
        inner = part.model_fields if isinstance(part, type) and issubclass(part, Part) else None
        names += [name] if inner is None else [f"{name}.{one}" for one in inner]
    return tuple(names)


def _read(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise QuestionError(f"--set {text!r}: expected FIELD=VALUE, as in workload.request_rate=8")
    known = settable()
    if name not in known:
        near = near_matches(name[:80], known, limit=1) or [one for one in known if one.endswith(f".{name}")]
        hint = f"; did you mean {near[0]}?" if near else f" (known: {', '.join(known)})"
        raise QuestionError(f"--set {text!r}: {name} is not a field of a scenario{hint}")
    try:
        return name, read_value(value)
    except ValueError as error:
        raise QuestionError(f"--set {text!r}: the value {error}") from None
