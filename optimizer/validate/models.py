"""From a name in a report to a model: bundled, of a list of decoder shapes, or a quantized twin of one of these."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from catalogs.errors import CatalogError, UnknownNameError
from catalogs.model_precision import ALWAYS_16_BIT
from catalogs.models import (
    Attention,
    Checkpoint,
    Layer,
    Mlp,
    ModelSpec,
    bundled_models,
    load_model,
    parse_config,
    storage,
)
from optimizer.validate.formats import Precision, read_precision

SHAPES_FILE: Final = Path(__file__).parent / "data" / "decoder_shapes.csv"
HUB_FILE: Final = Path(__file__).parent / "data" / "hub_configs.json"
TWINS_FILE: Final = Path(__file__).parent / "data" / "same_shapes.csv"
SHAPES_SOURCE: Final = "config.json on the Hugging Face Hub, restated September 2026"
# What an upload adds to the name of the model that it quantizes; longest first where one ends another.
_QUANTIZED = re.compile(
    r"(?:[-_. ]+(?:quantized|fp8(?:[-_.]?(?:dynamic|static|block|kv|per[-_]?tensor|w8a8))*|"
    r"w[48]a(?:16|8|4)(?:[-_]g\d+)?|awq(?:[-_]int4)?|gptq(?:[-_]int[48])?|int[48](?:[-_.]?(?:awq|gptq|g\d+))?|"
    r"nvfp4(?:[-_]v\d+)?|mxfp4|fp4(?:[-_]v\d+)?|"
    r"bnb|[48][-_]?bits?|gguf|autoround|mlx|bf16|fp16|marlin|exl[23]|\d+\.\d+bpw))+$",
    re.I,
)
_TUNED = re.compile(r"[-_. ](?:instruct|chat|it|hf|base|pt|v\d(?:\.\d)?)$", re.I)


class UnknownModel(Exception):  # noqa: N818  a verdict, not a fault
    """A name that no known model answers to, with why."""


def resolve_model(text: str, precision: Precision) -> ModelSpec:
    """Return the model that a report names, stored as the report says.

    Raises:
        UnknownModel: nothing known answers to the name; near matches.
    """
    name, said = _name(text)
    if not name or name.lower() in {"any", "not stated", "unknown", "-"}:
        raise UnknownModel("the report names no model")
    in_name = read_precision(_suffix(name) + " " + said)
    wanted = precision.weights or in_name.weights
    spec = _find(name)
    if spec is None:
        near = _near(name)
        raise UnknownModel(f"unknown model {name!r}{f' (near: {near})' if near else ''}")
    if wanted and wanted != spec.checkpoint.weights:
        published = _published(name, wanted)
        if published is not None and not precision.online:
            spec = published
    return _stored(spec, precision if precision.weights else in_name, wanted)


def _stored(spec: ModelSpec, precision: Precision, wanted: str | None) -> ModelSpec:
    """The model with the checkpoint that the report's words describe, where they say more than a format does."""
    if not wanted or (wanted == spec.checkpoint.weights and not precision.group):
        return spec
    stored = storage(spec, wanted)
    if wanted == "fp8" and (precision.block or precision.online):
        block = None if precision.online else (128, 128)
        stored = Checkpoint(weights="fp8", dtype=stored.dtype, block_size=block, unquantized=ALWAYS_16_BIT)
    elif wanted == "int4" and precision.group:
        stored = stored.model_copy(update={"group_size": precision.group})
    return spec.model_copy(update={"checkpoint": stored})


def _name(text: str) -> tuple[str, str]:
    """The first name in a cell, and what stands in parentheses behind it."""
    first = re.split(r"[;,]", text.strip())[0]
    said = " ".join(re.findall(r"\((.*?)\)", first))
    return " ".join(re.sub(r"\(.*?\)|\(.*$", " ", first).split())[:200], said


def _suffix(name: str) -> str:
    found = _QUANTIZED.search(name)
    return found.group(0) if found else ""


def _find(name: str) -> ModelSpec | None:
    """By its own name, by its part behind the slash, without what quantizing added, without what tuning added."""
    for candidate in _readings(name):
        spec = _known(candidate)
        if spec is not None:
            return spec
    return None


def _readings(name: str) -> Iterable[str]:
    plain = _QUANTIZED.sub("", name)
    if " " in plain:
        yield from _readings(plain.replace(" ", "-"))
    for reading in dict.fromkeys((name, plain)):
        yield reading
        yield reading.split("/")[-1]
    shorter = plain.split("/")[-1]
    while (cut := _TUNED.sub("", shorter)) != shorter:
        shorter = cut
        yield shorter
    for prefix in ("Meta-", "NVIDIA-"):
        yield shorter.removeprefix(prefix)
        yield prefix + shorter


@cache
def _hub_configs() -> Mapping[str, ModelSpec]:
    """Models of hub_configs.json by every name they go by, in lower case."""
    held = json.loads(HUB_FILE.read_text(encoding="utf-8"))
    found: dict[str, ModelSpec] = {}
    for name, entry in held["models"].items():
        spec = parse_config(entry["config"], name).model_copy(update={"source": held["source"]})
        for known in (name, *entry["aliases"]):
            last = known.split("/")[-1]
            found.update({known.lower(): spec, last.lower(): spec, _TUNED.sub("", last).lower(): spec})
    return found


