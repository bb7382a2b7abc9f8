"""Write data/efficiency.toml: fit the few efficiency coefficients to measured serving runs.

Run: python -m optimizer.performance.calibration.fit_efficiency RUNS.csv --moe MOE.csv --date 2026-11-30

All coefficients are fitted together in logarithms. Each is a common value times a factor for every level of a run's
setting, each factor held near 1 by a prior. Error bands come from cells that the fit had not seen, and how much wider
they are for new hardware and models from leaving those out whole. The report on fresh cells (see held_out) is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.gpus import get_gpu
from catalogs.models import load_model
from optimizer.performance.calibration.held_out import FOLDS, cell_names, fold_of, is_fresh
from optimizer.performance.calibration.levels import design
from optimizer.performance.calibration.observations import CLOSED_LOOP, FULL_LOAD, OLD_ENGINES, read_observations
from optimizer.performance.calibration.residuals import (
    covered,
    covered_by,
    errors_by,
    intervals,
    widening,
)
from optimizer.performance.calibration.routing import measured_routing
from optimizer.performance.calibration.slots import is_uncertain, with_slots
from optimizer.performance.calibration.solver import Fit, factors
from optimizer.performance.efficiency import DATA_FILE, Routing, Setting, architecture_key, calibration_group
from optimizer.validate.speed_decisions import Decisions, compare_choices, gpu_prices

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

OLD_WEIGHT = 0.4
TARGET_WEIGHTS = (1.0, 0.3, 0.3)  # of TPOT, TTFT and end-to-end time
CELL = 4.0  # runs of a cell that count in full
# Families without runs, and whose factors they take ("": none, the common values).
BORROWED = {
    "blackwell_rtx": "",
    "turing": "ampere",
    "volta": "ampere",
    "cdna2": "cdna3",
    "cdna4": "cdna3",
    "gaudi2": "",
    "gaudi3": "",
}
# What is left out whole, to see how much farther off the speed of the unmeasured is.
LEFT_OUT_GPUS = ("H200-SXM-141GB", "B200-SXM-180GB", "B300-SXM-288GB")
LEFT_OUT_MODELS = ("Qwen/Qwen3-32B", "MiniMaxAI/MiniMax-M2.5", "openai/gpt-oss-120b", "mistralai/Mistral-7B-v0.1")
UNSEEN_FAMILY = 1.5  # times the widening of an unseen GPU: no family with many runs can be left out


def settings_of(rows: pd.DataFrame) -> list[Setting]:
    """Return the setting of each run."""
    keys = {name: architecture_key(load_model(name)) for name in rows["model"].unique()}
    columns = (rows[name] for name in ("gpu", "engine", "era", "model", "weights", "release"))
    return [
        Setting(gpu, engine, era, keys[model], weights, release)
        for gpu, engine, era, model, weights, release in zip(*columns, strict=True)
    ]


def row_weights(rows: pd.DataFrame) -> Array:
    """Return the weights of (TPOT, TTFT, end-to-end time) per row.

    Large cells count less per run, and so do old engines. Full load has no other target than how long a request stays.
    """
    size = rows.groupby(cell_names(rows))["batch"].transform("size").to_numpy(dtype=np.float64)
    weight = np.sqrt(CELL / np.maximum(size, CELL)) * np.where(rows["engine"].isin(OLD_ENGINES), OLD_WEIGHT, 1.0)
    full = (rows["scenario"] == FULL_LOAD).to_numpy()
    return np.asarray(weight[:, None] * np.where(full[:, None], (0.0, 0.0, 1.0), TARGET_WEIGHTS))


def solve_each(fit: Fit, weight: Array, masks: Sequence[Mask]) -> list[Array]:
    """Return the parameters of fits that each see the rows of one mask, as many at a time as there are processors."""
    with ProcessPoolExecutor() as pool:
        return list(pool.map(fit.solve, masks, [weight] * len(masks)))


def out_of_sample(fit: Fit, weight: Array, usable: Mask, groups: Sequence[Mask]) -> Array:
    """Return residuals of the usable rows of each group, from a fit that has seen none of it; NaN elsewhere."""
    found = np.full((len(fit.rows), 3), np.nan)
    fits = solve_each(fit, weight, [usable & ~group for group in groups])
    for parameters, group in zip(fits, groups, strict=True):
        found[usable & group] = fit.residuals(parameters)[usable & group]
    return found


def toml(
    found: Mapping[str, Mapping[str, float]],
    routing: Routing,
    families: Mapping[str, Mapping[str, object]],
    bands: Mapping[str, tuple[float, float]],
    wider: Mapping[str, float],
    measured: Mapping[str, Sequence[str]],
    head: str,
) -> str:
    """Return the data file's text."""
    blocks = [head, f"[routing]\ndistinct = {routing.distinct:.2f}\nimbalance = {routing.imbalance:.2f}"]
    blocks.append("\n".join(["[common]", *_numbers(found[""])]))
    blocks += ["\n".join([f"[families.{name}]", *_numbers(row)]) for name, row in families.items()]
    blocks.append("\n".join(["[measured]", *(f"{kind} = {_list(names)}" for kind, names in measured.items())]))
    blocks.append("\n".join(["[widening]", *_numbers(wider)]))
    ends = (f'"{name}" = [{low:.4f}, {high:.4f}]' for name, (low, high) in sorted(bands.items()))
    blocks.append("\n".join(["[bands]", *ends]))
    blocks += [f'[factors."{level}"]\n' + "\n".join(_numbers(row)) for level, row in found.items() if level]
    return "\n\n".join(blocks) + "\n"


