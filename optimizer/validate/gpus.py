"""From "RTX PRO 4500 Blackwell 32GB" to a GPU: the catalog's names, its table of spellings, and cards nobody rents."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from catalogs.gpus import GPUS_FILE, Gpu, load_gpus

ALIASES_FILE: Final = GPUS_FILE.with_name("gpu_aliases.csv")
OTHERS_FILE: Final = Path(__file__).parent / "data" / "other_gpus.csv"
_PIECES = re.compile(r"\s*(?:[,;/+]|\bvs\.?\b|\bor\b|\band\b)\s*", re.IGNORECASE)
_MEMORY = re.compile(r"(?<![\w.])(\d{1,3})\s*GI?B\b")
_SM = re.compile(r"\bSM\s?(\d)(\d)(\d)?\b")
_COUNT = re.compile(r"^\s*\d+\s*[xX]\s*")
_NOISE = re.compile(
    r"\b(NVIDIA|TESLA|GEFORCE|QUADRO|AMD|INSTINCT|INTEL|BLACKWELL|AMPERE|GPUS?|NVLINK|PCIE?|SXM\d?|NVL|HBM\d?E?|CARDS?|"
    r"INFINIBAND|SERVER|WORKSTATION|EDITION|LAPTOP)\b"
)
_MIG: Final = re.compile(r"\bMIG\b|\b\dG\.\d+GB\b")
# What a MIG slice of so many GB leaves to a process (NVIDIA MIG user guide, r570, 2025, device tables; 1/8 steps).
_MIG_SLICE = re.compile(r"\b(\d)G\.(\d+)GB\b")
MIG_USABLE_SHARE: Final = 0.98


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as a report has it.

    Attributes:
        name: canonical name, or the one of other_gpus.csv; "SM86" and the like where only the capability is said.
        capability: compute capability.
        memory_bytes: usable memory; None where only the capability is said.
        linked: whether the GPUs of a node have NVLink or the like between them.
        gpu: the catalog's GPU, where it holds one.
    """

    name: str
    capability: str
    memory_bytes: float | None
    linked: bool
    gpu: Gpu | None = None

    @property
    def generation(self) -> float:
        """The compute capability as a number; 0 for GPUs that are not NVIDIA's."""
        try:
            return float(self.capability)
        except ValueError:
            return 0.0


def read_cards(text: str) -> tuple[Card, ...]:
    """Return the GPUs that a report names, in its order; empty where none is known."""
    upper = text.upper()
    named = [card for piece in _PIECES.split(re.sub(r"\(.*?\)", " ", upper)) if (card := _read_card(piece, upper))]
    kept = list({card.name: card for card in named}.values())
    if kept:
        return tuple(kept)
    return tuple(Card(f"SM{a}{b}{c}", _capability(a, b, c), None, True) for a, b, c in _SM.findall(upper))


def _capability(major: str, minor: str, third: str) -> str:
    return f"{major}{minor}.{third}" if third else f"{major}.{minor}"


def _read_card(piece: str, whole: str) -> Card | None:
    size = _MEMORY.search(piece)
    memory = int(size.group(1)) if size else None
    base = re.sub(r"[^A-Z0-9]", "", _NOISE.sub(" ", _MEMORY.sub(" ", _MIG_SLICE.sub(" ", _COUNT.sub("", piece)))))
    base = base.replace("MIG", "")
    if not base or len(base) > 40:
        return None
    pcie_only = bool(re.search(r"\bPCIE?\b", piece)) and "NVLINK" not in whole
    gpu = _catalog_gpu(base, memory, "PCIE" if pcie_only else "NVL" if re.search(r"\bNVL\b", piece) else "SXM")
    if gpu is not None:
        linked = gpu.scale_up_kind not in {"pcie", "nvlink_bridge"}
        bridged = "NVLINK" in whole and " VS " not in whole
        return _sliced(Card(gpu.name, gpu.compute_capability, gpu.memory_bytes, linked or bridged, gpu), piece)
    other = _others().get(base) or _others().get(f"RTX{base}")
    if other is None or (memory and abs(memory - int(other["name"].split("-")[-1].removesuffix("GB"))) > 8):
        return None
    return _sliced(
        Card(other["name"], other["compute_capability"], float(other["memory_gib"]) * 2**30, other["linked"] == "1"),
        piece,
    )


def _sliced(card: Card, piece: str) -> Card:
    """A MIG slice has its own memory and no link to another."""
    found = _MIG_SLICE.search(piece)
    if not _MIG.search(piece) or found is None:
        return card
    return Card(
        f"{card.name} MIG {found.group(0).lower()}",
        card.capability,
        int(found.group(2)) * 2**30 * MIG_USABLE_SHARE,
        False,
    )


def _catalog_gpu(base: str, memory: int | None, form: str) -> Gpu | None:
    """The catalog's GPU of this base name and memory: the form asked for, of several sizes the largest."""
    gpus = load_gpus()
    for spelling in (base, f"RTX{base}"):
        sized = [gpu for gpu in gpus.values() if _base(gpu.name) == spelling]
        if memory is not None:
            sized = [gpu for gpu in sized if 0.88 * memory <= gpu.memory_gib <= 1.07 * memory]
        formed = [gpu for gpu in sized if form in gpu.name] or sized
        if formed:
            return max(formed, key=lambda gpu: gpu.memory_gib)
    return _aliased(base, memory)


def _base(name: str) -> str:
    parts = name.upper().split("-")
    return re.sub(r"[^A-Z0-9]", "", parts[0])


def _aliased(base: str, memory: int | None) -> Gpu | None:
    for (spelling, sized), name in _aliases().items():
        if spelling == base and (not sized or memory is None or int(sized) == memory):
            gpu = load_gpus().get(name)
            if gpu is not None and (memory is None or 0.88 * memory <= gpu.memory_gib <= 1.07 * memory):
                return gpu
    return None


@cache
def _aliases() -> Mapping[tuple[str, str], str]:
    with ALIASES_FILE.open(encoding="utf-8", newline="") as file:
        return {
            (re.sub(r"[^A-Z0-9]", "", row["spelling"].upper()), row["memory_gb"]): row["gpu"]
            for row in csv.DictReader(file)
            if row["gpu"]
        }


@cache
def _others() -> Mapping[str, dict[str, str]]:
    with OTHERS_FILE.open(encoding="utf-8", newline="") as file:
        return {row["spelling"]: row for row in csv.DictReader(file)}
