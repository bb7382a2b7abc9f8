"""Who rents GPUs: their kind, their other names, and the node shapes they sell where a price is per GPU."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from catalogs.errors import DataFileError, UnknownNameError

ProviderKind = Literal["hyperscaler", "gpu-cloud", "marketplace", "own"]

PROVIDERS_FILE = Path(__file__).parent / "data" / "providers.toml"

_BOARD_COUNTS = (1, 2, 4, 8)
_TRAY_COUNTS = (4,)
_CARD_COUNTS = (1,)
_BOARD_NAMES = ("-SXM-", "MI300X", "MI325X", "MI350X", "MI355X", "GAUDI")


class Provider(BaseModel):
    """One company that rents GPUs.

    Attributes:
        name: the short name that offers carry.
        display_name: the name that people know.
        kind: "marketplace" when the machines are those of many hosts that the company does not vouch for.
        aliases: how sources spell the name.
        counts: GPUs per node that are sold, by canonical GPU name; "default" for GPUs not listed.
        machines: canonical GPU name -> the provider's own machine names that a per-GPU price buys, with their GPUs.
        not_sold: machines that price files list on-demand although they cannot be rented so.
        bid_floors: the published prices are the lowest bids allowed; no offer is made from them.
        source: where this was read, with its date.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    display_name: str
    kind: ProviderKind
    aliases: tuple[str, ...] = ()
    counts: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    machines: dict[str, dict[str, int]] = Field(default_factory=dict)
    not_sold: tuple[str, ...] = ()
    bid_floors: bool = False
    source: str

    def counts_of(self, gpu: str) -> tuple[int, ...]:
        """Return the GPUs per node in which this provider sells a GPU.

        Where no source says: boards (SXM, OAM) in 1, 2, 4 and 8, NVL72 racks by the tray of 4, cards singly, because
        for a card the price is only known to buy one.
        """
        known = self.counts.get(gpu) or self.counts.get("default")
        if known:
            return known
        if gpu.endswith("-NVL72"):
            return _TRAY_COUNTS
        return _BOARD_COUNTS if any(mark in gpu for mark in _BOARD_NAMES) else _CARD_COUNTS


@lru_cache(maxsize=1)
def load_providers() -> Mapping[str, Provider]:
    """Return the bundled providers by short name, in file order (cached). Raises DataFileError with every bad entry."""
    return MappingProxyType(read_providers(PROVIDERS_FILE))


def read_providers(path: Path) -> dict[str, Provider]:
    """Read a providers file. Raises DataFileError with every entry that is not a provider."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataFileError(path, [f"cannot be read: {error}"]) from error
    providers: dict[str, Provider] = {}
    problems: list[str] = []
    for name, fields in tables.items():
        try:
            providers[name] = Provider(name=name, **(fields if isinstance(fields, dict) else {"entry": fields}))
        except ValidationError as error:
            problems += [f"{name}.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    spellings = Counter(spelling for provider in providers.values() for spelling in _spellings(provider))
    problems += [f"{spelling!r} names more than one provider" for spelling, times in spellings.items() if times > 1]
    if problems:
        raise DataFileError(path, problems)
    return providers


def get_provider(name: str) -> Provider:
    """Return one provider by short name or alias, case-insensitively. Raises UnknownNameError with near matches."""
    found = _by_spelling().get(name.lower())
    if found is None:
        raise UnknownNameError("provider", name, load_providers())
    return load_providers()[found]


@lru_cache(maxsize=1)
def _by_spelling() -> dict[str, str]:
    return {spelling: provider.name for provider in load_providers().values() for spelling in _spellings(provider)}


def _spellings(provider: Provider) -> set[str]:
    return {spelling.lower() for spelling in (provider.name, *provider.aliases)}
