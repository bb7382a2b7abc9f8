"""Azure Retail Prices: machines by the hour, with their spot, reservation and many other meters beside them."""

from __future__ import annotations

from datetime import date

from catalogs.offer_files import Term
from fetchers.errors import ContentError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries_of_parts, mapping, number, text
from fetchers.pulls import RawPart, RawPull
from fetchers.source import Source

HOURS_PER_YEAR = 8760.0
MAX_PAGES = 300
# Every machine with a GPU has a name that starts with N; without the filter the list has some 150 pages more.
FILTER = "serviceName eq 'Virtual Machines' and contains(armSkuName, 'Standard_N')"

_RESERVED: dict[str, tuple[Term, float]] = {"1 Year": ("reserved-1y", 1.0), "3 Years": ("reserved-3y", 3.0)}
_NOT_OFFERED = (
    ("type", "DevTestConsumption", "a discount for test subscriptions"),
    ("productName", "Windows", "with a Windows licence"),
    ("productName", "Cloud Services", "another service than virtual machines"),
    ("productName", "Dedicated", "a dedicated host"),
    ("meterName", "Low Priority", "low priority, for batch accounts only"),
)


class Azure(Source):
    """On-demand, spot and reserved prices of GPU machines in every region."""

    name = "azure"
    title = "Microsoft Azure"
    url = "https://prices.azure.com"
    kind = "provider"
    terms = "documented public interface"
    interval_s = 0.3

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every page of prices of machines whose name starts with N."""
        parts: list[RawPart] = [
            self.get(session, "/api/retail/prices", label="page 1", params={"$filter": FILTER}, previous=previous)
        ]
        while link := text(mapping(document(self.name, parts[-1])).get("NextPageLink")):
            if len(parts) == MAX_PAGES:
                raise ContentError(self.name, f"more than {MAX_PAGES} pages", "The filter no longer holds; report it.")
            label = f"page {len(parts) + 1}"
            before = previous.part(label) if previous else None
            parts.append(session.get(self.origin, link, label=label, previous=before, from_answer=True))
        return self.pull(*parts)

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a meter; those that are no plain machine are set aside."""
        items = entries_of_parts(pull, "Items", keys=("armSkuName", "retailPrice", "type", "meterName", "productName"))
        return [_row(item, day) for item in items]


def _row(item: Entry, day: date) -> RawRow:
    term, hours, refused = _term(item)
    price, currency = number(item.get("retailPrice")), text(item.get("currencyCode")).upper() or "USD"
    per_hour = None if price is None else price / hours
    return RawRow(
        source="azure",
        provider="azure",
        region=text(item.get("armRegionName")) or "global",
        instance_type=text(item.get("armSkuName")),
        spelling=text(item.get("armSkuName")),
        term=term,
        price_usd=per_hour if currency == "USD" else None,
        currency=currency,
        price_in_currency=None if currency == "USD" else per_hour,
        per="node",
        seen_on=day,
        refused=refused or _why_not(item, day),
    )


def _term(item: Entry) -> tuple[Term, float, str]:
    """Return the term, the hours that the price pays for, and why it is none of ours.

    A reservation's price is that of the whole term although its unit says "1 Hour".
    """
    if text(item.get("type")) == "Reservation":
        length = text(item.get("reservationTerm"))
        term, years = _RESERVED.get(length, ("reserved-3y", 1.0))
        return term, years * HOURS_PER_YEAR, "" if length in _RESERVED else f"a term of {length or 'no stated length'}"
    return "spot" if "Spot" in text(item.get("meterName")) else "on-demand", 1.0, ""


def _why_not(item: Entry, day: date) -> str:
    for field, mark, reason in _NOT_OFFERED:
        if mark in text(item.get(field)):
            return reason
    if text(item.get("unitOfMeasure")) != "1 Hour":
        return "not priced by the hour"
    if number(item.get("tierMinimumUnits")):
        return "a price for more than a first quantity"
    if text(item.get("effectiveStartDate"))[:10] > day.isoformat():
        return "not in force yet"
    return ""
