"""Verda (formerly DataCrunch): machine types at one price for all sites, and which sites have them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from fetchers.errors import CredentialsError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries, listed, mapping, number, text, whole
from fetchers.pulls import RawPart, RawPull
from fetchers.source import Source

_COUNT = re.compile(r"^\d+x ")
_PARTS = {
    "types": ("/v1/instance-types", {}),
    "available": ("/v1/instance-availability", {}),
    "available as spot": ("/v1/instance-availability", {"is_spot": "true"}),
}


class Verda(Source):
    """What machines cost, on demand and as spot, at the sites that have them free."""

    name = "verda"
    title = "Verda (formerly DataCrunch)"
    url = "https://api.verda.com"
    kind = "provider"
    terms = "documented interface, client of one's own account"
    needs = ("VERDA_CLIENT_ID", "VERDA_CLIENT_SECRET")

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Log in, then ask for the types and for what is free."""
        headers = {"Authorization": f"Bearer {self._token(session)}"}
        return self.pull(
            *(
                self.get(session, path, label=label, params=params, headers=headers, previous=previous)
                for label, (path, params) in _PARTS.items()
            )
        )

    def _token(self, session: HttpSession) -> str:
        self.demand_credentials(session.credentials)
        asked = {
            "grant_type": "client_credentials",
            "client_id": session.credentials.secret(self.name, "VERDA_CLIENT_ID"),
            "client_secret": session.credentials.secret(self.name, "VERDA_CLIENT_SECRET"),
        }
        answer = self.post(session, "/v1/oauth2/token", json=asked, label="login")
        token = text(mapping(document(self.name, answer)).get("access_token"))
        if not token or not token.isprintable():
            raise CredentialsError(
                self.name, "the login gave no token", "Check VERDA_CLIENT_ID and VERDA_CLIENT_SECRET."
            )
        session.credentials.redactor.add(token)
        return token

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return rows for each machine type, term and site; a price of 0 means that there is none."""
        types = entries(self.name, _answer(pull, "types"), keys=("instance_type", "price_per_hour", "gpu"))
        places = {"on-demand": _places(pull, "available"), "spot": _places(pull, "available as spot")}
        rows: list[RawRow] = []
        for entry in types:
            if whole(mapping(entry.get("gpu")).get("number_of_gpus")):
                rows += _rows(entry, places, day)
        return rows


def _answer(pull: RawPull, label: str) -> object:
    part: RawPart | None = pull.part(label)
    return document(pull.source, part) if part else None


def _places(pull: RawPull, label: str) -> dict[str, list[str]]:
    """Return the sites that have a machine type free, by type."""
    found: dict[str, list[str]] = {}
    for site in entries(pull.source, _answer(pull, label)):
        for name in listed(site.get("availabilities")):
            found.setdefault(text(name), []).append(text(site.get("location_code")))
    return found


def _rows(entry: Entry, places: dict[str, dict[str, list[str]]], day: date) -> list[RawRow]:
    gpu, name = mapping(entry.get("gpu")), text(entry.get("instance_type"))
    gpus = whole(gpu.get("number_of_gpus")) or 1
    total_gb = number(mapping(entry.get("gpu_memory")).get("size_in_gigabytes"))
    currency = text(entry.get("currency")).upper() or "USD"
    prices = {"on-demand": number(entry.get("price_per_hour")), "spot": number(entry.get("spot_price"))}
    row = RawRow(
        source="verda",
        provider="verda",
        instance_type=name,
        spelling=_COUNT.sub("1x ", text(gpu.get("description"))),
        gpus=gpus,
        memory_gb=total_gb / gpus if total_gb else None,  # the stated memory is that of all GPUs
        term="on-demand",
        price_usd=None,
        currency=currency,
        per="node",
        seen_on=day,
    )
    found = []
    for term, price in prices.items():
        sites = places[term].get(name, [])
        priced = replace(
            row,
            term="spot" if term == "spot" else "on-demand",
            price_usd=price if currency == "USD" else None,
            price_in_currency=None if currency == "USD" else price,
            refused="" if sites or not price else "no site has it free",
        )
        found += [replace(priced, region=site or "global") for site in sites or [""]]
    return found
