"""How many requests an engine runs at once: what memory allows, for runs where the engine picks the batch."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd

from catalogs.gpus import get_gpu
from catalogs.models import load_model

MEMORY_SHARE = 0.9  # of memory that engines give to weights, working space and cache
WORKING_BYTES = 3e9  # activations, graphs and communication buffers
MOST_REQUESTS = 2048  # the engines' default limit on requests in flight in throughput benchmarks
# Beyond these the batch is too uncertain to judge speed by it.
LARGEST_WEIGHTS, FEWEST_REQUESTS = 0.7, 8


@lru_cache(maxsize=4096)
def weight_share(model: str, gpu: str, weights: str, gpus: int) -> float:
    """Return what weights take of the memory that an engine uses."""
    return load_model(model).weight_bytes(weights) / gpus / (MEMORY_SHARE * get_gpu(gpu).memory_bytes)


@lru_cache(maxsize=4096)
def requests_at_once(model: str, gpu: str, weights: str, kv_cache: str, gpus: int, tokens: float) -> float:
    """Return how many requests of so many tokens of context a replica of `gpus` GPUs runs at once (at least 1).

    A request holds its prompt and on average half its answer, which is what `tokens` should be.
    """
    spec, memory = load_model(model), MEMORY_SHARE * get_gpu(gpu).memory_bytes
    free = (memory - spec.weight_bytes(weights) / gpus - WORKING_BYTES) * gpus
    return float(min(max(free / (spec.kv_bytes_per_token(kv_cache) * tokens), 1.0), MOST_REQUESTS))


def slots_of(rows: pd.DataFrame) -> pd.Series:
    """Return `requests_at_once` of each run."""
    gpus = rows["tp"] * rows["pp"] * rows["attention_dp"]
    tokens = rows["input_tokens"] + rows["output_tokens"] / 2.0
    columns = (rows["model"], rows["gpu"], rows["weights"], rows["kv_cache"], gpus.astype(int), tokens)
    return pd.Series([requests_at_once(*row) for row in zip(*columns, strict=True)], index=rows.index, dtype=float)


def with_full_load(rows: pd.DataFrame) -> pd.DataFrame:
    """Fill in the batch that memory allows at full load, and leave out rows where that is too uncertain."""
    picked = rows["batch"].isna()
    full = rows[picked]
    batch = slots_of(full)
    gpus = (full["tp"] * full["pp"] * full["attention_dp"]).astype(int)
    columns = (full["model"], full["gpu"], full["weights"], gpus)
    share = np.array([weight_share(*row) for row in zip(*columns, strict=True)])
    usable = pd.Series(True, index=rows.index)
    usable[picked] = (share < LARGEST_WEIGHTS) & (batch >= FEWEST_REQUESTS)
    return rows.assign(batch=rows["batch"].fillna(batch))[usable].reset_index(drop=True)
