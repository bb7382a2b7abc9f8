"""Which of a user's runs cannot be used or look wrong, and why: told to the user, and left out of their calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.models import load_model
from optimizer.benchmarks.run import BURST, CLOSED, OPEN
from optimizer.own_runs.complete import rows_of
from optimizer.performance.calibration.observations import FULL_LOAD
from optimizer.performance.calibration.slots import MEMORY_SHARE, is_uncertain, weight_share
from optimizer.performance.efficiency import COEFFICIENTS, Efficiencies, bundled_efficiencies, shares_of_a_peak
from optimizer.performance.speed import SpeedModel
from optimizer.replica import name_replica
from optimizer.scenario import KV_DTYPES, WEIGHT_FORMATS
from optimizer.validate.speed_predict import predict_table
from optimizer.validate.speed_rows import contradicted, unpredictable

Array = npt.NDArray[np.float64]

FAR = 3.0  # times off from which on the layout is probably another than was said
MOST_FAILED = 0.05
FEWEST_ROUNDS = 2  # requests of a client below which the start and the end are most of a run
KEPT_UP = 0.9  # of the rate that requests came at
SURE = 0.95  # of a bound, for what timers and rounding take
_CAUSE = "perhaps another GPU, --tp, --weights or --replicas than was said"


def set_aside(table: pd.DataFrame) -> pd.Series:
    """Return why each stored run is not used; empty where it is.

    Runs of files that were forced are only set aside where they cannot be predicted at all.

    Args:
        table: stored runs, one a row, with `forced`.
    """
    why = table["lacks"].astype(object)
    why = why.where(why != "", unpredictable(table))
    why = _note(why, _cannot_be(table))
    doubtful = _note(pd.Series("", index=table.index, dtype=object), _looks_wrong(table))
    why = why.where((why != "") | table["forced"], doubtful)
    why = why.where((why != "") | ~_again(table), "measured once already, in another of the files")
    left = why == ""
    if left.any():
        why[left] = _against_model(table[left])
    return why


def _again(table: pd.DataFrame) -> pd.Series:
    """Which runs are those of an earlier file: tools write one run as JSON and as CSV, with fewer digits."""
    figures = table[["tpot_ms", "ttft_ms"]].fillna(0.0).astype(float).round(2)
    same = table[["model", "gpu", "engine", "n_gpus", "tp", "pp", "weight_precision"]].join(figures)
    repeated = same.duplicated()
    within = same.assign(sha256=table["sha256"]).duplicated()
    return repeated & ~within


def without_far_ttft(rows: pd.DataFrame, table: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Leave out measured TTFTs that are far off while the rest of the run is not; returns the runs, and what to say."""
    predicted = predict_table(rows, efficiencies=bundled_efficiencies())["predicted_ttft_ms"]
    far = _times(rows["ttft_s"] * 1e3 / predicted) > FAR
    drop = far & ~table["forced"] & rows["tpot_s"].notna()
    notes = pd.Series("", index=rows.index, dtype=object)
    for at in rows.index[drop]:
        notes[at] = (
            f"TTFT of {rows.loc[at, 'ttft_s'] * 1e3:,.0f} ms is left out: {predicted[at]:,.0f} ms is predicted, so it "
            "was mostly waiting, or cached prompts"
        )
    return rows.assign(ttft_s=rows["ttft_s"].mask(drop)), notes


def _note(why: pd.Series, checks: dict[str, pd.Series]) -> pd.Series:
    for text, broken in checks.items():
        why = why.where((why != "") | ~broken, text)
    return why


def _cannot_be(table: pd.DataFrame) -> dict[str, pd.Series]:
    unmeasured = table["tpot_ms"].isna() & table["ttft_ms"].isna()
    full = table["scenario"] == FULL_LOAD
    known = table["weight_precision"].isin(WEIGHT_FORMATS) & table["kv_precision"].isin(KV_DTYPES)
    formats = ", ".join(dict.fromkeys(WEIGHT_FORMATS + KV_DTYPES))
    return {
        f"weights or KV cache in a format that is none of {formats}": ~known,
        "all requests were sent at once: what was measured is mostly waiting (--max-concurrency limits them)": table[
            "scenario"
        ]
        == BURST,
        "neither TPOT nor TTFT was measured (answers have to be streamed)": unmeasured & ~full,
        "no TPOT was measured, and TTFT at a rate says most of all how requests bunch": (table["scenario"] == OPEN)
        & table["tpot_ms"].isna(),
        "no throughput": full & table["output_tok_s_total"].isna(),
        "answers of a single token": table["osl"] < 2,
    }


def _looks_wrong(table: pd.DataFrame) -> dict[str, pd.Series]:
    failed, served = table["failed"].fillna(0.0), table["completed"]
    delivered = table["output_tok_s_total"] / table["osl"]
    return {
        f"more than {MOST_FAILED:.0%} of the requests failed": failed > MOST_FAILED * (served.fillna(np.inf) + failed),
        f"fewer than {FEWEST_ROUNDS} requests for each in flight: the start and the end are most of it": (
            table["scenario"] == CLOSED
        )
        & (served < FEWEST_ROUNDS * table["concurrency"]),
        "TPOT is far below that of fewer requests on its layout": contradicted(table),
        "the server did not keep up with the rate of requests": (table["scenario"] == OPEN)
        & (delivered < KEPT_UP * table["request_rate"]),
    }


