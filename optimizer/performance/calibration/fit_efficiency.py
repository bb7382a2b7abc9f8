"""Write data/efficiency.toml: fit the few efficiency coefficients to measured serving runs.

Run: python -m optimizer.performance.calibration.fit_efficiency RUNS.csv --moe MOE.csv --date 2026-11-30

All coefficients are fitted together in logarithms, by Gauss-Newton with weights that bound what one run can pull. Each
family's coefficient is a common value times a family factor, each engine has factors too, and every factor is held
near 1 by a prior: a family with few runs keeps what all share. Errors are out of fold: every cell (model, precision,
GPU, engine, lengths) is predicted by a fit that has not seen it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.gpus import get_gpu
from catalogs.models import load_model
from optimizer.performance.calibration.observations import FULL_LOAD, read_observations
from optimizer.performance.efficiency import (
    COEFFICIENTS,
    DATA_FILE,
    ENGINE_FACTORS,
    Efficiencies,
    Routing,
    calibration_group,
)
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.speed import SpeedModel

Array = npt.NDArray[np.float64]

NAMES = tuple(COEFFICIENTS)
FACTORS = tuple(ENGINE_FACTORS)
# Starting values and how far, in natural logarithms, the data may move them: from data sheets and operator timings.
PRIORS: dict[str, tuple[float, float]] = {
    "weight_bandwidth": (0.82, 0.06),
    "expert_bandwidth": (0.70, 0.25),
    "kv_bandwidth": (0.75, 0.10),
    "compute_16bit": (0.70, 0.10),
    "compute_8bit": (0.55, 0.15),
    "compute_4bit": (0.40, 0.25),
    "compute_weight_only": (0.50, 0.20),
    "compute_decode": (0.70, 0.15),
    "compute_experts": (0.60, 0.25),
    "compute_attention": (0.50, 0.05),
    "layer_seconds": (25e-6, 0.7),
    "moe_layer_seconds": (20e-6, 0.7),
    "state_layer_seconds": (20e-6, 0.7),
    "block_scale_layer_seconds": (15e-6, 0.7),
    "step_seconds": (0.8e-3, 0.5),
    "sequence_seconds": (6e-6, 0.4),
    "communication": (1.0, 0.10),
    "prefill_sharing": (1.0, 0.15),
    "prefill_seconds": (20e-3, 0.8),
}
FACTORS_ON_TIME = frozenset({"communication", "prefill_sharing"})
SHARES = frozenset(name for name in NAMES if "seconds" not in name and name not in FACTORS_ON_TIME)
# How far a family's coefficient may lie from the common one, in logarithms: shares of a peak are alike, costs less so.
FAMILY_SPREAD = {"share": 0.15, "seconds": 0.35, "communication": 0.15}
# PCIe boxes differ in how sockets and switches join their cards: the one in which collectives were timed need not be
# the one that served.
PCIE_COMMUNICATION_SPREAD = 0.40
ENGINE_SPREADS = {"launch": 0.3, "host": 0.3, "compute": 0.15, "communication": 0.15, "prefill": 0.3}
# Families without runs, and whose figures they take ("": the common ones).
BORROWED = {
    "blackwell_rtx": "",
    "turing": "ampere",
    "volta": "ampere",
    "cdna2": "cdna3",
    "cdna4": "cdna3",
    "gaudi2": "",
    "gaudi3": "",
}
FAMILIES = ("hopper", "blackwell", "ada", "ampere", "cdna3")
# ROCm's kernels and launches owe nothing to CUDA's: its family may lie farther from the common values.
OTHER_STACKS = frozenset({"cdna3"})
OTHER_STACK = 2.5
PCIE_FAMILIES = frozenset({"ada"})
ENGINES = ("vllm", "sglang", "tensorrt-llm", "tensorrt-llm-0.9", "nim")
LARGEST_SHARE = float(np.log(0.98))
FULL_LOAD_WEIGHT = 1.5  # of the 0.2 that end-to-end times count
FOLDS = 4
WORKING_BYTES = 3e9  # activations, graphs and communication buffers
MOST_REQUESTS = 2048  # the engines' default limit on requests in flight in throughput benchmarks
ROUNDS = 8
NOISE = 0.10  # log error that one run is expected to have
LARGEST_PULL = 1.5  # residuals beyond this many times NOISE pull no harder
OLD_ENGINES = ("nim", "tensorrt-llm-0.9")
FIXED_LENGTH = ("aic_gap_analysis", "nim_llama3_concurrency")
WAVES = 10.0  # closed-loop benchmarks send about ten requests per concurrent client, the first all at once


@dataclass(frozen=True)
class Groups:
    """The observations split by model, with the family and engine of each row."""

    rows: pd.DataFrame
    family: npt.NDArray[np.int64]
    engine: npt.NDArray[np.int64]


def with_full_load(rows: pd.DataFrame) -> pd.DataFrame:
    """Fill in the batch that memory allows at full load, and leave out rows where that is too uncertain to judge speed.

    Engines give 90% of memory to weights, working space and cache; a request holds its prompt and half its output.
    """
    batches, usable = rows["batch"].to_numpy(copy=True), np.ones(len(rows), dtype=np.bool_)
    for at in np.flatnonzero(np.isnan(batches)):
        row = rows.iloc[at]
        model, gpus = load_model(str(row["model"])), int(row["tp"] * row["pp"] * row["attention_dp"])
        memory = 0.9 * get_gpu(str(row["gpu"])).memory_bytes
        weights = model.weight_bytes(str(row["weights"])) / gpus
        request = model.kv_bytes_per_token(str(row["kv_cache"])) * (row["input_tokens"] + row["output_tokens"] / 2.0)
        batch = (memory - weights - WORKING_BYTES) * gpus / request
        usable[at] = weights < 0.7 * memory and batch >= 8
        batches[at] = min(batch, MOST_REQUESTS)
    return rows.assign(batch=batches)[usable].reset_index(drop=True)


def group(rows: pd.DataFrame) -> Groups:
    """Find each row's calibration family and engine."""
    of_gpu = {name: FAMILIES.index(calibration_group(get_gpu(name))) for name in rows["gpu"].unique()}
    return Groups(
        rows,
        rows["gpu"].map(of_gpu).to_numpy(dtype=np.int64),
        rows["engine"].map(ENGINES.index).to_numpy(dtype=np.int64),
    )


