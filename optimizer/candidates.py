"""The grid of replicas that could exist, as one table: a row is one split of the model on one node shape.

Prices play no part here: speed and memory depend on the hardware shape, not on who rents it. Rows that the shape or
the model rules out are only counted; the others get memory, then speed, then the traffic that one replica carries
within the targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.gpus import get_gpu, load_gpus
from catalogs.models import ModelSpec
from optimizer.capacity import fill_capacity, with_capacity
from optimizer.divisibility import check_split
from optimizer.kept import kept
from optimizer.memory import Footprint, footprint
from optimizer.memory.footprint import DEFAULT_SEQUENCES
from optimizer.memory.warmup import warm_up
from optimizer.performance.backends.choose import Speeds, measured_table, speeds
from optimizer.performance.backends.measured import MeasuredTable
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.efficiency import Efficiencies, load_efficiencies
from optimizer.rules import RULES, bit, bits_of_kind
from optimizer.scenario import Limits, Memory, Scenario, Workload
from optimizer.split import Split

Ints = NDArray[np.int64]

SHAPE_COLUMNS = ["gpu", "gpus_per_node", "fabric", "scale_up_gpus", "network", "network_gbit_per_s"]
TENSOR_SIZES = (*range(1, 9), 10, 12, 16, 18, 24, 32, 36, 48, 64, 72)
PIPELINE_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
ATTENTION_DP_SIZES = (2, 4, 8, 16, 32, 64, 72)

# Formats by bits per weight, widest first. "The next precision" is the next group; the last one is the end.
PRECISION_GROUPS: tuple[tuple[str, ...], ...] = (
    ("fp32",),
    ("bf16", "fp16"),
    ("fp8", "int8"),
    ("int4", "nvfp4", "mxfp4"),
)


# Limits that say which layouts there are; the others say which offers, and how many.
GRID_LIMITS = ["gpus", "exclude_gpus", "weights", "kv_cache", "tp", "pp", "ep", "attention_dp"]
GRID_LIMITS += ["tp_across_nodes", "max_nodes_per_replica"]

_RULE_BITS = len(RULES)
_NOTHING = Footprint(weights_bytes=0.0, kv_bytes_per_token=0.0)
_WIDTH_ORDER = {name: index for index, group in enumerate(PRECISION_GROUPS) for name in group}


@dataclass(frozen=True)
class Candidates:
    """What could run, before prices.

    Attributes:
        frame: a row a (shape, split) that the shape and the model permit; `broken` holds the bits of broken rules, and
            `replica` the row of `replicas` that holds its memory and speed.
        dead: (shape, broken, count) of what they do not permit, counted by the set of rules broken.
        replicas: the different replicas among the candidates: inside a node, neither its size nor its network matters.
        speeds: the speed of `replicas`, in the same order, and where it comes from.
    """

    frame: pd.DataFrame
    dead: pd.DataFrame
    replicas: pd.DataFrame
    speeds: Speeds

    @property
    def speed(self) -> SpeedBackend:
        """The speed backend of `replicas`."""
        return self.speeds.backend


@dataclass(frozen=True)
class SplitTable:
    """Every way to split one model, as arrays over splits; `footprints` is None where the model refuses the split."""

    splits: tuple[Split, ...]
    refused: Ints
    footprints: tuple[Footprint | None, ...]
    columns: dict[str, NDArray[Any]]


def allowed_weights(scenario: Scenario, model: ModelSpec) -> tuple[str, ...]:
    """Weight formats that the scenario allows, with "checkpoint" and "any" resolved."""
    own = str(model.checkpoint.weights)
    wanted = scenario.limits.weights
    if "any" in wanted:
        return tuple(dict.fromkeys((own, "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4")))
    return tuple(dict.fromkeys(own if name == "checkpoint" else name for name in wanted))


def allowed_kv_caches(scenario: Scenario, model: ModelSpec) -> tuple[str, ...]:
    """KV cache dtypes that the scenario allows, with "auto" and "any" resolved."""
    own, wanted = str(model.checkpoint.own_kv_cache), scenario.limits.kv_cache
    if "any" in wanted:
        return tuple(dict.fromkeys((own, "bf16", "fp16", "fp8")))
    return tuple(dict.fromkeys(own if name == "auto" else name for name in wanted))


def next_precision(allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Weight formats of the next narrower group than the narrowest allowed one; empty when there is none."""
    narrowest = max(index for index, group in enumerate(PRECISION_GROUPS) if set(group) & set(allowed))
    return PRECISION_GROUPS[narrowest + 1] if narrowest + 1 < len(PRECISION_GROUPS) else ()


