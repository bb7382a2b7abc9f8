"""Oracle Cloud: the public price list, one price per GPU-hour for all regions."""

from __future__ import annotations

from datetime import date

from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, entries_of_parts, listed, mapping, number, text
from fetchers.pulls import RawPull
from fetchers.source import Source


class Oci(Source):
    """Prices per GPU by part number; the shapes that they buy are in the table of providers.

    Preemptible capacity costs half, but the list does not say which shapes allow it, so no spot price is made up.
    """

    name = "oci"
    title = "Oracle Cloud Infrastructure"
    url = "https://apexapps.oracle.com"
    kind = "provider"
    terms = "public price list interface"

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for the price list in USD."""
        params = {"currencyCode": "USD"}
        return self.pull(self.get(session, "/pls/apex/cetools/api/v1/products/", params=params, previous=previous))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a GPU product."""
        products = entries_of_parts(pull, "items", keys=("partNumber", "currencyCodeLocalizations"))
        return [_row(product, day) for product in products if _is_gpu(product)]


def _is_gpu(product: Entry) -> bool:
    told = f"{text(product.get('displayName'))} {text(product.get('metricName'))}".upper()
    return "GPU" in told and "HOUR" in told


def _row(product: Entry, day: date) -> RawRow:
    prices = {
        text(mapping(local).get("currencyCode")).upper(): _pay_as_you_go(mapping(local))
        for local in listed(product.get("currencyCodeLocalizations"))
    }
    currency = "USD" if "USD" in prices or not prices else next(iter(prices))
    price = prices.get(currency)
    return RawRow(
        source="oci",
        provider="oci",
        spelling=text(product.get("partNumber")),
        term="on-demand",
        price_usd=price if currency == "USD" else None,
        currency=currency,
        price_in_currency=None if currency == "USD" else price,
        per="gpu",
        seen_on=day,
    )


def _pay_as_you_go(local: Entry) -> float | None:
    """Return the dearest tier's price: the first hours of some products are free."""
    found = [
        number(mapping(price).get("value"))
        for price in listed(local.get("prices"))
        if mapping(price).get("model") == "PAY_AS_YOU_GO"
    ]
    return max((price for price in found if price is not None), default=None)
