"""A layout that a user names in a few words: "4x A100-SXM-80GB tp=4", "2 nodes of 8x H100 TP8 fp8", "H200 spot".

The words come in any order; what is not named is free. They are also the words in which answers are summarized, so a
layout can be copied from one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pandas as pd

from catalogs.errors import near_matches
from catalogs.gpus import load_gpus
from optimizer.errors import QuestionError
from optimizer.scenario import KV_DTYPES, TERMS, WEIGHT_FORMATS

SIZES = ("tp", "pp", "ep", "attention_dp")
PLACES = ("provider", "region", "instance_type")
EXAMPLE = '"4x A100-SXM-80GB tp=4", "2 nodes of 8x H100-SXM-80GB TP8 fp8", "H200* term=spot replicas=2"'

_KEYS = {
    "tp": "tp",
    "tensor_parallel": "tp",
    "pp": "pp",
    "stages": "pp",
    "ep": "ep",
    "dp": "attention_dp",
    "attention_dp": "attention_dp",
    "dp_attention": "attention_dp",
    "weights": "weights",
    "kv": "kv_cache",
    "kv_cache": "kv_cache",
    "replicas": "replicas",
    "replica": "replicas",
    "nodes": "nodes",
    "node": "nodes",
    "gpus": "gpus_rented",
    "term": "term",
    "provider": "provider",
    "region": "region",
    "instance_type": "instance_type",
    "gpu": "gpus",
}
_COUNTS = (*SIZES, "replicas", "nodes", "gpus_rented", "gpus_per_node")
_NODES_OF = re.compile(r"(\d+)\s+nodes?\s+(?:of|with)\s+(\d+)\s*(?:[x\u00d7]|gpus?\b(?:\s+of\b)?)\s*", re.IGNORECASE)
_COUNT_OF = re.compile(r"(?<![\w.=-])(\d+)\s*[x\u00d7](?!\d)", re.IGNORECASE)
_NUMBER_NOUN = re.compile(r"(?<![\w.=-])(\d+)\s+(nodes?|replicas?|gpus?)\b", re.IGNORECASE)
_KV_NOUN = re.compile(r"(?<![=:\w])(bf16|fp16|fp8)\s+kv(?:[\s_-]cache)?\b(?!\s*[=:])", re.IGNORECASE)
_GLUED = re.compile(r"(attention[-_]?dp|tp|pp|ep|dp)[\s=:]*(\d+)(?:attention)?", re.IGNORECASE)
_PAIR = re.compile(r"([A-Za-z][A-Za-z_-]*)\s*[=:]\s*(\S+)")
_IGNORED = {"in", "on", "of", "with", "and", "at", "a", "an", "the", "global", "gpu", "gpus"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user named of a layout; None (and an empty tuple of GPU types) is free.

    Attributes:
        text: as it was written.
        gpus: GPU types that the words fit.
        gpus_rented: GPUs in all, idle ones included.
    """

    text: str
    gpus: tuple[str, ...] = ()
    gpus_per_node: int | None = None
    nodes: int | None = None
    gpus_rented: int | None = None
    replicas: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    attention_dp: int | None = None
    weights: str | None = None
    kv_cache: str | None = None
    provider: str | None = None
    region: str | None = None
    instance_type: str | None = None
    term: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The fields that are named."""
        return tuple(one.name for one in fields(self) if one.name != "text" and getattr(self, one.name))

    def without(self, *names: str) -> Asked:
        """Return the same with some fields free."""
        free: dict[str, Any] = {name: () if name == "gpus" else None for name in names}
        return replace(self, **free)


@dataclass
class _Words:
    """The words of a layout, as they are taken away one by one."""

    text: str
    rest: str
    found: dict[str, Any] = field(default_factory=dict)

    def put(self, name: str, value: Any, said: str) -> None:
        """Note a field, once."""
        if name in _COUNTS:
            value = _count(name, value, self.text)
        if name in self.found and self.found[name] != value:
            raise _bad(self.text, f"{said} contradicts {name} {self.found[name]}")
        self.found[name] = value

    def take(self, pattern: re.Pattern[str], names: tuple[str, ...]) -> None:
        """Note the groups of every match under these names, and take the match away."""

        def noted(match: re.Match[str]) -> str:
            for name, value in zip(names, match.groups(), strict=True):
                self.put(name, value, match.group().strip())
            return " "

        self.rest = pattern.sub(noted, self.rest)


def read_layout(text: str, offers: pd.DataFrame) -> Asked:
    """Read a layout in the user's words.

    Args:
        text: the words.
        offers: the catalog, whose providers, regions and instance types may be named.

    Raises:
        QuestionError: a word means nothing, two contradict each other, or nothing is named.
    """
    words = _Words(text, text)
    places = {name: {str(value).lower(): str(value) for value in offers[name].unique()} for name in PLACES}
    _take_instance_type(words, places["instance_type"])
    words.rest = re.sub(r"[(),;]|:(?!\S)", " ", words.rest)
    words.take(_NODES_OF, ("nodes", "gpus_per_node"))
    words.take(_KV_NOUN, ("kv_cache",))
    _take_numbers(words)
    _take_sizes(words)
    _take_pairs(words, places)
    _take_count(words)
    left = [word for word in words.rest.split() if word.lower() not in _IGNORED]
    parts = [word for word in left if not _is_value(words, word, places)]
    if parts:
        words.put("gpus", _gpus_named(parts, words.text, places), " ".join(parts))
    if not words.found:
        raise _bad(text, "names nothing")
    if "kv_cache" in words.found:
        words.found["kv_cache"] = _one_of(words.found["kv_cache"].lower(), KV_DTYPES, "KV cache dtype", text)
    return Asked(text, **words.found)


def _take_instance_type(words: _Words, known: dict[str, str]) -> None:
    """Take an instance type that is written out, such as "instance_type=a2-ultragpu-4g" or "p5.48xlarge"."""
    lower = words.rest.lower()
    for name in sorted(known, key=len, reverse=True):
        if re.match(r"\d+x ", name):
            continue  # "4x H200-SXM-141GB" is said by count and GPU
        at = re.search(rf"(?<![\w.-])(?:instance[_-]type\s*=\s*)?{re.escape(name)}(?![\w.-])", lower)
        if at is not None:
            words.put("instance_type", known[name], name)
            words.rest = f"{words.rest[: at.start()]} {words.rest[at.end() :]}"
            return


def _take_numbers(words: _Words) -> None:
    def noted(match: re.Match[str]) -> str:
        noun = match[2].lower().rstrip("s")
        words.put({"node": "nodes", "replica": "replicas", "gpu": "gpus_rented"}[noun], match[1], match.group())
        return " "

    words.rest = _NUMBER_NOUN.sub(noted, words.rest)


def _take_sizes(words: _Words) -> None:
    def noted(match: re.Match[str]) -> str:
        name = match[1].lower()
        words.put("attention_dp" if name.endswith("dp") else name, match[2], match.group())
        return " "

    words.rest = re.sub(rf"(?<![\w-]){_GLUED.pattern}(?![\w.])", noted, words.rest, flags=re.IGNORECASE)


def _take_pairs(words: _Words, places: dict[str, dict[str, str]]) -> None:
    def noted(match: re.Match[str]) -> str:
        key, value = match[1].lower().replace("-", "_"), match[2]
        name = _KEYS.get(key)
        if name is None:
            near = near_matches(key, _KEYS, limit=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(dict.fromkeys(_KEYS.values()))}"
            raise _bad(words.text, f"{match[1]!r} is no part of a layout; {hint}")
        if name == "gpus":
            words.put(name, _gpus_named([value], words.text, places), match.group())
        elif name in PLACES:
            words.put(name, _known(value, places[name], name, words.text), match.group())
        elif name == "weights":
            words.put(name, _one_of(value.lower(), WEIGHT_FORMATS, "weight format", words.text), match.group())
        elif name == "term":
            words.put(name, _one_of(value.lower(), TERMS, "term", words.text), match.group())
        else:
            words.put(name, value, match.group())
        return " "

    words.rest = _PAIR.sub(noted, words.rest)


def _take_count(words: _Words) -> None:
    """Take "4x": GPUs of a node where nodes are named, and GPUs in all where they are not."""

    def noted(match: re.Match[str]) -> str:
        words.put("gpus_per_node" if "nodes" in words.found else "gpus_rented", match[1], match.group().strip())
        return " "

    words.rest = _COUNT_OF.sub(noted, words.rest)


def _is_value(words: _Words, word: str, places: dict[str, dict[str, str]]) -> bool:
    """Note a word that stands for itself: a weight format, a term, a provider, a region."""
    lower = word.lower()
    if lower in WEIGHT_FORMATS:
        words.put("weights", lower, word)
    elif lower in TERMS:
        words.put("term", lower, word)
    elif lower in places["provider"]:
        words.put("provider", places["provider"][lower], word)
    elif lower in places["region"]:
        words.put("region", places["region"][lower], word)
    else:
        return False
    return True


def _gpus_named(parts: list[str], text: str, places: dict[str, dict[str, str]]) -> tuple[str, ...]:
    """Return the GPU types that all of these words fit: "A100-80GB" is both the SXM and the PCIe one."""
    known = load_gpus()
    wanted = [part for word in parts for part in re.split(r"[-_\s]+", word.lower().strip("*")) if part]
    exact = "-".join(wanted)
    whole = tuple(name for name in known if name.lower() == exact)
    if whole:
        return whole
    fits = tuple(name for name in known if set(wanted) <= set(name.lower().split("-")))
    fits = fits or tuple(name for name in known if all(part in name.lower().replace("-", "") for part in wanted))
    if fits and wanted:
        return fits
    said = " ".join(parts)
    first = dict.fromkeys(name.split("-")[0] for name in known)
    near = near_matches(said, [*known, *first, *places["provider"].values(), *TERMS, *WEIGHT_FORMATS])
    hint = f"did you mean {' or '.join(near)}?" if near else "`shardwise catalog gpus` lists GPU types"
    raise _bad(text, f"{said!r} is no GPU type, provider, term or format; {hint}")


def _known(value: str, known: dict[str, str], what: str, text: str) -> str:
    found = known.get(value.lower())
    if found is None:
        near = near_matches(value, known.values())
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise _bad(text, f"no offer has the {what.replace('_', ' ')} {value!r}{hint}")
    return found


def _one_of(value: str, known: Iterable[str], what: str, text: str) -> str:
    if value not in known:
        raise _bad(text, f"unknown {what} {value!r} (accepted: {', '.join(known)})")
    return value


def _count(name: str, value: str, text: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 100_000:
        raise _bad(text, f"{name} {value!r}: expected a whole number from 1 to 100,000")
    return int(value)


def _bad(text: str, problem: str) -> QuestionError:
    return QuestionError(f"--why-not {text!r}: {problem}; expected a layout, such as {EXAMPLE}")
