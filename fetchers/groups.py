"""Markets list single machines; a catalog needs one offer a kind: the cheapest that can be had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from fetchers.normalize import RawRow


def cheapest_of_kind(rows: Iterable[RawRow]) -> list[RawRow]:
    """Return one row a kind of machine, place and term: its lowest price, with the machines seen free at that price.

    Rows that are refused, or without a price above zero, stay as they are, so that each is set aside with its reason.
    """
    groups: dict[RawRow, list[RawRow]] = defaultdict(list)
    left = []
    for row in rows:
        if row.refused or not row.price_usd or row.price_usd < 0:
            left.append(row)
        else:
            groups[replace(row, price_usd=None, max_nodes=None)].append(row)
    return left + [_cheapest(group) for group in groups.values()]


def _cheapest(group: list[RawRow]) -> RawRow:
    lowest = min(group, key=lambda row: row.price_usd or 0.0)
    at_price = [row.max_nodes for row in group if row.price_usd == lowest.price_usd]
    counted = [nodes for nodes in at_price if nodes is not None]
    return replace(lowest, max_nodes=sum(counted) if len(counted) == len(at_price) else None)
