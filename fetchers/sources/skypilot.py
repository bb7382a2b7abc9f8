"""SkyPilot's catalogs of virtual machines, CSV files that it publishes for its own users."""

from __future__ import annotations

from datetime import date

from fetchers.dated_files import read_skypilot
from fetchers.errors import ContentError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.pulls import RawPull
from fetchers.source import Source

# Clouds that no other source here asks without a key. What they are called in the catalog of providers.
CLOUDS = {
    "lambda": "lambda",
    "nebius": "nebius",
    "verda": "verda",
    "hyperstack": "hyperstack",
    "jarvislabs": "jarvislabs",
    "do": "digitalocean",
    "mithril": "mithril",
    "yotta": "yotta",
}
# Their files repeat every machine for every region, whatever the stock.
_SAME_EVERYWHERE = frozenset({"lambda", "verda"})
_PATH = "/skypilot-org/skypilot-catalog/master/catalogs/v8/{cloud}/vms.csv"


class SkyPilot(Source):
    """Prices of clouds that ask for a key, as SkyPilot last collected them. Off unless asked for: they may be old."""

    name = "skypilot"
    title = "SkyPilot catalogs"
    url = "https://raw.githubusercontent.com"
    kind = "collection"
    terms = "published under the Apache licence; collected every few hours to months, by cloud"
    on_by_default = False

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for one file a cloud."""
        return self.pull(
            *(
                self.get(session, _PATH.format(cloud=cloud), label=cloud, expect="csv", previous=previous)
                for cloud in CLOUDS
            )
        )

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a machine, region and term."""
        rows: list[RawRow] = []
        for part in pull.parts:
            cloud = part.label
            try:
                found = read_skypilot(
                    part.body.decode("utf-8-sig"),
                    CLOUDS.get(cloud, cloud),
                    day,
                    self.name,
                    regions_are_stock=cloud not in _SAME_EVERYWHERE,
                )
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                what = f"the file of {cloud} is not a catalog of machines ({type(error).__name__})"
                raise ContentError(self.name, what, "SkyPilot has changed its columns; report it.") from None
            rows += found
        return rows