def _list(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _numbers(values: Mapping[str, object]) -> list[str]:
    return [
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {float(str(value)):.4g}"
        for name, value in values.items()
    ]


def family_notes(rows: pd.DataFrame, residuals: Array) -> dict[str, dict[str, object]]:
    """Return what the data file says of each family: runs and errors on cells not seen, or whose figures it takes."""
    percent = np.abs(np.expm1(residuals)) * 100.0
    notes: dict[str, dict[str, object]] = {}
    for family in sorted(rows["family"].unique()):
        own = (rows["family"] == family).to_numpy()
        notes[family] = {"kind": "fitted", "rows": int(own.sum())}
        for column, name in enumerate(("tpot", "ttft", "e2e")):
            if np.isfinite(percent[own, column]).any():
                notes[family][f"{name}_mean_error_percent"] = round(float(np.nanmean(percent[own, column])), 1)
                notes[family][f"{name}_median_error_percent"] = round(float(np.nanmedian(percent[own, column])), 1)
    for family, lender in BORROWED.items():
        borrowed: dict[str, object] = {"kind": "borrowed"}
        notes.setdefault(family, borrowed | ({"lender": lender} if lender else {}))
    return notes


def choices_of(rows: pd.DataFrame, residuals: Array) -> Decisions:
    """Compare the layouts that predictions and measurements choose, at the bundled prices, over runs with residuals."""
    loops = (rows["scenario"] == CLOSED_LOOP).to_numpy() & np.isfinite(residuals[:, [0, 2]]).all(axis=1)
    part, off = rows[loops], residuals[loops]
    prices = gpu_prices(None)
    stay = part["ttft_s"] + (part["output_tokens"] - 1.0) * part["tpot_s"]
    hourly = part["gpu"].map(prices) * part["tp"] * part["pp"] * part["attention_dp"]
    usd = hourly / 3600 * stay / (part["batch"] * part["output_tokens"]) * 1e6
    names = ("engine", "gpu", "tp", "pp", "ep", "attention_dp", "weights")
    table = pd.DataFrame(
        {
            "model": [architecture_key(load_model(name)) for name in part["model"]],
            "isl": part["input_tokens"],
            "osl": part["output_tokens"],
            "layout": part[list(names)].astype(str).agg("|".join, axis=1),
            "tpot_ms": part["tpot_s"] * 1e3,
            "predicted_tpot_ms": part["tpot_s"] * 1e3 * np.exp(off[:, 0]),
            "usd": usd,
            "predicted_usd": usd * np.exp(off[:, 2]),
        }
    )
    return compare_choices(table[table["usd"] > 0])


def print_errors(title: str, rows: pd.DataFrame, residuals: Array, bands: Mapping[str, tuple[float, float]]) -> None:
    """Print errors in percent by scenario, engine and family, and how many lie in the 80% band."""
    print(f"\n{title}: errors in percent, and how many lie in the 80% band")
    for keys in (["scenario"], ["scenario", "engine", "family"]):
        print(errors_by(rows, residuals, keys).round(1).to_string())
    print("covered:", covered(rows, residuals, bands))
    print(covered_by(rows, residuals, bands).round(2).to_string())


def main() -> None:
    """Fit, report errors on what the fit had not seen, and write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--moe", type=Path, required=True, help="operator timings of MoE layers")
    parser.add_argument("--date", required=True, help="date of the fit, YYYY-MM-DD")
    parser.add_argument("--out", type=Path, default=DATA_FILE)
    arguments = parser.parse_args()
    observations = read_observations(pd.read_csv(arguments.runs, low_memory=False))
    rows = with_slots(observations.rows)
    uncertain = is_uncertain(rows)
    print("left out:", observations.left_out | {"how many requests were in flight is not known": int(uncertain.sum())})
    rows = rows[~uncertain].reset_index(drop=True)
    rows["family"] = [calibration_group(get_gpu(name)) for name in rows["gpu"]]
    rows["moe"] = rows["model"].map({name: load_model(name).is_moe for name in rows["model"].unique()})
    settings = settings_of(rows)
    architectures = np.array([setting.architecture for setting in settings])
    routing = measured_routing(pd.read_csv(arguments.moe, low_memory=False))
    fit, weight, fresh = Fit(rows, design(settings, routing), routing), row_weights(rows), is_fresh(rows)

    fold = fold_of(rows)
    unseen = out_of_sample(fit, weight, ~fresh, [fold == k for k in range(FOLDS)])
    bands = intervals(rows, unseen)
    on_fresh = out_of_sample(fit, weight, np.ones(len(rows), dtype=np.bool_), [fresh])
    print_errors("cells out of fold", rows, unseen, bands)
    print_errors("fresh cells", rows, on_fresh, bands)
    print("\nlayouts chosen by predictions out of fold:", choices_of(rows, unseen).model_dump_json())

    gpus = [(rows["gpu"] == name).to_numpy() for name in LEFT_OUT_GPUS]
    models = sorted({key for key, name in zip(architectures, rows["model"], strict=True) if name in LEFT_OUT_MODELS})
    without_gpu = out_of_sample(fit, weight, ~fresh, gpus)
    without_model = out_of_sample(fit, weight, ~fresh, [architectures == key for key in models])
    known = np.array([len(set(rows["gpu"][architectures == key])) > 1 for key in models_in(architectures)])
    elsewhere = dict(zip(models_in(architectures), known, strict=True))
    on_known = np.where(np.array([elsewhere[key] for key in architectures])[:, None], without_gpu, np.nan)
    for title, residuals, key in (
        ("GPUs left out whole, models that other GPUs ran", on_known, "gpu"),
        ("models left out whole", without_model, "model"),
    ):
        print(f"\n{title}: errors in percent")
        print(errors_by(rows, residuals, ["scenario", key]).round(1).to_string())
    wider = {"gpu": widening(unseen, without_gpu), "model": widening(unseen, without_model)}
    wider |= {"family": UNSEEN_FAMILY * wider["gpu"], "engine": wider["model"]}

    parameters = fit.solve(np.ones(len(rows), dtype=np.bool_), weight)
    both = np.where(np.isfinite(on_fresh), on_fresh, unseen)
    measured = {
        "gpu": sorted(rows["gpu"].unique()),
        "model": models_in(architectures),
        "engine": sorted(rows["engine"].unique()),
    }
    head = (
        "# Written by optimizer/performance/calibration/fit_efficiency.py; not edited by hand.\n"
        "# Errors are mean and median absolute percentage errors on cells held out of the fit. Bands are logarithms\n"
        "# of measured over predicted there: 10% and 90% quantiles.\n"
        '[meta]\nsource = "InferenceX, aiconfigurator silicon samples, TensorRT-LLM static batches and full load, '
        f'NIM sweeps"\ndate = {arguments.date}\nrows = {len(rows)}\nfolds = {FOLDS}'
    )
    found = factors(parameters, fit.design)
    text = toml(found, routing, family_notes(rows, both), bands, wider, measured, head)
    arguments.out.write_text(text, encoding="utf-8")


def models_in(architectures: npt.NDArray[np.str_]) -> list[str]:
    """Return the distinct architectures, sorted."""
    return sorted(set(architectures.tolist()))


if __name__ == "__main__":
    main()