@kept(8)
def node_shapes(offers: pd.DataFrame) -> tuple[pd.DataFrame, Ints]:
    """Return the distinct node shapes among the offers, and the shape of each offer as a row number of that table.

    Kept per table of offers, which must not change. The order of the offers does not matter: at other prices the shapes
    are the same table, so that what is kept for it still serves.
    """
    codes = np.zeros(len(offers), dtype=np.int64)
    for column in SHAPE_COLUMNS:
        values, uniques = pd.factorize(offers[column], sort=True, use_na_sentinel=False)
        codes = codes * (len(uniques) + 1) + values
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    distinct = offers[SHAPE_COLUMNS].iloc[first].astype({"gpu": str, "fabric": str, "network": str})
    order = distinct.reset_index(drop=True).sort_values(SHAPE_COLUMNS, kind="stable").index.to_numpy()
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    rows = distinct.iloc[order].itertuples(index=False, name=None)
    # A rate that is not known is NaN, which does not equal itself: None stands for it while tables are compared.
    known = tuple(tuple(None if pd.isna(cell) else cell for cell in row) for row in rows)
    return _shape_table(known), place[inverse]


@lru_cache(maxsize=16)
def _shape_table(rows: tuple[tuple[Any, ...], ...]) -> pd.DataFrame:
    """Return the table of these shapes: one object, whatever the prices and the order of the offers that have them."""
    return pd.DataFrame(list(rows), columns=SHAPE_COLUMNS).astype({"network_gbit_per_s": np.float64})


def build_candidates(scenario: Scenario, model: ModelSpec, shapes: pd.DataFrame) -> Candidates:
    """Return the replicas that could exist on these node shapes, with memory, speed and broken rules filled in.

    The grid is kept between questions on the same model and shapes that allow the same layouts: other request lengths
    or targets only fill in anew what a replica carries, and that is kept too, for questions that differ in the amount
    of traffic, budget, price or provider alone.
    """
    table = measured_table(scenario.performance)
    grid = _grid(model, shapes, load_efficiencies(), _all_that_shapes_the_grid(scenario), table)
    return _filled(grid, _all_that_shapes_capacity(scenario))


@kept(8)
def _filled(grid: Candidates, scenario: Scenario) -> Candidates:
    """Return the candidates with what a replica carries."""
    replicas = fill_capacity(grid.replicas, grid.speed, scenario)
    return Candidates(with_capacity(grid.frame, replicas), grid.dead, replicas, grid.speeds)


def _all_that_shapes_capacity(scenario: Scenario) -> Scenario:
    """Return the scenario with everything else at one fixed value, so that what a replica carries cannot depend on it.

    How much traffic there is does not matter to one replica, only of which kind.
    """
    work = scenario.workload
    limits = Limits.model_construct(
        max_concurrency_per_replica=scenario.limits.max_concurrency_per_replica,
        max_utilization=scenario.limits.max_utilization,
    )
    return Scenario.model_construct(
        model=scenario.model,
        workload=work.model_copy(update={work.kind: 1}),
        targets=scenario.targets,
        limits=limits,
        memory=scenario.memory,
    )


def _all_that_shapes_the_grid(scenario: Scenario) -> Scenario:
    """Return the scenario with everything else at one fixed value, so that the grid cannot depend on it."""
    held, limits = scenario.workload.held_tokens, scenario.limits
    return Scenario.model_construct(
        model=scenario.model,
        workload=Workload.model_construct(input_tokens=held - 1, output_tokens=1, concurrency=1),
        limits=Limits.model_construct(**{name: getattr(limits, name) for name in GRID_LIMITS}),
        memory=scenario.memory,
        performance=scenario.performance,
    )


