"""Would predictions have chosen the layout that measurements choose? Regret in money, and targets really missed.

For each model and pair of lengths with at least three measured layouts, and for several TPOT targets: a layout costs
what a million output tokens cost at its best measured number of requests within the target. Predictions choose by their
own TPOT and throughput of the same runs; the choice then costs what was measured of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from optimizer.errors import QuestionError
from optimizer.performance.calibration.observations import canonical_gpu
from optimizer.validate.speed import validate_speed
from optimizer.validate.speed_rows import CLOSED, LAYOUT

TRAFFIC = ("model", "isl", "osl")
TARGETS_MS = (10.0, 15.0, 20.0, 30.0, 50.0, 100.0)
FEWEST_LAYOUTS = 3


class Decisions(BaseModel):
    """What `shardwise validate decisions --json` prints.

    Attributes:
        questions: model, lengths and target combinations that some measured layout meets.
        unanswered: of those, where predictions see no layout that meets the target.
        missed: where the chosen layout really meets it with no number of requests.
        same: where predictions choose the cheapest layout, or one that costs the same.
        mean_regret_percent, median_regret_percent, worst_regret_percent: how much more the chosen layout really costs
            than the cheapest, over the choices that meet the target.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    questions: int
    unanswered: int
    missed: int
    same: int
    mean_regret_percent: float
    median_regret_percent: float
    worst_regret_percent: float


def gpu_prices(path: Path | None) -> dict[str, float]:
    """Return USD per GPU hour by GPU: of a CSV with columns gpu and usd_per_gpu_hour, else the catalog's cheapest.

    Raises:
        QuestionError: the file is no such CSV.
    """
    if path is None:
        from catalogs.offers import load_offers  # noqa: PLC0415  reading all prices takes a while

        frame = load_offers().frame
        rented = frame[(frame["term"] == "on-demand") & (frame["provider_kind"] != "marketplace")]
        per_gpu = rented["price_usd_per_node_hour"] / rented["gpus_per_node"]
        return {str(gpu): float(price) for gpu, price in per_gpu.groupby(rented["gpu"]).min().items()}
    try:
        table = pd.read_csv(path)
        return {str(gpu): float(price) for gpu, price in zip(table["gpu"], table["usd_per_gpu_hour"], strict=True)}
    except (OSError, UnicodeDecodeError, ValueError, KeyError) as error:
        raise QuestionError(f"{path}: expected a CSV with columns gpu, usd_per_gpu_hour ({error})") from None


def validate_decisions(path: Path, prices: dict[str, float]) -> Decisions:
    """Compare the layouts that predictions and measurements choose.

    Args:
        path: a file of runs, as for `validate_speed`.
        prices: USD per GPU hour, by the GPU's name in the file or in the catalog.

    Raises:
        QuestionError: the file is none of runs, or holds no choice to compare.
    """
    _, result = validate_speed(path)
    found = compare_choices(_priced(result, prices))
    if not found.questions:
        raise QuestionError(f"{path}: no model and lengths with {FEWEST_LAYOUTS} measured layouts of known price")
    return found


def compare_choices(runs: pd.DataFrame) -> Decisions:
    """Compare the layouts that predictions and measurements choose.

    Args:
        runs: one run a row: the columns of TRAFFIC, layout, and tpot_ms and usd (per million output tokens), measured
            and `predicted_`.
    """
    regrets: list[float] = []
    questions = unanswered = missed = 0
    for _, traffic in runs.groupby(list(TRAFFIC)):
        if traffic["layout"].nunique() < FEWEST_LAYOUTS:
            continue
        for target in TARGETS_MS:
            real = _cheapest(traffic, "", target)
            if len(real) < FEWEST_LAYOUTS:
                continue
            questions += 1
            seen = _cheapest(traffic, "predicted_", target)
            if seen.empty:
                unanswered += 1
            elif (chosen := str(seen.idxmin())) not in real.index:
                missed += 1
            else:
                regrets.append(float(real[chosen] / real.min() - 1.0) * 100)
    found = np.array(regrets or [0.0])
    return Decisions(
        questions=questions,
        unanswered=unanswered,
        missed=missed,
        same=int((np.array(regrets) < 1e-6).sum()),
        mean_regret_percent=float(found.mean()),
        median_regret_percent=float(np.median(found)),
        worst_regret_percent=float(found.max()),
    )


def _priced(result: pd.DataFrame, prices: dict[str, float]) -> pd.DataFrame:
    """Closed loops with a measured TPOT, their layout, and USD per million output tokens, measured and predicted."""
    runs = result[(result["not_judged"] == "") & (result["scenario"] == CLOSED)].copy()
    names = ("n_gpus", "isl", "osl", "concurrency", "ttft_ms", "tpot_ms", "output_tok_s_total")
    for name in names:
        runs[name] = pd.to_numeric(runs[name], errors="coerce") if name in runs else np.nan
    per_request_s = (runs["ttft_ms"] + (runs["osl"] - 1) * runs["tpot_ms"]) / 1e3
    rate = runs["output_tok_s_total"].fillna(runs["concurrency"] * runs["osl"] / per_request_s)
    price = runs["gpu"].map(lambda gpu: prices.get(gpu, prices.get(canonical_gpu(gpu), np.nan)))
    hourly = price * runs["n_gpus"]
    runs["usd"] = hourly / rate / 3600 * 1e6
    runs["predicted_usd"] = hourly / runs["predicted_output_tok_s_total"] / 3600 * 1e6
    kept = [name for name in LAYOUT if name in runs]
    runs["layout"] = ["|".join(map(str, row)) for row in runs[kept].itertuples(index=False)]
    return runs[(runs["tpot_ms"] > 0) & (runs["usd"] > 0)]


def _cheapest(traffic: pd.DataFrame, prefix: str, target_ms: float) -> pd.Series:
    """USD per million output tokens of each layout, at its cheapest number of requests within the target."""
    within = traffic[traffic[f"{prefix}tpot_ms"] <= target_ms]
    found: pd.Series = within.groupby("layout")[f"{prefix}usd"].min()
    return found
