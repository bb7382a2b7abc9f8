"""The fields of the page's form: where each stands in a scenario, what it is called, and what it may be.

A question is the mapping that a scenario file would hold: only what the user said. The form shows a part of it; what a
link or a pasted file says beside that stays in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from optimizer.scenario import KV_DTYPES, PROVIDER_KINDS, TERMS, WEIGHT_FORMATS

Question = dict[str, Any]
Kind = Literal["text", "one", "many", "typed", "switch"]

DEFAULT: Question = {
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "workload": {"input_tokens": 2000, "output_tokens": 300, "request_rate": 4},
    "targets": {"ttft_ms": 1500, "tpot_ms": 50},
}
WEIGHTS = ("checkpoint", *WEIGHT_FORMATS, "any")
TRAFFIC = {
    "request_rate": "Requests per second",
    "concurrency": "Requests always in flight",
    "output_tokens_per_second": "Output tokens per second (offline)",
}
SECTIONS = {
    "traffic": "Traffic",
    "targets": "Latency targets",
    "limits": "Limits",
    "lengths": "More about the traffic",
    "offers": "More limits",
    "sizes": "Sizes and precision",
    "memory": "Memory and prices",
}


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of the form.

    Attributes:
        path: its place in a scenario, as in "workload.input_tokens".
        section: key of SECTIONS; those of the traffic kind and the model stand apart.
        kind: "text" for one value; "one" of the options; "many" of them; "typed": values joined by commas; "switch".
        default: what it is when nothing is said, in words.
        options: what may be chosen; of GPUs and providers the page asks the catalog.
        unit: shown behind the value.
    """

    path: str
    label: str
    section: str
    kind: Kind = "text"
    default: str = ""
    options: tuple[str, ...] = ()
    unit: str = ""


FORM = (
    FormField("workload.input_tokens", "Input tokens", "traffic", unit="tokens"),
    FormField("workload.output_tokens", "Output tokens", "traffic", unit="tokens"),
    FormField("workload.context_tokens", "Longest context", "traffic", default="input + output", unit="tokens"),
    FormField("workload.input_cv", "Variation of inputs (CV)", "lengths", default="0"),
    FormField("workload.output_cv", "Variation of outputs (CV)", "lengths", default="0"),
    FormField("workload.burstiness", "Burstiness of arrivals", "lengths", default="1, Poisson"),
    FormField("targets.ttft_ms", "TTFT, first token", "targets", default="none", unit="ms"),
    FormField("targets.tpot_ms", "TPOT, per token", "targets", default="none", unit="ms"),
    FormField("targets.e2e_ms", "E2E, whole answer", "targets", default="none", unit="ms"),
    FormField("targets.at", "Targets hold at", "targets", "one", "mean", ("mean", "p50", "p90", "p95", "p99")),
    FormField("targets.confidence", "Confidence", "targets", default="the prediction"),
    FormField("limits.budget_usd_per_hour", "Budget", "limits", default="none", unit="USD/h"),
    FormField("limits.gpus", "Only these GPUs", "limits", "many", "any"),
    FormField("limits.exclude_gpus", "Never these GPUs", "offers", "many", "none"),
    FormField("limits.providers", "Only these providers", "limits", "many", "any"),
    FormField("limits.exclude_providers", "Never these providers", "offers", "many", "none"),
    FormField(
        "limits.provider_kinds", "Kinds of provider", "offers", "many", "all but marketplace", (*PROVIDER_KINDS, "any")
    ),
    FormField("limits.regions", "Only these regions", "offers", "typed", "any"),
    FormField("limits.terms", "Terms", "limits", "many", "on-demand", (*TERMS, "any")),
    FormField("limits.max_gpus", "Most GPUs", "limits", default="no limit"),
    FormField("limits.max_nodes", "Most nodes", "limits", default="no limit"),
    FormField(
        "limits.weights", "Weight formats", "sizes", "many", "checkpoint", ("checkpoint", *WEIGHT_FORMATS, "any")
    ),
    FormField("limits.kv_cache", "KV cache", "sizes", "many", "auto", ("auto", *KV_DTYPES, "any")),
    FormField("limits.tp", "Tensor parallel sizes", "sizes", "typed", "any"),
    FormField("limits.pp", "Pipeline stages", "sizes", "typed", "any"),
    FormField("limits.replicas", "Replicas", "sizes", "typed", "any"),
    FormField("limits.max_concurrency_per_replica", "Most requests at once", "sizes", default="512"),
    FormField("limits.max_utilization", "Utilization at most", "sizes", default="0.85 of a rate, else 1"),
    FormField("limits.tp_across_nodes", "Tensor parallel across nodes", "sizes", "switch"),
    FormField("memory.policy", "Memory policy", "memory", "one", "framework", ("framework", "engine")),
    FormField("memory.headroom", "Headroom (framework)", "memory", default="0.20"),
    FormField("memory.overhead", "Overhead (framework)", "memory", default="0.15"),
    FormField("memory.engine", "Engine", "memory", default="vllm"),
    FormField("memory.gpu_memory_utilization", "Memory fraction (engine)", "memory", default="0.90"),
    FormField("prices.as_of", "Prices as of", "memory", default="newest, or 2026-08-14"),
)
SHOWN = frozenset({"model", "description", *(field.path for field in FORM), *(f"workload.{kind}" for kind in TRAFFIC)})


def get(question: Mapping[str, Any], path: str) -> Any:
    """Return the value at a place as "workload.input_tokens"; None where nothing is said."""
    value: Any = question
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def put(question: Mapping[str, Any], path: str, value: Any) -> Question:
    """Return the question with a value at a place; None, "", False and empty lists take it out."""
    section, _, name = path.partition(".")
    said = value is not None and value is not False and value not in ("", [], ())
    changed = dict(question)
    if not name:
        changed[section] = value if said else ""
        return changed
    part = dict(changed[section]) if isinstance(changed.get(section), Mapping) else {}
    part.pop(name, None)
    if said:
        part[name] = value
    changed.pop(section, None)
    return changed | ({section: part} if part or section == "workload" else {})


def traffic_kind(question: Mapping[str, Any]) -> str:
    """Return which of the three ways the traffic is said in; requests per second where it is said in none."""
    return next((kind for kind in TRAFFIC if get(question, f"workload.{kind}") is not None), "request_rate")


def with_traffic(question: Mapping[str, Any], kind: str, amount: Any) -> Question:
    """Return the question with its traffic said in one way and no other."""
    changed = dict(question)
    for name in TRAFFIC:
        changed = put(changed, f"workload.{name}", amount if name == kind else None)
    return changed


def as_text(value: Any) -> str:
    """Return a value as a field shows it: numbers without needless digits, lists joined by commas."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(as_text, value))
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


def beside_the_form(question: Mapping[str, Any]) -> list[str]:
    """Return the places that a question says something at and the form does not show, as "limits.quotas"."""
    found = []
    for section, part in question.items():
        names = [f"{section}.{name}" for name in part] if isinstance(part, Mapping) else [section]
        found += [name for name in names if name not in SHOWN]
    return found


def by_field(problems: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Sort problems of a scenario ("workload.input_tokens: expected ...") by the field of the form they belong to.

    Returns:
        What is wrong by path, and the problems that belong to no field that is shown.
    """
    found: dict[str, str] = {}
    rest = []
    for problem in problems:
        place, colon, said = problem.partition(": ")
        path = ".".join(place.split(".")[:2])
        if not colon or path not in SHOWN or path == "description":
            rest.append(problem)
        else:
            found[path] = f"{found[path]}; {said}" if path in found else said
    return found, rest
