"""What fields mean, for JSON schemas: taken from the Attributes section of each class's docstring, and nowhere else.

Fields that mean the same wherever they stand need no line in every class: SAME_EVERYWHERE has those.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

SAME_EVERYWHERE = {
    "schema_version": "version of this schema",
    "shardwise_version": "version of shardwise that made it",
    "kind": "what it is, told from answers of other kinds",
    "status": "how it came out",
    "summary": "in one line, as a person would repeat it",
    "scenario": "the question, with every default filled in",
    "warnings": "what to know before relying on it",
    "calibration": "the user's own calibration, where speeds rest on one",
    "description": "a line for people",
    "model": "a bundled model's Hub name, or the path of a config.json",
    "provider": "who rents it out",
    "provider_kind": "hyperscaler, gpu-cloud, marketplace or own",
    "region": "where it is, in the provider's words",
    "instance_type": "what to ask the provider for",
    "gpu": "GPU type, as in `shardwise catalog gpus`",
    "gpus": "how many GPUs",
    "gpus_per_node": "GPUs of one node",
    "nodes": "how many nodes",
    "term": "on-demand, spot, reserved-1y, reserved-3y or owned",
    "fabric": "what joins the GPUs inside a node",
    "network": "what joins the nodes",
    "network_gbit_per_s": "speed of the network of a node, in Gbit/s; null where it is not known",
    "max_nodes": "the most nodes to be had; null where that is not known or not limited",
    "weights": "weight format",
    "kv_cache": "KV cache dtype",
    "tp": "tensor parallel size",
    "pp": "pipeline stages",
    "ep": "expert parallel size",
    "attention_dp": "attention data-parallel ranks",
    "replicas": "copies of the model",
    "layout": "what to rent and how to run the model on it; null where there is none",
    "cost": "what it costs; null where there is no answer",
    "memory": "memory per GPU",
    "performance": "predicted speed",
    "targets": "latency targets",
    "limits": "what is allowed",
    "prices": "the prices that it stands on",
    "solver": "what the solver did",
    "conflict": "rules that cannot hold together; empty where there is an answer",
    "nearest_misses": "layouts that break few rules by little",
    "least_changes": "the least changes that make the question feasible",
    "name": "what it is called",
    "rule": "name of the rule",
    "unit": "unit of its figures",
    "why": "the reason, in words",
    "change": "what would be changed, in words",
    "flag": "the flag that changes it",
    "usd_per_hour": "cost in USD an hour",
    "usd_per_month": "cost in USD for 730 hours",
    "extra_usd_per_hour": "how much more it costs than the answer, in USD an hour",
    "price_usd_per_gpu_hour": "price of one GPU for an hour, in USD",
    "price_seen_on": "the day its price was seen",
    "price_source": "short name of the source of its price",
    "prices_as_of": "the day whose prices count",
    "usd_per_million_output_tokens": "cost of a million output tokens at this traffic, in USD",
    "usd_per_million_output_tokens_at_saturation": "cost of a million output tokens with every replica full, in USD",
    "usd_per_million_tokens": "cost of a million tokens, in and out, in USD",
    "ttft_ms": "time to first token, in milliseconds",
    "tpot_ms": "time per output token after the first, in milliseconds",
    "tpot_ms_low": "80% of measured runs lie above this, and below tpot_ms_high",
    "tpot_ms_high": "80% of measured runs lie below this, and above tpot_ms_low",
    "e2e_ms": "arrival to last token, in milliseconds",
    "e2e_ms_low": "80% of measured runs lie above this, and below e2e_ms_high",
    "e2e_ms_high": "80% of measured runs lie below this, and above e2e_ms_low",
    "output_tokens_per_second": "output tokens per second",
    "output_tokens_per_second_per_gpu": "output tokens per second, over the GPUs",
    "requests_per_second": "requests per second",
    "concurrency": "requests at once",
    "utilization": "share of capacity that is used",
    "input_tokens": "mean length of a prompt",
    "output_tokens": "mean length of an answer",
    "input_cv": "standard deviation over mean of prompt lengths",
    "output_cv": "standard deviation over mean of answer lengths",
    "question": "what was asked",
    "seconds": "how long it took",
    "runs": "how many runs",
    "notes": "what to know of it",
    "engine": "the serving engine",
    "policy": "how memory is counted: framework or engine",
    "period": "number of the period of the cycle, from 0",
    "site": "id of the nodes",
    "id": "how other parts of the answer call it",
    "communication_share": "share of a decode step that is communication",
}
_ENTRY = re.compile(r"[a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*: ")


class Described(BaseModel):
    """A model whose JSON schema says what each field means."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add descriptions to the schema that pydantic makes."""
        schema = handler(core)
        own = handler.resolve_ref_schema(schema)
        own["description"] = about(cls)
        said = descriptions(cls)
        for name, field in own.get("properties", {}).items():
            accepted = field.get("description", "")  # what its type accepts
            if name in said and said[name] not in accepted:
                field["description"] = f"{said[name]} {accepted}".rstrip()
        return schema


def about(kind: type[BaseModel]) -> str:
    """Return what a class is, without its attributes."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:\n")[0].strip()


def descriptions(kind: type[BaseModel]) -> dict[str, str]:
    """Return field -> what it means, from the docstrings of the class and its bases, its own first."""
    said = {name: SAME_EVERYWHERE[name] for name in kind.model_fields if name in SAME_EVERYWHERE}
    for base in reversed(kind.__mro__):
        if base is not object and issubclass(base, BaseModel):
            said |= _attributes(base)
    return {name: _sentence(text) for name, text in said.items() if name in kind.model_fields}


def _attributes(kind: type[BaseModel]) -> dict[str, str]:
    """Read an Attributes section: "name, name: text", going on in lines that are indented further."""
    section = inspect.cleandoc(kind.__dict__.get("__doc__") or "").partition("\nAttributes:\n")[2]
    entries: list[str] = []
    for line in section.splitlines():
        if line.startswith("     ") and entries:
            entries[-1] += f" {line.strip()}"
        elif line.startswith("    "):
            entries.append(line.strip())
        elif line.strip():
            break  # another section
    said: dict[str, str] = {}
    fields: Any = kind.model_fields
    for entry in entries:
        # One line may say several fields: "starts: how many; start_usd: what each costs".
        for part in _parts(entry, set(fields)):
            names, _, text = part.partition(": ")
            said |= dict.fromkeys(names.split(", "), text)
    return said


def _parts(entry: str, fields: set[str]) -> list[str]:
    parts: list[str] = []
    for piece in entry.split("; "):
        starts = _ENTRY.match(piece)
        if parts and (starts is None or not set(starts.group()[:-2].split(", ")) <= fields):
            parts[-1] += f"; {piece}"
        else:
            parts.append(piece)
    return parts


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[0].upper()}{text[1:]}." if text else text
