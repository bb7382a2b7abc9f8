"""AWS spot: the present price of machines with GPUs in every availability zone, asked region by region."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from xml.etree import ElementTree

from catalogs.nodes import load_nodes
from fetchers.errors import ContentError, CredentialsError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import number
from fetchers.pulls import RawPart, RawPull
from fetchers.sigv4 import AwsKeys, canonical_query, sign_get
from fetchers.source import Source

# Where most GPUs are; AWS_REGIONS names others. Regions that an account has not enabled are left out.
REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1", "ap-south-1")
REGIONS_VARIABLE = "AWS_REGIONS"
MAX_PAGES = 50

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")


class AwsSpot(Source):
    """The lowest zone's spot price of each machine and region. A machine may not be had in that zone all day."""

    name = "aws-spot"
    title = "Amazon Web Services, spot"
    url = "https://ec2.us-east-1.amazonaws.com"
    kind = "provider"
    terms = "documented interface; needs the right ec2:DescribeSpotPriceHistory"
    needs = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    interval_s = 0.1

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask each region for the prices of now."""
        self.demand_credentials(session.credentials)
        keys = AwsKeys(
            session.credentials.secret(self.name, "AWS_ACCESS_KEY_ID"),
            session.credentials.secret(self.name, "AWS_SECRET_ACCESS_KEY"),
            session.credentials.optional("AWS_SESSION_TOKEN"),
        )
        parts: list[RawPart] = []
        refused: CredentialsError | None = None
        for region in self._regions(session):
            try:
                parts += list(self._ask_region(session, keys, region))
            except CredentialsError as error:
                refused = error  # the account has not enabled this region, or the keys are wrong: then all fail
        if not parts and refused:
            raise refused
        return self.pull(*parts)

    def _regions(self, session: HttpSession) -> list[str]:
        named = session.credentials.optional(REGIONS_VARIABLE).replace(",", " ").split() or list(REGIONS)
        for region in named:
            if not _REGION.fullmatch(region):
                what = f"{REGIONS_VARIABLE} names {region[:30]!r}, which is no region"
                raise CredentialsError(self.name, what, "Write names such as us-east-1, with commas between.")
        return list(dict.fromkeys(named))

    def _ask_region(self, session: HttpSession, keys: AwsKeys, region: str) -> Iterator[RawPart]:
        source = self if self.is_elsewhere else AwsSpot(f"https://ec2.{region}.amazonaws.com")
        url = f"{source.base_url}/"
        params = {
            "Action": "DescribeSpotPriceHistory",
            "Version": "2016-11-15",
            "ProductDescription.1": "Linux/UNIX",
            "StartTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "MaxResults": "1000",
        }
        machines = sorted(name for provider, name in load_nodes() if provider == "aws")
        params |= {f"InstanceType.{number_}": name for number_, name in enumerate(machines, start=1)}
        for page in range(1, MAX_PAGES + 1):
            headers = sign_get(keys, url, params, region, "ec2", datetime.now(UTC))
            part = session.get(
                source.origin,
                f"{url}?{canonical_query(params)}",
                label=f"{region} {page}",
                headers=headers,
                expect="xml",
            )
            yield part
            token = _text(_xml(part), "nextToken")
            if not token:
                return
            params["NextToken"] = token
        raise ContentError(self.name, f"more than {MAX_PAGES} pages for {region}", "Report it.")

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a machine and region, at the price of its cheapest zone."""
        latest: dict[tuple[str, str, str], tuple[str, float | None]] = {}
        for part in pull.parts:
            region = part.label.split()[0]
            for item in _xml(part).iter():
                if _tag(item) != "item":
                    continue
                key = (region, _text(item, "instanceType"), _text(item, "availabilityZone"))
                seen = (_text(item, "timestamp"), number(_text(item, "spotPrice")))
                if key not in latest or seen[0] > latest[key][0]:
                    latest[key] = seen
        zones: dict[tuple[str, str], list[float | None]] = {}
        for (region, machine, _), (_, price) in latest.items():
            zones.setdefault((region, machine), []).append(price)
        return [_row(region, machine, prices, day) for (region, machine), prices in zones.items()]


def _row(region: str, machine: str, prices: list[float | None], day: date) -> RawRow:
    positive = [price for price in prices if price is not None and price > 0]
    return RawRow(
        source="aws-spot",
        provider="aws",
        region=region,
        instance_type=machine,
        spelling=machine,
        term="spot",
        price_usd=min(positive) if positive else prices[0],
        per="node",
        seen_on=day,
    )


def _xml(part: RawPart) -> ElementTree.Element:
    """Return the parsed answer. A document type is refused: entities in it can swell without end."""
    if b"<!" in part.body.replace(b"<!--", b""):
        raise ContentError("aws-spot", "the answer holds a document type", "It is not what EC2 sends; report it.")
    try:
        return ElementTree.fromstring(part.body)
    except ElementTree.ParseError:
        raise ContentError("aws-spot", "the answer is not whole XML", "Pull it again.", url=part.url) from None


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ElementTree.Element, name: str) -> str:
    found = next((child.text for child in element if _tag(child) == name), None)
    return (found or "").strip()