def design(groups: Groups) -> tuple[npt.NDArray[np.float64], Array, Array]:
    """Return (what each parameter adds to the coefficients of each (family, engine), prior means, prior spreads)."""
    count = len(NAMES)
    size = count + len(FAMILIES) * count + len(ENGINES) * len(FACTORS)
    adds = np.zeros((len(FAMILIES), len(ENGINES), count, size))
    mean, spread = np.zeros(size), np.ones(size)
    for i, name in enumerate(NAMES):
        adds[:, :, i, i] = 1.0
        mean[i], spread[i] = np.log(PRIORS[name][0]), PRIORS[name][1]
        kind = "share" if name in SHARES else "seconds" if name.endswith("seconds") else "communication"
        for f in range(len(FAMILIES)):
            at = count + f * count + i
            adds[f, :, i, at] = 1.0
            spread[at] = FAMILY_SPREAD[kind] * (OTHER_STACK if FAMILIES[f] in OTHER_STACKS else 1.0)
            if kind == "communication" and FAMILIES[f] in PCIE_FAMILIES:
                spread[at] = PCIE_COMMUNICATION_SPREAD
    start = count + len(FAMILIES) * count
    for e in range(len(ENGINES)):
        for k, factor in enumerate(FACTORS):
            at = start + e * len(FACTORS) + k
            spread[at] = ENGINE_SPREADS[factor]
            for name in ENGINE_FACTORS[factor]:
                adds[:, e, NAMES.index(name), at] = 1.0
    return adds, mean, spread


def predict(groups: Groups, log_values: Array, routing: Routing) -> Array:
    """Return predicted (TPOT, TTFT, end-to-end) seconds per row, for coefficients by (family, engine, coefficient)."""
    values = np.exp(log_values)
    out = np.zeros((len(groups.rows), 3))
    for (model, engine), rows in groups.rows.groupby(["model", "engine"]):
        e = ENGINES.index(engine)
        families = {family: dict(zip(NAMES, values[f, e], strict=True)) for f, family in enumerate(FAMILIES)}
        ones = dict.fromkeys(FACTORS, 1.0)
        fitted = Efficiencies(families, dict.fromkeys(FAMILIES, "fitted"), {"any": ones}, routing)
        speed = SpeedModel(load_model(str(model)), rows, engine="any", efficiencies=fitted)
        out[rows.index] = _predicted(speed, rows)
    return out


