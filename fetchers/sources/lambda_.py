"""Lambda: machine types with their price, the same in all regions."""

from __future__ import annotations

import re
from datetime import date

from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, listed, mapping, number, text, unchanged, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

CENTS_PER_USD = 100

_COUNT = re.compile(r"(\d+)x ")


class Lambda(Source):
    """What each machine type costs. GPU, count and memory stand only in the description; there is no spot market."""

    name = "lambda"
    title = "Lambda"
    url = "https://cloud.lambdalabs.com"
    kind = "provider"
    terms = "documented interface, key of one's own account"
    needs = ("LAMBDA_API_KEY",)

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for the machine types."""
        self.demand_credentials(session.credentials)
        key = session.credentials.secret(self.name, "LAMBDA_API_KEY")
        headers = {"Authorization": f"Bearer {key}"}
        return self.pull(self.get(session, "/api/v1/instance-types", headers=headers, previous=previous))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a machine type; those without capacity anywhere are set aside."""
        types = unchanged(self.name, document(self.name, pull.parts[0]), "data")
        return [_row(mapping(entry), day) for entry in types.values()]


def _row(entry: Entry, day: date) -> RawRow:
    machine = mapping(entry.get("instance_type"))
    description = text(machine.get("description"))
    cents = number(machine.get("price_cents_per_hour"))
    counted = _COUNT.match(description)
    count = whole(mapping(machine.get("specs")).get("gpus"))
    if count is None and counted:
        count = int(counted[1])
    in_stock = "regions_with_capacity_available" not in entry or listed(entry["regions_with_capacity_available"])
    refused = "a machine without a GPU" if count == 0 else "" if in_stock else "no region has it free"
    return RawRow(
        source="lambda",
        provider="lambda",
        instance_type=text(machine.get("name")),
        spelling=description,
        gpus=count,
        term="on-demand",
        price_usd=None if cents is None else cents / CENTS_PER_USD,
        per="node",
        seen_on=day,
        refused=refused,
    )
