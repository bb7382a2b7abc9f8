"""Crusoe: its interface tells what is free where, but no prices; those are read from its price page by hand."""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import hmac
import re
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path

from fetchers.errors import CredentialsError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries, number, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

PRICES_FILE = Path(__file__).parent.parent / "data" / "crusoe_prices.csv"
VERSION = "/v1alpha5"

_PROJECT = re.compile(r"[A-Za-z0-9-]{1,64}")


class Crusoe(Source):
    """Machines that are free now, at the price page's price per GPU and as old as that was read."""

    name = "crusoe"
    title = "Crusoe"
    url = "https://api.crusoecloud.com"
    kind = "provider"
    terms = "documented interface, signed with keys of one's own account; prices from the public page"
    needs = ("CRUSOE_ACCESS_KEY", "CRUSOE_SECRET_KEY", "CRUSOE_PROJECT_ID")

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for what is free, and for what the machine types are made of."""
        self.demand_credentials(session.credentials)
        project = session.credentials.setting(self.name, "CRUSOE_PROJECT_ID")
        if not _PROJECT.fullmatch(project):
            raise CredentialsError(self.name, "CRUSOE_PROJECT_ID is not an id", "Copy it from the console.")
        paths = {"capacities": "/capacities", "types": f"/projects/{project}/compute/vms/types"}
        return self.pull(
            *(
                self.get(session, VERSION + path, label=label, headers=self._signed(session, VERSION + path))
                for label, path in paths.items()
            )
        )

    def _signed(self, session: HttpSession, path: str) -> dict[str, str]:
        """Return the headers that sign a GET without a query: HMAC-SHA256 over path, query, method and time."""
        access = session.credentials.secret(self.name, "CRUSOE_ACCESS_KEY")
        secret = session.credentials.secret(self.name, "CRUSOE_SECRET_KEY")
        stamp = datetime.now(UTC).replace(microsecond=0).isoformat()
        try:
            key = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
        except (binascii.Error, ValueError):
            raise CredentialsError(self.name, "CRUSOE_SECRET_KEY is not a key", "Copy it again.") from None
        digest = hmac.digest(key, f"{path}\n\nGET\n{stamp}\n".encode(), hashlib.sha256)
        signature = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return {"X-Crusoe-Timestamp": stamp, "Authorization": f"Bearer 1.0:{access}:{signature}"}

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a machine type and location; those that are sold out or without a price are set aside."""
        answers = {part.label: document(self.name, part) for part in pull.parts}
        types = entries(self.name, answers.get("types"), "items", keys=("product_name", "gpu_type", "num_gpu"))
        free: dict[str, dict[str, int]] = {}
        for entry in entries(self.name, answers.get("capacities"), "items", keys=("type", "location", "quantity")):
            places = free.setdefault(text(entry.get("type")), {})
            place, quantity = text(entry.get("location")), whole(entry.get("quantity")) or 0
            places[place] = max(quantity, places.get(place, 0))
        return [
            row
            for entry in types
            if whole(entry.get("num_gpu"))
            for row in _rows(entry, free.get(text(entry.get("product_name")), {}), day)
        ]


def _rows(entry: Entry, places: dict[str, int], day: date) -> list[RawRow]:
    spelling = text(entry.get("gpu_type"))
    price, seen_on = load_prices().get(spelling, (None, day))
    return [
        RawRow(
            source="crusoe",
            provider="crusoe",
            region=place or "global",
            instance_type=text(entry.get("product_name")),
            spelling=spelling,
            gpus=whole(entry.get("num_gpu")),
            term="on-demand",
            price_usd=price,
            per="gpu",
            max_nodes=float(quantity) if quantity else None,
            seen_on=min(day, seen_on),
            refused="" if quantity else "not free to rent",
        )
        for place, quantity in (places or {"": 0}).items()
    ]


@lru_cache(maxsize=1)
def load_prices() -> dict[str, tuple[float | None, date]]:
    """Return the price per GPU-hour and the day it was read, by GPU type (cached)."""
    with PRICES_FILE.open(encoding="utf-8", newline="") as file:
        return {
            row["gpu"]: (number(row["price_usd_per_gpu_hour"]), date.fromisoformat(row["seen_on"]))
            for row in csv.DictReader(file)
        }