def _predicted(speed: SpeedModel, part: pd.DataFrame) -> Array:
    batch = part["batch"].to_numpy(dtype=np.float64)
    inputs, outputs = (part[name].to_numpy(dtype=np.float64) for name in ("input_tokens", "output_tokens"))
    loop = predict_closed_loop(speed, batch, inputs, outputs)
    static = (part["scenario"] == "static_batch").to_numpy()
    occupancy = speed.prefill_occupancy_seconds(inputs)
    whole_batch = speed.prefill_seconds(inputs) + (batch - 1.0) * occupancy
    # In the first wave every client asks at once and waits for half of the others.
    first_wave = speed.prefill_seconds(inputs) + 0.5 * (batch - 1.0) * occupancy
    looped = loop.ttft_s * (1.0 - 1.0 / WAVES) + first_wave / WAVES
    tpot = np.where(static, speed.decode_step_seconds(batch, inputs + outputs / 2.0), loop.tpot_s)
    ttft = np.where(static, whole_batch, looped)
    return np.column_stack([tpot, ttft, ttft + (outputs - 1.0) * tpot])


class Fit:
    """Gauss-Newton in logarithms with bounded residuals and Gaussian priors."""

    def __init__(self, groups: Groups, routing: Routing) -> None:
        self.groups, self.routing = groups, routing
        self.adds, self.mean, self.spread = design(groups)
        measured = groups.rows[["tpot_s", "ttft_s"]].to_numpy()
        further = groups.rows["output_tokens"].to_numpy() - 1.0
        # At full load the throughput says how long a request stays (Little's law).
        stay = groups.rows["batch"] * groups.rows["output_tokens"] / groups.rows["output_tokens_per_second"]
        full = (groups.rows["scenario"] == FULL_LOAD).to_numpy()
        e2e = np.where(full, stay, measured[:, 1] + further * measured[:, 0])
        measured = np.column_stack([measured, e2e])
        self.measured = np.where(measured > 0, measured, np.nan)

    def coefficients(self, parameters: Array) -> Array:
        """Logarithms of the coefficients by (family, engine, coefficient); shares of a peak stay below one."""
        values = self.adds @ parameters
        for i, name in enumerate(NAMES):
            if name in SHARES:
                values[:, :, i] = np.minimum(values[:, :, i], LARGEST_SHARE)
        return values

    def residuals(self, predicted: Array) -> Array:
        """Logarithm of predicted over measured, NaN where not measured."""
        return np.asarray(np.log(predicted / self.measured))

    def solve(self, used: npt.NDArray[np.bool_], weight: Array) -> Array:
        """Return the fitted parameters, from the rows in `used` only."""
        parameters = self.mean.copy()
        family, engine = self.groups.family, self.groups.engine
        for _ in range(ROUNDS):
            values = self.coefficients(parameters)
            base = self.residuals(predict(self.groups, values, self.routing))
            slopes = np.zeros((*base.shape, len(NAMES)))
            for i in range(len(NAMES)):
                moved = values.copy()
                moved[:, :, i] += 0.02
                slopes[..., i] = (self.residuals(predict(self.groups, moved, self.routing)) - base) / 0.02
            ok = np.isfinite(base) & used[:, None]
            pull = np.minimum(1.0, LARGEST_PULL * NOISE / np.maximum(np.abs(base), 1e-9))
            scale = np.sqrt(pull * weight) / NOISE
            jacobian = np.einsum("ntc,ncp->ntp", slopes, self.adds[family, engine])[ok] * scale[ok][:, None]
            target = base[ok] * scale[ok]
            prior = np.diag(1.0 / self.spread**2)
            gradient = jacobian.T @ target + (parameters - self.mean) / self.spread**2
            parameters = parameters - 0.8 * np.linalg.solve(jacobian.T @ jacobian + prior, gradient)
        return parameters


