"""The bundled price files as periods: what a history would hold of them, without a database."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from itertools import groupby
from pathlib import Path

import pandas as pd

from catalogs.history.reading import PERIOD_COLUMNS
from catalogs.offer_files import KEY, read_price_files
from catalogs.offers import PRICES_FOLDER


def bundled_periods(folder: Path = PRICES_FOLDER) -> pd.DataFrame:
    """Return the periods of the bundled files; columns as catalogs.history.reading.PERIOD_COLUMNS, without hashes.

    A file is a complete look of its source, at noon of its day.

    Raises:
        DataFileError: a file has bad rows.
    """
    files = [
        (path.parent.name, date.fromisoformat(path.stem), path)
        for path in sorted(folder.glob("*/*.csv"))
        if not path.name.endswith(".set_aside.csv")
    ]
    found = []
    for source, looks in groupby(files, key=lambda one: one[0]):
        frames = [read_price_files([(source, path)]).assign(day=pd.Timestamp(day)) for _, day, path in looks]
        found.append(_periods(pd.concat(frames, ignore_index=True)))
    return pd.concat(found, ignore_index=True)


def _periods(looked: pd.DataFrame) -> pd.DataFrame:
    """Return the periods of one source's rows, each with the day of its look."""
    days = sorted(looked["day"].unique())
    number = looked["day"].map({day: place for place, day in enumerate(days)})
    ordered = looked.assign(look=number).sort_values([*KEY, "look"], kind="stable", ignore_index=True)
    before = ordered.shift()
    goes_on = (ordered[KEY] == before[KEY]).all(axis=1) & (ordered["look"] == before["look"] + 1)
    goes_on &= ordered["price_usd_per_node_hour"] == before["price_usd_per_node_hour"]
    run = (~goes_on).cumsum()
    last = ordered.groupby(run).tail(1).reset_index(drop=True)
    ends = {place: _noon(day) for place, day in enumerate(days)}
    starts = ordered.groupby(run)["look"].first().reset_index(drop=True)
    after = last["look"] + 1
    seen_next = set(zip(*(ordered[name] for name in (*KEY, "look")), strict=True))
    gone = [key not in seen_next for key in zip(*(last[name] for name in KEY), after, strict=True)]
    until = pd.to_datetime(after.map(ends), utc=True)
    carried = last["seen_on"].where(last["seen_on"] < last["day"])
    return last.assign(
        price_usd_per_gpu_hour=last["price_usd_per_node_hour"] / last["gpus_per_node"],
        first_seen=pd.to_datetime(starts.map(ends), utc=True),
        last_seen=pd.to_datetime(last["look"].map(ends), utc=True),
        until=until,
        gone=pd.Series(gone) & until.notna(),
        carried_from=carried,
        first_sha256="",
        last_sha256="",
    )[list(PERIOD_COLUMNS)]


def _noon(day: pd.Timestamp) -> datetime:
    return datetime.combine(day.date(), time(12), UTC)
