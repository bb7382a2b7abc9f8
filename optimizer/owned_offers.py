"""The user's own hardware among the offers (see optimizer.owned)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pandas as pd

from catalogs.gpus import get_gpu
from catalogs.nodes import default_fabric
from catalogs.offers import OFFER_COLUMNS, OfferTable
from optimizer.owned import OWNED, OwnedHardware

SOURCE = "owned"  # of such offers
PORT_GBIT_PER_S = 400.0  # a port of today's generation
_SORT = ["price_usd_per_node_hour", "provider", "region", "instance_type", "term"]


def with_owned(table: OfferTable, owned: Sequence[OwnedHardware], today: date) -> OfferTable:
    """Return the offers with the user's own hardware among them; those of an earlier call are replaced.

    Args:
        table: offers at list prices.
        owned: the hardware.
        today: the day on which its cost counts as seen.
    """
    frame = table.frame[table.frame["source"] != SOURCE]
    if not owned:
        return table if len(frame) == len(table.frame) else replace(table, frame=frame.reset_index(drop=True))
    own = pd.DataFrame([_row(one, today) for one in owned])[list(OFFER_COLUMNS)]
    own = own.astype({name: frame[name].dtype for name in ("network_gbit_per_s", "max_nodes", "seen_on")})
    both = pd.concat([own, frame], ignore_index=True).drop_duplicates(["provider", "region", "instance_type", "term"])
    both = both.sort_values(_SORT, kind="stable", ignore_index=True)
    return replace(table, frame=both, sources=table.sources | {SOURCE: "the user's own hardware, by its costs"})


def _row(one: OwnedHardware, today: date) -> dict[str, object]:
    fabric, scale_up_gpus = default_fabric(get_gpu(one.gpu), one.gpus_per_node)
    rate = one.network_gbit_per_s
    if rate is None and one.network != "none":
        rate = PORT_GBIT_PER_S * one.gpus_per_node
    return {
        "provider": "own",
        "provider_kind": "own",
        "region": one.region,
        "instance_type": one.label,
        "gpu": one.gpu,
        "gpus_per_node": one.gpus_per_node,
        "fabric": fabric,
        "scale_up_gpus": scale_up_gpus,
        "network": "unknown" if one.network == "none" else one.network,
        "network_gbit_per_s": float("nan") if one.network == "none" else rate,
        "term": OWNED,
        # A price has to be one: hardware that costs nothing still counts a cent.
        "price_usd_per_node_hour": max(round(one.usd_per_node_hour, 6), 0.01),
        "max_nodes": float("nan") if one.max_nodes is None else float(one.max_nodes),
        "seen_on": pd.Timestamp(today),
        "source": SOURCE,
    }
