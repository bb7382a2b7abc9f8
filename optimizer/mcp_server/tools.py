"""Each kind of question as a tool, described for those who cannot see the documentation."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

from mcp_types import Tool, ToolAnnotations

from optimizer.questions.kinds import KINDS, Kind

UNITS = "Money is USD; _ms are milliseconds, _gib are 2^30 bytes, rates are per second."
NO_FILES = "Models are named as catalog_models lists them; paths and URLs are not opened."
DESCRIPTIONS = {
    "solve": "Find the cheapest GPU layout (which nodes to rent, how many, weight format, tensor/pipeline/expert "
    "parallel sizes, replicas) that serves a language model's traffic within latency targets, at dated prices, with a "
    "proof. A scenario with `workload` asks for one layout; one with `classes`, `histogram` or `models` for a fleet. "
    'status "infeasible" is an answer, not an error: `conflict` names rules that cannot hold together and '
    '`least_changes` what would have to give; "feasible" was not proved in time (see cost.gap). Pass reasons=false '
    "for a much shorter answer.",
    "fit": "Say whether one replica of a model (weights + KV cache + overhead) fits in the memory of so many GPUs, and "
    "the longest context and most requests that would. Fast, asks no solver and no prices.",
    "predict": "Predict time to first token, time per output token and throughput of one replica at a fixed number of "
    "requests in flight, with the range that 80% of measured runs lie in. Asks no prices.",
    "explain": "Say what binds in a plan (which target, limit or memory), where its money goes, and why it is not "
    'another layout: why_not takes words such as "4x A100-SXM-80GB tp=4". Give either `scenario`, which is solved '
    "first, or a `plan` that solve answered; both may be of a fleet, without why_not.",
    "pareto": "List every layout that no other one beats in cost and latency, for a scenario of one layout.",
    "whatif_budget": "Say what hard budgets (USD per hour) buy at most: traffic, context length, latency, precision.",
    "whatif_shock": "Solve before and after prices change or offers go, and say whether to keep the layout, or the "
    'fleet, or to move, and what staying costs. price takes "PATTERN=CHANGE", as in "spot=+40%", "H100*=-20%", '
    '"aws=x1.5".',
    "whatif_breakeven": "Find the exact price at which each GPU type (and the offers that a pattern names) starts or "
    "stops being the answer.",
    "whatif_api": "Compare self-hosting with a managed API (PROVIDER/MODEL, as genai-prices names them) by cost, and "
    "find the request rate from which self-hosting pays. Quality of the models is not compared.",
    "whatif_sweep": "Solve a scenario over a small grid: each `vary` is FIELD=VALUES, as in "
    '"workload.request_rate=1:16:x2" or "limits.weights=bf16,fp8". Rows have a column each of `columns`.',
    "export": "Write the commands or manifests that start exactly the layout or fleet of a plan: scripts of vllm, "
    "sglang or trtllm, docker-compose, kubernetes, helm-values, skypilot, dstack or terraform-vars. Give either "
    "`scenario`, which is solved first, or a `plan` that solve answered. Nothing is started or written to disk.",
    "catalog_gpus": "List GPU types with memory, bandwidth and FLOP/s; their names are those that limits take.",
    "catalog_models": "List the models that are known, with parameters, KV bytes per token and longest context.",
    "catalog_nodes": "List rentable node shapes by provider and GPU type.",
    "catalog_offers": "List priced offers of a day, the cheapest per GPU first.",
    "prices": "List prices of a day by patterns of GPU, provider, region and term (* and ? stand for anything).",
    "prices_history": "List how prices moved: a row for each time that a price stood.",
    "prices_diff": "List what changed in prices between two days, the largest moves first.",
    "prices_sources": "Say how old the prices of each source of the service's own price history are.",
}
# What other tools than `solve` say of a scenario: the whole of it in each would fill an agent's context.
_LAYOUT = {
    "type": "object",
    "description": "The question of one layout: the fields of `scenario` in the tool solve (model, workload, targets, "
    "limits, memory, prices), with a workload.",
}
_ANY = {"type": "object", "description": "A scenario as the tool solve takes it, of one layout or of a fleet."}
_PLAN = {"type": "object", "description": "The structured answer of the tool solve, of one layout."}
_ANY_PLAN = {"type": "object", "description": "The structured answer of the tool solve."}
# Where several are accepted, the first that is among them says so.
_SHORT = {"AskedFleet": _ANY, "AskedScenario": _LAYOUT, "FleetPlan": _ANY_PLAN, "Plan": _PLAN}


def tool_name(kind: Kind) -> str:
    """Return what a kind of question is called as a tool."""
    return kind.name.replace("/", "_")


@lru_cache(maxsize=1)
def kinds_by_tool() -> dict[str, Kind]:
    """Return the kinds of question by the names of their tools."""
    return {tool_name(kind): kind for kind in KINDS.values()}


@lru_cache(maxsize=1)
def tools() -> tuple[Tool, ...]:
    """Return the tools."""
    return tuple(_tool(name, kind) for name, kind in kinds_by_tool().items())


def _tool(name: str, kind: Kind) -> Tool:
    about = f"{DESCRIPTIONS.get(name, kind.details)} {'' if kind.reads else NO_FILES + ' '}{UNITS}"
    return Tool(
        name=name,
        title=kind.summary.rstrip(".?"),
        description=about,
        input_schema=input_schema(kind),
        output_schema=output_schema(kind),
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def input_schema(kind: Kind) -> dict[str, Any]:
    """Return the schema of a tool's arguments."""
    schema = kind.question.model_json_schema()
    if kind.name != "solve":
        schema["properties"] = {name: _shortened(part) for name, part in schema["properties"].items()}
    found = _lean(_pruned(schema))
    _one_way(found)
    return found