def _known(name: str) -> ModelSpec | None:
    lowered = name.lower()
    if "/" in name:
        try:
            return load_model(_bundled_names()[lowered]) if lowered in _bundled_names() else _listed(lowered)
        except CatalogError:
            return None
    full = _by_last_part().get(lowered)
    if full is None:
        return _listed(lowered)
    return load_model(full) if full.lower() in _bundled_names() else _listed(full.lower())


def _listed(lowered: str) -> ModelSpec | None:
    if lowered in _hub_configs():
        return _hub_configs()[lowered]
    twin = _twins().get(lowered)
    if twin is not None:
        return load_model(twin)
    row = _shapes().get(lowered)
    return _from_shapes(row["name"]) if row else None


def _published(name: str, wanted: str) -> ModelSpec | None:
    """The bundled upload of the same model in this format, where there is one."""
    stem = _QUANTIZED.sub("", name).split("/")[-1].lower()
    for full in bundled_models():
        last = full.split("/")[-1]
        if _suffix(last) and _QUANTIZED.sub("", last).lower() == stem:
            spec = load_model(full)
            if spec.checkpoint.weights == wanted:
                return spec
    return None


def _near(name: str) -> str:
    try:
        load_model(name.rsplit("/", maxsplit=1)[-1] if not name.startswith((".", "/", "~")) else "-")
    except UnknownNameError as error:
        return ", ".join(error.near)
    except CatalogError:
        return ""
    return ""


@cache
def _bundled_names() -> Mapping[str, str]:
    return {name.lower(): name for name in bundled_models()}


@cache
def _by_last_part() -> Mapping[str, str]:
    """The part behind the slash (and that part without its tuning words) -> full name, the plainest upload first."""
    found: dict[str, str] = {}
    names = sorted([*bundled_models(), *_twins_names()], key=lambda name: (bool(_suffix(name)), len(name), name))
    for name in names:
        found.setdefault(name.split("/")[-1].lower(), name)
    for name in names:
        last = name.split("/")[-1]
        if _suffix(last):
            continue
        while (cut := _TUNED.sub("", last)) != last:
            last = cut
            found.setdefault(last.lower(), name)
    return found


@cache
def _twins() -> Mapping[str, str]:
    with TWINS_FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {key: row["bundled"] for row in rows for key in (row["name"].lower(), row["name"].split("/")[-1].lower())}


@cache
def _twins_names() -> tuple[str, ...]:
    with TWINS_FILE.open(encoding="utf-8", newline="") as file:
        return tuple(row["name"] for row in csv.DictReader(file))


@cache
def _shapes() -> Mapping[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    with SHAPES_FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            names = [row["name"], row["name"].split("/")[-1], *row["aliases"].split()]
            found.update({name.lower(): row for name in names})
            found.update({_TUNED.sub("", name.split("/")[-1]).lower(): row for name in names})
    return found


@cache
def _from_shapes(name: str) -> ModelSpec:
    row = _shapes()[name.lower()]
    size = {key: int(value) for key, value in row.items() if key not in ("name", "aliases") and value}
    layers = tuple(_layer(size, index) for index in range(size["layers"]))
    # Equal layers are one object, which is what ModelSpec counts them by.
    kept: dict[Layer, Layer] = {}
    layers = tuple(kept.setdefault(layer, layer) for layer in layers)
    tied = bool(size["tied"])
    return ModelSpec(
        name=name,
        architecture="decoder",
        hidden_size=size["hidden"],
        vocab_size=size["vocabulary"],
        max_context_tokens=size["context"],
        tied_embeddings=tied,
        embedding_parameters=size["vocabulary"] * size["hidden"],
        lm_head_parameters=0 if tied else size["vocabulary"] * size["hidden"],
        final_norm_parameters=size["hidden"],
        vision_parameters=size.get("vision_parameters", 0),
        vision_heads=size.get("vision_heads", 0),
        layers=layers,
        checkpoint=Checkpoint(weights="bf16", dtype="bf16"),
        source=SHAPES_SOURCE,
    )


def _layer(size: Mapping[str, int], index: int) -> Layer:
    heads, kv, dim, hidden = size["heads"], size["kv_heads"], size["head_dim"], size["hidden"]
    window = size.get("window")
    slides = window is not None and (index + 1) % size["full_every"] != 0
    each = hidden * (heads + 2 * kv) * dim + heads * dim * hidden + (size["qkv_bias"] * (heads + 2 * kv) * dim)
    attention = Attention(
        kind="sliding" if slides else "full",
        query_heads=heads,
        kv_heads=kv,
        head_dim=dim,
        value_head_dim=dim,
        window_tokens=window if slides else None,
        parameters=each,
    )
    matrix = size["matrices"] * hidden * size["width"]
    experts = size.get("experts", 0)
    mlp = (
        Mlp(
            kind="moe",
            intermediate_size=size["width"],
            experts=experts,
            experts_per_token=size["experts_per_token"],
            expert_parameters=matrix,
            router_parameters=hidden * experts,
        )
        if experts
        else Mlp(kind="dense", intermediate_size=size["width"], dense_parameters=matrix)
    )
    return Layer(attention=attention, mlp=mlp, norm_parameters=2 * hidden)