def row_weights(rows: pd.DataFrame) -> Array:
    """Weights of (TPOT, TTFT, end-to-end time) per row.

    Cells count alike whatever their size, and old engines less. Closed loops of one fixed length run in waves: how they
    divide a request between its first token and the rest says little, so there the end-to-end time counts.
    """
    size = rows.groupby("cell")["cell"].transform("size").to_numpy(dtype=np.float64)
    old = rows["engine"].isin(OLD_ENGINES)
    weight = np.sqrt(4.0 / np.maximum(size, 4.0)) * np.where(old, 0.15, 1.0)
    waves = (rows["source_set"].isin(FIXED_LENGTH)).to_numpy()
    # Full load has no other target, and its batch is an estimate.
    weight = weight * np.where(rows["scenario"] == FULL_LOAD, FULL_LOAD_WEIGHT, 1.0)
    by_target = np.where(waves[:, None], (0.2, 0.05, 1.0), (1.0, 0.5, 0.2))
    return np.asarray(weight[:, None] * by_target)


def measured_routing(moe: pd.DataFrame) -> Routing:
    """Return routing figures from operator timings: power-law against balanced routing of the same shapes."""
    keys = [name for name in moe.columns if name not in {"distribution", "latency_us"}]
    wide = moe.pivot_table(index=keys, columns="distribution", values="latency_us").reset_index()
    wide = wide.dropna(subset=["balanced", "power_law_1.2"])
    wide["ratio"] = wide["power_law_1.2"] / wide["balanced"]
    sparse = wide[(wide["num_tokens"] > 8) & (wide["num_tokens"] <= 512)]
    share = sparse["topk"] / sparse["num_experts"]
    candidates = np.linspace(0.05, 1.0, 96)
    even = -np.expm1(np.log1p(-share) * sparse["num_tokens"])
    errors = [
        np.median(np.abs(-np.expm1(np.log1p(-share) * (1 + c * (sparse["num_tokens"] - 1))) / even - sparse["ratio"]))
        for c in candidates
    ]
    spread = wide[(wide["num_tokens"] > 4096) & (wide["moe_ep_size"] > 1)]["ratio"]
    return Routing(float(candidates[int(np.argmin(errors))]), float(spread.median()))