def output_schema(kind: Kind) -> dict[str, Any]:
    """Return the schema of a tool's structured result: an object, of one of the forms that the kind may give."""
    schemas = [result.model_json_schema(mode="serialization") for result in kind.results]
    if len(schemas) == 1:
        return _lean(schemas[0])
    parts: dict[str, Any] = {}
    for schema in schemas:
        parts |= schema.pop("$defs", {})
    return _lean({"type": "object", "anyOf": schemas, "$defs": parts})


def _shortened(part: dict[str, Any]) -> dict[str, Any]:
    """Return a field with a short form of what would be long."""
    named = _named_in(part)
    short = next((shown for name, shown in _SHORT.items() if name in named), None)
    if short is None:
        return part
    said = part.get("description")
    return {**short, "description": f"{said} {short['description']}" if said else short["description"]}


def _pruned(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out definitions that nothing refers to any more."""
    parts = schema.pop("$defs", {})
    wanted, todo = set[str](), _named_in(schema)
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo |= _named_in(parts[name])
    return schema | ({"$defs": {name: parts[name] for name in sorted(wanted)}} if wanted else {})


def _named_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set[str]()
        return own.union(*(_named_in(inner) for inner in value.values()))
    return set[str]().union(*(_named_in(inner) for inner in value)) if isinstance(value, list) else set()


def _lean(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out titles, which repeat the names of fields."""
    found = copy.deepcopy(schema)
    _drop_titles(found)
    return found


def _one_way(value: Any) -> None:
    """Leave an agent one way to say a thing: a list is a list, be it of one, and what is not given is left out.

    People may write one value in place of a list, and null in place of nothing; both are read as ever.
    """
    if isinstance(value, list):
        for inner in value:
            _one_way(inner)
    if not isinstance(value, dict):
        return
    forms = value.get("anyOf")
    if isinstance(forms, list) and len(forms) == 2:
        if forms[1] == {"type": "array", "items": forms[0]}:
            del value["anyOf"]
            value |= forms[1]
        elif forms[1] == {"type": "null"} and value.get("default", "") is None:
            del value["anyOf"], value["default"]
            said = [one for one in (value.get("description"), forms[0].get("description")) if one]
            value |= forms[0] | ({"description": " ".join(said)} if said else {})
    if value.get("type") == "string":
        for bound in ("minLength", "maxLength"):  # names that an agent gives are far from both
            value.pop(bound, None)
    for inner in list(value.values()):
        _one_way(inner)


def _drop_titles(value: Any) -> None:
    if isinstance(value, list):
        for inner in value:
            _drop_titles(inner)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("title"), str):
        del value["title"]
    for name, inner in value.items():
        if name in ("properties", "$defs"):
            for part in inner.values():
                _drop_titles(part)
        else:
            _drop_titles(inner)
