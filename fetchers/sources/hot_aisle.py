"""Hot Aisle: AMD machines that are free now, virtual and bare metal, at one site."""

from __future__ import annotations

import re
from datetime import date

from fetchers.errors import CredentialsError
from fetchers.groups import cheapest_of_kind
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries, listed, mapping, number, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

CENTS_PER_USD = 100
REGION = "us-michigan-1"  # its only site

_TEAM = re.compile(r"[A-Za-z0-9._-]{1,100}")
_KINDS = {"virtual_machines": "vm", "bare_metal": "bm"}


class HotAisle(Source):
    """What can be rented now, with prices in cents."""

    name = "hot-aisle"
    title = "Hot Aisle"
    url = "https://admin.hotaisle.app"
    kind = "provider"
    terms = "documented interface, key and team of one's own account"
    needs = ("HOTAISLE_API_KEY", "HOTAISLE_TEAM")

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for both kinds of machines."""
        self.demand_credentials(session.credentials)
        team = session.credentials.setting(self.name, "HOTAISLE_TEAM")
        if not _TEAM.fullmatch(team):
            raise CredentialsError(self.name, "HOTAISLE_TEAM is not a team's handle", "Copy it from the account page.")
        headers = {"Authorization": f"Token {session.credentials.secret(self.name, 'HOTAISLE_API_KEY')}"}
        return self.pull(
            *(
                self.get(
                    session, f"/api/teams/{team}/{kind}/available/", label=kind, headers=headers, previous=previous
                )
                for kind in _KINDS
            )
        )

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a kind of machine; null stands in place of an empty list."""
        rows: list[RawRow] = []
        for part in pull.parts:
            answer = document(self.name, part)
            found = entries(self.name, [] if answer is None else answer, keys=("OnDemandPrice", "Specs"))
            rows += [_row(entry, _KINDS.get(part.label, part.label), day) for entry in found]
        return cheapest_of_kind(rows)


def _row(entry: Entry, kind: str, day: date) -> RawRow:
    gpus = [mapping(gpu) for gpu in listed(mapping(entry.get("Specs")).get("gpus"))]
    gpu = gpus[0] if gpus else {}
    cents, model, count = number(entry.get("OnDemandPrice")), text(gpu.get("model")), whole(gpu.get("count"))
    return RawRow(
        source="hot-aisle",
        provider="hotaisle",
        region=REGION,
        instance_type=f"{kind}-{model.lower()}-{count}" if model and count else "",
        spelling=model,
        gpus=count,
        term="on-demand",
        price_usd=None if cents is None else cents / CENTS_PER_USD,
        per="node",
        max_nodes=1.0,
        seen_on=day,
        refused="several kinds of GPU in one machine" if len(gpus) > 1 else "",
    )
