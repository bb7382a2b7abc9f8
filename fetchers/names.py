"""Small readings that several sources share: countries, memory sizes, products with their variants."""

from __future__ import annotations

import re
from functools import lru_cache

from catalogs.gpus import load_gpus
from fetchers.normalize import ANY, load_aliases

# A card reports up to 7 percent less than the size it is sold under (an A10G of 24 GB 22,888 MiB, an L40S 46,068).
_REPORTED_LESS = 0.08

_SIZE = re.compile(r"-(\d+)GB$")
_COUNTRY = re.compile(r"[A-Za-z]{2}")


def country_of(place: str) -> str:
    """Return the country code that ends a place ("Guangxi, CN", ", US"); "global" where there is none."""
    last = place.rpartition(",")[2].strip()
    return last.upper() if _COUNTRY.fullmatch(last) else "global"


def nominal_memory_gb(reported_gib: float) -> float:
    """Return the size under which a card of this reported memory is sold; the reported one when none is near."""
    near = min(_sizes(), key=lambda size: abs(size - reported_gib))
    return near if abs(near - reported_gib) <= _REPORTED_LESS * near else float(round(reported_gib))


@lru_cache(maxsize=1)
def _sizes() -> tuple[float, ...]:
    return tuple(sorted({float(found[1]) for name in load_gpus() if (found := _SIZE.search(name))}))


def size_of_spelling(source: str, spelling: str) -> float | None:
    """Return the nominal memory of the GPU that a source's spelling means, in GB; None when it means none."""
    gpu, _ = load_aliases().get((source, ANY, spelling, ""), ("", ""))
    found = _SIZE.search(gpu)
    return float(found[1]) if found else None
