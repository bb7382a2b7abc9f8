"""How many requests an engine runs at once: what memory allows, for runs whose clients ask for more or do not say."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.gpus import get_gpu
from catalogs.models import load_model
from optimizer.performance.calibration.observations import CLOSED_LOOP, FULL_LOAD, STATIC

Array = npt.NDArray[np.float64]

MEMORY_SHARE = 0.9  # of memory that engines give to weights, working space and cache
WORKING_BYTES = 3e9  # activations, graphs and communication buffers
MOST_REQUESTS = 2048  # the engines' default limit on requests in flight in throughput benchmarks
# Beyond these the batch is too uncertain to judge speed by it.
LARGEST_WEIGHTS, FEWEST_REQUESTS = 0.7, 8
# TensorRT-LLM keeps memory for a request's whole answer, of what weights leave; others for what is there, with some
# held back.
WHOLE_ANSWER = frozenset({"nim", "tensorrt-llm", "tensorrt-llm-0.9"})
SHARE_OF_ANSWER = 0.6
# In closed loops clients wait for slots beyond this many times the estimate: measured loops held up to that.
MARGIN = 1.05
FEWEST_DECODING = 0.75  # of the requests that have slots


@lru_cache(maxsize=4096)
def weight_share(model: str, gpu: str, weights: str, gpus: int) -> float:
    """Return what weights take of the memory that an engine uses."""
    return load_model(model).weight_bytes(weights) / gpus / (MEMORY_SHARE * get_gpu(gpu).memory_bytes)


@lru_cache(maxsize=4096)
def requests_at_once(
    model: str, gpu: str, weights: str, kv_cache: str, gpus: int, tokens: float, *, of_rest: bool
) -> float:
    """Return how many requests that each hold so many tokens a replica of `gpus` GPUs runs at once (at least 1).

    With `of_rest` the engine takes MEMORY_SHARE of what weights and working space leave, else of all memory.
    """
    spec, memory = load_model(model), get_gpu(gpu).memory_bytes
    taken = spec.weight_bytes(weights) / gpus + WORKING_BYTES
    free = MEMORY_SHARE * (memory - taken) if of_rest else MEMORY_SHARE * memory - taken
    return float(min(max(free * gpus / (spec.kv_bytes_per_token(kv_cache) * tokens), 1.0), MOST_REQUESTS))


def requests_held(rows: pd.DataFrame) -> Array:
    """Return `requests_at_once` of each run, with the tokens that its engine keeps memory for."""
    whole = rows["engine"].isin(WHOLE_ANSWER)
    tokens = rows["input_tokens"] + rows["output_tokens"] * np.where(whole, 1.0, SHARE_OF_ANSWER)
    columns = (rows["model"], rows["gpu"], rows["weights"], rows["kv_cache"], _gpus(rows), tokens)
    held = [requests_at_once(*row, of_rest=rest) for *row, rest in zip(*columns, whole, strict=True)]
    return np.array(held, dtype=np.float64)


def with_slots(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `slots`, the most requests that run at once, and fill in the batch where the engine picks it.

    Infinite for static batches, and where weights leave so little memory that an estimate says nothing.
    """
    held = requests_held(rows)
    unlimited = (_weight_shares(rows) >= LARGEST_WEIGHTS) | (rows["scenario"] == STATIC).to_numpy()
    slots = np.where(rows["batch"].isna(), held, np.where(unlimited, np.inf, MARGIN * held))
    return rows.assign(slots=slots, batch=rows["batch"].fillna(pd.Series(held, index=rows.index)))


def is_uncertain(rows: pd.DataFrame) -> pd.Series:
    """Return which runs of `with_slots` do not say how many requests were in flight.

    At full load where weights leave little memory, and in closed loops whose requests mostly wait although our estimate
    says that there are slots.
    """
    tight = (_weight_shares(rows) >= LARGEST_WEIGHTS) | (rows["slots"] < FEWEST_REQUESTS)
    decode = rows["output_tokens"] * rows["tpot_s"]
    decoding = rows["batch"] * decode / (rows["ttft_s"] + decode)
    waits = (rows["ttft_s"] > decode) & (decoding < FEWEST_DECODING * np.minimum(rows["batch"], rows["slots"]))
    return ((rows["scenario"] == FULL_LOAD) & tight) | ((rows["scenario"] == CLOSED_LOOP) & waits)


def _gpus(rows: pd.DataFrame) -> pd.Series:
    return (rows["tp"] * rows["pp"] * rows["attention_dp"]).astype(int)


def _weight_shares(rows: pd.DataFrame) -> Array:
    columns = (rows["model"], rows["gpu"], rows["weights"], _gpus(rows))
    return np.array([weight_share(*row) for row in zip(*columns, strict=True)], dtype=np.float64)