@kept(8, owners=3)
def _grid(
    model: ModelSpec,
    shapes: pd.DataFrame,
    efficiencies: Efficiencies,
    scenario: Scenario,
    measured: MeasuredTable | None,
) -> Candidates:
    """Return the candidates without what they carry (see `fill_capacity`)."""
    weights, kv_caches = allowed_weights(scenario, model), allowed_kv_caches(scenario, model)
    limits = scenario.limits
    table = split_table(
        model,
        tuple(dict.fromkeys((*weights, str(model.checkpoint.weights), *next_precision(weights)))),
        tuple(dict.fromkeys((*kv_caches, str(model.checkpoint.own_kv_cache)))),
        tuple(sorted({*TENSOR_SIZES, *limits.tp})),
        tuple(sorted({*PIPELINE_SIZES, *limits.pp})),
        tuple(sorted({*ATTENTION_DP_SIZES, *limits.attention_dp} - {1}))
        if model.is_moe
        else tuple(limits.attention_dp),
        scenario.memory.max_batched_tokens,
        int(shapes["gpus_per_node"].max()) * limits.max_nodes_per_replica,
    )
    shape_index, split_index, broken = _place(scenario, model, shapes, table)
    physical = bits_of_kind("shape", "model")
    alive = (broken & physical) == 0
    frame = _alive_frame(scenario, shapes, table, shape_index[alive], split_index[alive], broken[alive])
    first, frame["replica"] = _different_replicas(frame)
    replicas = frame.iloc[first].reset_index(drop=True)
    replicas["warm_up_bytes"] = _warm_up_bytes(model, table, replicas, scenario.memory)
    dead = _count_dead(shape_index[~alive], broken[~alive])
    found = speeds(model, replicas, scenario.performance, measured, efficiencies=efficiencies)
    return Candidates(frame, dead, replicas, found)