def _against_model(table: pd.DataFrame) -> pd.Series:
    """Why runs that can be predicted are set aside all the same: layout, physics, and far-off predictions."""
    rows = rows_of(table)
    why = pd.Series([_unloadable(row) for _, row in rows.iterrows()], index=table.index, dtype=object)
    uncertain = is_uncertain(rows)
    why = why.where((why != "") | ~uncertain, "how many requests were in flight is not known: most waited for memory")
    overfull = (rows["scenario"] == OPEN) & (rows["batch"] > rows["slots"])
    why = why.where((why != "") | ~overfull, "more requests were in flight than memory holds")
    floor_tpot, floor_ttft = least_seconds(rows)
    predicted = predict_table(rows, efficiencies=bundled_efficiencies())
    for at in rows.index[(why == "") & ~table["forced"]]:
        why[at] = _beyond(rows.loc[at], table.loc[at], floor_tpot[at], floor_ttft[at]) or _far(
            table.loc[at], predicted.loc[at]
        )
    return why


def _unloadable(row: pd.Series) -> str:
    model = load_model(str(row["model"]))
    sizes = {name: int(row[name]) for name in ("tp", "pp", "ep", "attention_dp")}
    replica = name_replica(model, str(row["gpu"]), weights=row["weights"], kv_cache=row["kv_cache"], **sizes)
    if replica.refusals:
        return f"engines do not load this layout: it needs {'; '.join(replica.refusals.values())}"
    taken = weight_share(str(row["model"]), replica.gpu.name, row["weights"], replica.split.gpus) * MEMORY_SHARE
    if taken > 1.0:
        return f"{row['weights']} weights take {taken:.0%} of the GPUs' memory: {_CAUSE}"
    return ""


def _beyond(row: pd.Series, given: pd.Series, floor_tpot: float, floor_ttft: float) -> str:
    if row["tpot_s"] < SURE * floor_tpot:
        return (
            f"TPOT of {row['tpot_s'] * 1e3:.1f} ms is beyond the data sheet: reading weights and cache once takes "
            f"{floor_tpot * 1e3:.1f} ms; speculative decoding, or {_CAUSE}"
        )
    if row["ttft_s"] < SURE * floor_ttft:
        return (
            f"TTFT of {row['ttft_s'] * 1e3:.0f} ms is beyond the data sheet: computing {given['isl']:,.0f} tokens "
            f"takes {floor_ttft * 1e3:.0f} ms; cached prompts, or {_CAUSE}"
        )
    return ""


def _far(given: pd.Series, predicted: pd.Series) -> str:
    names = {"tpot_ms": "TPOT", "output_tok_s_total": "throughput"}
    if np.isnan(given["tpot_ms"]) and given["scenario"] != FULL_LOAD:
        names = {"ttft_ms": "TTFT"}
    for name, word in names.items():
        ratio = float(given[name] / predicted[f"predicted_{name}"])
        if given["scenario"] == OPEN and name == "output_tok_s_total":
            continue
        if np.isfinite(ratio) and max(ratio, 1.0 / ratio) > FAR:
            return f"{word} is {ratio:.2g} times what is predicted: {_CAUSE}"
    return ""


def _times(ratio: pd.Series) -> pd.Series:
    return ratio.where(ratio >= 1.0, 1.0 / ratio)


def least_seconds(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the least TPOT and TTFT that data sheets allow each run, in seconds.

    TPOT: reading the weights, and the cache of the requests that decode, once at full bandwidth. TTFT: computing one
    prompt at full FLOP/s.
    """
    tpot, ttft = np.zeros(len(rows)), np.zeros(len(rows))
    decode = (rows["output_tokens"] - 1.0) * rows["tpot_s"]
    decoding = (decode / (decode + rows["ttft_s"].fillna(0.0))).fillna(1.0)
    batch = np.maximum(np.minimum(rows["batch"], rows["slots"]) * decoding, 1.0).to_numpy()
    for model, at in rows.groupby("model").indices.items():
        part = rows.iloc[at]
        reading, computing = (_ideal(str(model), part, free=name) for name in ("compute_", "_bandwidth"))
        tpot[at] = reading.decode_step_seconds(batch[at], part["input_tokens"].to_numpy())
        ttft[at] = computing.prefill_seconds(part["input_tokens"].to_numpy())
    return pd.Series(tpot, index=rows.index), pd.Series(ttft, index=rows.index)


def _ideal(model: str, part: pd.DataFrame, free: str) -> SpeedModel:
    """A speed model at data-sheet peaks in which everything else, and the coefficients of this kind, cost nothing."""
    shares = shares_of_a_peak()
    values: dict[str, Any] = {}
    for name in COEFFICIENTS:
        value = 1e-15 if name not in shares else 1e15 if free in name else 1.0
        values[name] = np.full(len(part), value)
    nothing = Efficiencies({}, {}, {}, {}, bundled_efficiencies().routing)
    return SpeedModel(load_model(model), part, efficiencies=nothing, coefficients=values)