def fold_of(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the fold of each row, whole cells together, spread over the folds by a fixed shuffle."""
    shuffled = np.random.default_rng(7).permutation(int(rows["cell"].max()) + 1) % FOLDS
    return np.asarray(shuffled[rows["cell"].to_numpy()], dtype=np.int64)


def errors_by(rows: pd.DataFrame, residuals: Array, keys: list[str]) -> pd.DataFrame:
    """Return mean and median absolute percentage errors of TPOT and TTFT by group."""
    table = rows[keys].copy()
    for i, name in enumerate(("tpot", "ttft", "e2e")):
        table[name] = np.abs(np.expm1(residuals[:, i])) * 100.0
    return table.groupby(keys).agg(
        rows=("tpot", "size"),
        tpot_mean=("tpot", "mean"),
        tpot_median=("tpot", "median"),
        ttft_mean=("ttft", "mean"),
        ttft_median=("ttft", "median"),
        e2e_mean=("e2e", "mean"),
        e2e_median=("e2e", "median"),
    )


def toml(
    common: Array, families: Array, engines: Array, summary: Mapping[str, dict[str, float]], routing: Routing, head: str
) -> str:
    """Return the data file's text; `common`, `families` and `engines` are logarithms."""
    blocks = [head, f"[routing]\ndistinct = {routing.distinct:.2f}\nimbalance = {routing.imbalance:.2f}"]
    by_family = dict(zip(FAMILIES, families, strict=True))
    rows = [(family, ['kind = "fitted"', *_numbers(summary[family])], by_family[family]) for family in FAMILIES]
    rows += [
        (family, ['kind = "borrowed"', f'lender = "{lender or "all families"}"'], by_family.get(lender, common))
        for family, lender in BORROWED.items()
    ]
    for family, notes, values in rows:
        figures = _numbers(dict(zip(NAMES, np.exp(values), strict=True)))
        blocks.append("\n".join([f"[families.{family}]", *notes, *figures]))
    for engine, values in zip(ENGINES, engines, strict=True):
        blocks.append("\n".join([f'[engines."{engine}"]', *_numbers(dict(zip(FACTORS, np.exp(values), strict=True)))]))
    return "\n\n".join(blocks) + "\n"


def _numbers(values: Mapping[str, float]) -> list[str]:
    return [f"{name} = {float(value):.4g}" for name, value in values.items()]


def held_out_summary(rows: pd.DataFrame, residuals: Array) -> dict[str, dict[str, float]]:
    """Return by family how many rows were used and the errors on held-out cells, today's engines where there are any.

    TTFT errors leave out the closed loops of one fixed length, whose waves no steady state describes.
    """
    modern = (~rows["engine"].isin(OLD_ENGINES)).to_numpy()
    steady = (~rows["source_set"].isin(FIXED_LENGTH)).to_numpy()
    errors = np.abs(np.expm1(residuals)) * 100.0
    summary: dict[str, dict[str, float]] = {}
    for family, part in rows.groupby("family"):
        ours = (rows["family"] == family).to_numpy()
        today = ours & modern & np.isfinite(errors[:, 0])
        judged = today if today.any() else ours & np.isfinite(errors[:, 0])
        tpot, ttft, e2e = errors[judged, 0], errors[judged & steady, 1], errors[judged, 2]
        summary[str(family)] = {
            "rows": len(part),
            "judged_rows": int(judged.sum()),
        }
        for name, values in (("tpot", tpot), ("ttft", ttft), ("e2e", e2e)):
            if np.isfinite(values).any():
                summary[str(family)][f"{name}_mean_error_percent"] = round(float(np.nanmean(values)), 1)
                summary[str(family)][f"{name}_median_error_percent"] = round(float(np.nanmedian(values)), 1)
    return summary


def main() -> None:
    """Fit, report out-of-fold errors, and write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--moe", type=Path, required=True, help="operator timings of MoE layers")
    parser.add_argument("--date", required=True, help="date of the fit, YYYY-MM-DD")
    parser.add_argument("--out", type=Path, default=DATA_FILE)
    arguments = parser.parse_args()
    observations = read_observations(pd.read_csv(arguments.runs, low_memory=False))
    print("left out:", observations.left_out)
    groups = group(with_full_load(observations.rows))
    routing = measured_routing(pd.read_csv(arguments.moe, low_memory=False))
    fit, weight, fold = Fit(groups, routing), row_weights(groups.rows), fold_of(groups.rows)
    held_out = np.full((len(groups.rows), 3), np.nan)
    for k in range(FOLDS):
        parameters = fit.solve(fold != k, weight)
        predicted = predict(groups, fit.coefficients(parameters), routing)
        held_out[fold == k] = fit.residuals(predicted)[fold == k]
    rows = groups.rows.assign(family=[FAMILIES[f] for f in groups.family], overall="all")
    for keys in (
        ["overall"],
        ["family", "scenario"],
        ["engine"],
        ["source_set", "gpu"],
        ["model", "weights", "engine"],
    ):
        print(errors_by(rows, held_out, keys).round(1).to_string(), "\n")
    parameters = fit.solve(np.ones(len(rows), dtype=np.bool_), weight)
    count, start = len(NAMES), len(NAMES) * (1 + len(FAMILIES))
    common = parameters[:count]
    values = common + parameters[count:start].reshape(len(FAMILIES), count)
    for logarithms in (common, *values):
        shares = [name in SHARES for name in NAMES]
        logarithms[shares] = np.minimum(logarithms[shares], LARGEST_SHARE)
    engines = parameters[start:].reshape(len(ENGINES), len(FACTORS))
    text = toml(common, values, engines, held_out_summary(rows, held_out), routing, _head(arguments.date, len(rows)))
    arguments.out.write_text(text, encoding="utf-8")


def _head(date: str, rows: int) -> str:
    return (
        "# Written by optimizer/performance/calibration/fit_efficiency.py; not edited by hand.\n"
        "# Errors are mean and median absolute percentage errors on cells held out of the fit.\n"
        "[meta]\n"
        'source = "InferenceX, aiconfigurator silicon samples, TensorRT-LLM static batches and full-load tables, '
        'NIM sweeps"\n'
        f"date = {date}\nrows = {rows}\n"
        f"folds = {FOLDS}"
    )


if __name__ == "__main__":
    main()
