"""What was asked, as a report says it: in words, and as the YAML that asks it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import FleetScenario
from optimizer.plan import Plan
from optimizer.report.document.html import Markup, Piece, section, tag
from optimizer.scenario import Scenario
from optimizer.wording import LATENCY_NAMES, milliseconds
from optimizer.yaml_text import without_defaults, yaml_of

UNITS = {
    "request_rate": "requests per second, arriving at random",
    "concurrency": "requests always in flight",
    "output_tokens_per_second": "output tokens per second, with no one waiting",
}
IN_WORDS = ("model", "description", "workload", "targets")  # said in sentences; the rest is listed field by field


def traffic_words(workload: Mapping[str, Any]) -> str:
    """Say how much traffic there is, and of what length."""
    kind = next(name for name in UNITS if workload.get(name) is not None)
    lengths = f"{workload['input_tokens']:,} tokens in and {workload['output_tokens']:,} out"
    return f"{workload[kind]:,.12g} {UNITS[kind]}; {lengths} on average"


def target_words(targets: Mapping[str, Any]) -> str:
    """Say what is asked of latency."""
    asked = [
        f"{label} within {milliseconds(targets[f'{name}_ms'])}"
        for name, label in LATENCY_NAMES.items()
        if targets.get(f"{name}_ms") is not None
    ]
    if not asked:
        return "no latency target"
    at = "on average" if targets.get("at", "mean") == "mean" else f"at {targets['at']}"
    sure = f", {targets['confidence']:.0%} sure" if targets.get("confidence") else ""
    return f"{', '.join(asked)} ({at}{sure})"


def limit_rows(plan: Plan | FleetPlan) -> list[tuple[str, str]]:
    """Return the fields that the user set otherwise than they are by default, by dotted name."""
    return [(name, said) for name, said in _flat(_asked(plan)) if name.partition(".")[0] not in IN_WORDS]


def _flat(fields: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", _said(value)))
    return rows


def _said(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_said(one) for one in value)
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_said(one)}" for key, one in value.items() if one is not None)
    return f"{value:,.12g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _asked(plan: Plan | FleetPlan) -> dict[str, Any]:
    kind = FleetScenario if isinstance(plan, FleetPlan) else Scenario
    return without_defaults(kind, plan.scenario)


def scenario_yaml(plan: Plan | FleetPlan) -> str:
    """Return the question as a short scenario file, at the prices of the plan's day."""
    fields = _asked(plan)
    fields["prices"] = {**fields.get("prices", {}), "as_of": plan.prices.as_of}
    return yaml_of(fields)


def reproduce_section(plan: Plan | FleetPlan) -> Markup:
    """Say how to get the same answer again."""
    version = plan.shardwise_version
    command = f"pip install shardwise=={version}\nshardwise solve scenario.yaml --json > plan.json\nshardwise report plan.json -o report.html"  # noqa: E501
    own: Piece = ()
    if plan.calibration is not None:
        own = tag("p", f"Speeds rest on a calibration of {plan.calibration.date} that is kept beside the user's data; "
                       "without it they differ.", class_="note")  # fmt: skip
    return section(
        "How to get this answer again",
        tag("p", "Save this as scenario.yaml; prices are pinned to the day of the answer."),
        tag("pre", scenario_yaml(plan)),
        tag("pre", command),
        own,
    )