def _warm_up_bytes(model: ModelSpec, table: SplitTable, replicas: pd.DataFrame, memory: Memory) -> NDArray[np.float64]:
    """Return what an engine needs beside its memory fraction to start, per GPU of each replica."""
    stage = (replicas["tp"] * replicas["attention_dp"]).to_numpy()
    linked = replicas["scale_up_gpus"].to_numpy() >= stage
    rocm = np.isin(replicas["gpu"].to_numpy(), [gpu.name for gpu in load_gpus().values() if gpu.vendor == "amd"])
    # One number holds a split and the two ways a GPU can differ in.
    kinds, of_row = np.unique(replicas["split"].to_numpy() * 4 + linked * 2 + rocm, return_inverse=True)
    needs = [
        warm_up(
            memory.engine,
            model,
            table.splits[kind // 4],
            linked=bool(kind & 2),
            rocm=bool(kind & 1),
            max_batched_tokens=memory.max_batched_tokens,
            max_sequences=DEFAULT_SEQUENCES,
        ).need_bytes
        for kind in kinds.tolist()
    ]
    return np.asarray(np.array(needs, dtype=np.float64)[of_row.reshape(-1)])


def _different_replicas(frame: pd.DataFrame) -> tuple[Ints, Ints]:
    """Return the first row of each different replica, and which of them each row is.

    A replica inside one node is the same on every node of its GPU and scale-up domain; one that spans nodes is not.
    """
    gpu = pd.factorize(frame["gpu"].to_numpy())[0]
    spans = np.where(frame["nodes_per_replica"].to_numpy() > 1, frame["shape"].to_numpy() + 1, 0)
    parts = (frame["split"].to_numpy(), frame["scale_up_gpus"].to_numpy(), spans)
    key = np.asarray(gpu, dtype=np.int64)
    for part in parts:
        key = key * (int(part.max(initial=0)) + 1) + part
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse


@lru_cache(maxsize=64)
def _enumerate_splits(
    weights: tuple[str, ...],
    kv_caches: tuple[str, ...],
    tensor_sizes: tuple[int, ...],
    pipeline_sizes: tuple[int, ...],
    attention_dp_sizes: tuple[int, ...],
    is_moe: bool,
    max_gpus: int,
) -> tuple[Split, ...]:
    found = []
    for tp in tensor_sizes:
        for pp in pipeline_sizes:
            ranks = [(1, 1)] + ([(tp, 1)] if is_moe and tp > 1 else [])
            ranks += [(ep, dp) for dp in attention_dp_sizes if dp > 1 for ep in (1, tp * dp)]
            found += [
                Split(weight, kv, tp, pp, ep, dp)
                for ep, dp in ranks
                if tp * pp * dp <= max_gpus
                for weight in weights
                for kv in kv_caches
            ]
    return tuple(found)


@kept(64)
def split_table(
    model: ModelSpec,
    weights: tuple[str, ...],
    kv_caches: tuple[str, ...],
    tensor_sizes: tuple[int, ...],
    pipeline_sizes: tuple[int, ...],
    attention_dp_sizes: tuple[int, ...],
    max_batched_tokens: int,
    max_gpus: int,
) -> SplitTable:
    """Return every split of the model in these formats and sizes, with what the model refuses and what each GPU holds.

    Kept per model object, so that a sweep over prices, traffic or targets pays for it once.
    """
    formats = (weights, kv_caches, tensor_sizes, pipeline_sizes, attention_dp_sizes)
    splits = _enumerate_splits(*formats, model.is_moe, max_gpus)
    refused = np.array([_refusals(model, split) for split in splits], dtype=np.int64)
    prints = tuple(
        None if bits else footprint(model, split, max_batched_tokens=max_batched_tokens)
        for split, bits in zip(splits, refused.tolist(), strict=True)
    )
    columns: dict[str, NDArray[Any]] = {
        name: np.array([getattr(split, name) for split in splits])
        for name in ("tp", "pp", "ep", "attention_dp", "gpus")
    } | {name: np.array([getattr(split, name) for split in splits], dtype=object) for name in ("weights", "kv_cache")}
    return SplitTable(splits, refused, prints, columns)


def _refusals(model: ModelSpec, split: Split) -> int:
    return bit(*{refusal.rule for refusal in check_split(model, split)})


def _place(scenario: Scenario, model: ModelSpec, shapes: pd.DataFrame, table: SplitTable) -> tuple[Ints, Ints, Ints]:
    """Put every split on every shape it can be placed on; return (shape, split, broken bits) of each placement.

    A replica lies inside one node, or spans whole nodes: a replica that would leave GPUs of its last node idle is not
    a candidate, for the one that uses them too costs the same and holds more.
    """
    limits, columns = scenario.limits, table.columns
    per_node = shapes["gpus_per_node"].to_numpy()[:, None]
    stage, gpus = columns["tp"] * columns["attention_dp"], columns["gpus"]
    inside = gpus <= per_node
    stages_fill_nodes = (per_node % np.minimum(stage, per_node) == 0) & (gpus % per_node == 0)
    shape_index, split_index = np.nonzero(inside | stages_fill_nodes)

    per_node = per_node[:, 0][shape_index]
    spans = gpus[split_index] > per_node
    network_known = (shapes["network"].to_numpy() != "unknown") & shapes["network_gbit_per_s"].notna().to_numpy()
    stage_crosses = stage[split_index] > per_node
    too_many_nodes = gpus[split_index] // per_node > limits.max_nodes_per_replica
    broken = table.refused[split_index]
    for rule, breaks in (
        ("tp_scale_up", stage_crosses & (not limits.tp_across_nodes)),
        ("network_known", spans & ~network_known[shape_index]),
        ("nodes_per_replica", spans & too_many_nodes),
        ("dtype_supported", _unsupported(scenario, shapes, table)[shape_index, split_index]),
        ("gpu_allowed", ~_gpu_allowed(scenario, shapes)[shape_index]),
        ("weights_allowed", ~np.isin(columns["weights"], allowed_weights(scenario, model))[split_index]),
        ("kv_cache_allowed", ~np.isin(columns["kv_cache"], allowed_kv_caches(scenario, model))[split_index]),
        ("sizes_allowed", ~_sizes_allowed(scenario, columns)[split_index]),
        ("context_length", np.full(len(shape_index), scenario.workload.held_tokens > model.max_context_tokens)),
    ):
        broken = broken | np.where(breaks, bit(rule), 0)
    return shape_index, split_index, broken


def _gpu_allowed(scenario: Scenario, shapes: pd.DataFrame) -> NDArray[np.bool_]:
    limits = scenario.limits
    names = shapes["gpu"].to_numpy()
    allowed = np.isin(names, limits.gpus) if limits.gpus else np.ones(len(names), dtype=bool)
    return allowed & ~np.isin(names, limits.exclude_gpus)


def _sizes_allowed(scenario: Scenario, columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
    allowed = np.ones(len(columns["tp"]), dtype=bool)
    for size in ("tp", "pp", "ep", "attention_dp"):
        wanted = getattr(scenario.limits, size)
        if wanted:
            allowed &= np.isin(columns[size], wanted)
    return allowed


def _unsupported(scenario: Scenario, shapes: pd.DataFrame, table: SplitTable) -> NDArray[np.bool_]:
    """Return, per shape and split, whether the GPU cannot run the split's formats."""
    by_default = _cache_by_default(scenario)
    formats = sorted(set(zip(table.columns["weights"], table.columns["kv_cache"], strict=True)))
    number = {pair: index for index, pair in enumerate(formats)}
    names = sorted(set(shapes["gpu"]))
    by_gpu = {name: [not _runs(name, *pair, by_default) for pair in formats] for name in names}
    matrix = np.array([by_gpu[name] for name in shapes["gpu"]], dtype=bool).reshape(len(shapes), len(formats))
    pairs = zip(table.columns["weights"], table.columns["kv_cache"], strict=True)
    return matrix[:, np.array([number[pair] for pair in pairs], dtype=np.int64)]


@lru_cache(maxsize=4096)
def _runs(gpu: str, weights: str, kv_cache: str, by_default: bool) -> bool:
    card = get_gpu(gpu)
    held = card.own_kv_cache(kv_cache) if by_default else kv_cache
    return card.weight_support(weights) != "none" and card.kv_cache_support(held)


def _cache_by_default(scenario: Scenario) -> bool:
    """Whether a 16-bit KV cache is in the GPU's own format: the user names none, and the two take the same memory."""
    return scenario.limits.kv_cache == ("auto",)


def _own_caches(columns: dict[str, Any]) -> NDArray[Any]:
    """Return the KV cache dtypes, with those that a GPU keeps by default in place of the checkpoint's."""
    held: NDArray[Any] = columns["kv_cache"]
    for gpu in set(columns["gpu"]):
        for kv_cache in set(held):
            own = get_gpu(gpu).own_kv_cache(kv_cache)
            if own != kv_cache:
                held = np.where((columns["gpu"] == gpu) & (held == kv_cache), own, held)
    return held


def _alive_frame(
    scenario: Scenario,
    shapes: pd.DataFrame,
    table: SplitTable,
    shape_index: Ints,
    split_index: Ints,
    broken: Ints,
) -> pd.DataFrame:
    memory = {name: get_gpu(name).memory_bytes for name in set(shapes["gpu"])}
    columns: dict[str, Any] = {"shape": shape_index, "split": split_index}
    columns |= {name: shapes[name].to_numpy()[shape_index] for name in SHAPE_COLUMNS}
    columns |= {name: values[split_index] for name, values in table.columns.items()}
    if _cache_by_default(scenario):
        columns["kv_cache"] = _own_caches(columns)
    per_node, gpus = columns["gpus_per_node"], columns["gpus"]
    columns["nodes_per_replica"] = np.maximum(gpus // per_node, 1)
    columns["replicas_per_node"] = np.maximum(per_node // gpus, 1)
    columns["gpu_memory_bytes"] = np.array([memory[name] for name in columns["gpu"]], dtype=np.float64)
    columns["precision"] = np.array([_WIDTH_ORDER[name] for name in columns["weights"]])
    columns |= {
        name: values[split_index] for name, values in _held_columns(table, scenario.workload.held_tokens).items()
    }
    columns["broken"] = broken
    return pd.DataFrame(columns)


def _held_columns(table: SplitTable, held_tokens: int) -> dict[str, NDArray[Any]]:
    """Return what a GPU holds of each split, with the cache of one request; 0 where the model refuses the split."""
    known = [print_ or _NOTHING for print_ in table.footprints]
    return {
        "weights_bytes": np.array([one.weights_bytes for one in known]),
        "activation_bytes": np.array([one.activation_bytes for one in known]),
        "kv_bytes_per_sequence": np.array([one.kv_bytes_per_sequence(float(held_tokens)) for one in known]),
        "ranks": np.array([one.ranks for one in known], dtype=np.int64),
    }


def _count_dead(shape_index: Ints, broken: Ints) -> pd.DataFrame:
    # One number holds a shape and its broken rules.
    keys, count = np.unique(shape_index << _RULE_BITS | broken, return_counts=True)
    return pd.DataFrame({"shape": keys >> _RULE_BITS, "broken": keys & (1 << _RULE_BITS) - 1, "count": count})
