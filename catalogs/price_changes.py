"""What changed between two tables of offers."""

from __future__ import annotations

import pandas as pd

from catalogs.offer_files import KEY

CHANGE_COLUMNS = (
    "change",  # new, gone, dearer, cheaper
    "provider",
    "region",
    "instance_type",
    "term",
    "gpu",
    "gpus_per_node",
    "usd_per_node_hour_before",  # NaN where new
    "usd_per_node_hour_after",  # NaN where gone
    "percent",  # of the price before
)
_PRICE = "price_usd_per_node_hour"


def price_changes(before: pd.DataFrame, after: pd.DataFrame, *, by_source: bool = False) -> pd.DataFrame:
    """Return the offers that came, went, or changed their price, the largest moves first.

    Args:
        before: table with the columns of a price file (as catalogs.offers.OfferTable.frame).
        after: the same at a later moment.
        by_source: tell offers of different sources apart; the result has a column source then.
    """
    key = [*KEY, "source"] if by_source else KEY
    columns = [*key, "gpu", "gpus_per_node", _PRICE]
    both = before[columns].merge(after[columns], on=key, how="outer", suffixes=("_before", "_after"))
    old, new = both[f"{_PRICE}_before"].astype(float), both[f"{_PRICE}_after"].astype(float)
    change = pd.Series("same", index=both.index, dtype=object)
    change[new > old], change[new < old] = "dearer", "cheaper"
    change[old.isna()], change[new.isna()] = "new", "gone"
    found = both.assign(
        change=change,
        gpu=both["gpu_after"].where(both["gpu_after"].notna(), both["gpu_before"]),
        gpus_per_node=both["gpus_per_node_after"].fillna(both["gpus_per_node_before"]),
        usd_per_node_hour_before=old,
        usd_per_node_hour_after=new,
        percent=(new / old - 1) * 100,
    )[[*CHANGE_COLUMNS, *(["source"] if by_source else [])]]
    found = found[found["change"] != "same"]
    found = found.astype({"gpus_per_node": "int64"})
    order = found["percent"].abs().fillna(-1.0)
    return found.assign(_order=-order).sort_values(["_order", *key], kind="stable", ignore_index=True)[
        list(found.columns)
    ]
