"""One replica that the user names: for `fit` and `predict`, which ask no solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalogs.gpus import Gpu, get_gpu
from catalogs.models import ModelSpec
from catalogs.nodes import default_fabric
from optimizer.calibration_used import calibration_used, calibration_warnings
from optimizer.divisibility import check_split
from optimizer.errors import QuestionError
from optimizer.plan import AnswerPart, Calibration
from optimizer.rules import get_rule
from optimizer.split import Split


class ReplicaAnswer(AnswerPart):
    """What every answer about one replica begins with: model, GPU type, split, its GPUs, and requests at once.

    Attributes:
        calibration: the user's own, where speeds rest on one.
        warnings: what the answer takes for granted and the user may not.
    """

    model: str
    gpu: str
    weights: str
    kv_cache: str
    tp: int
    pp: int
    ep: int
    attention_dp: int
    gpus: int
    concurrency: int
    calibration: Calibration | None = None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replica:
    """A split of a model on a GPU type, inside one node of just as many GPUs as the replica has."""

    model: ModelSpec
    gpu: Gpu
    split: Split

    def said(self, concurrency: int) -> dict[str, Any]:
        """Return the fields of a ReplicaAnswer about so many requests at once."""
        split = {name: getattr(self.split, name) for name in ("weights", "kv_cache", "tp", "pp", "ep", "attention_dp")}
        about = {"model": self.model.name, "gpu": self.gpu.name, "gpus": self.split.gpus, "concurrency": concurrency}
        speeds = {"calibration": calibration_used(), "warnings": (*self.warnings, *calibration_warnings())}
        return about | split | speeds

    @property
    def warnings(self) -> tuple[str, ...]:
        """Say where the GPUs of a stage are more than one scale-up domain joins."""
        stage, (_, joined) = self.split.tp * self.split.attention_dp, default_fabric(self.gpu, self.split.gpus)
        if stage <= max(joined, 1) or joined == 1:
            return ()
        return (
            f"{stage} GPUs of {self.gpu.name} share each layer, and a scale-up domain joins {joined}: their "
            "all-reduces leave it, which costs time, and no node is known to hold so many",
        )

    @property
    def refusals(self) -> dict[str, str]:
        """Rules that the model or the GPU refuses this split by, with what they need; empty when none."""
        found = {refusal.rule: refusal.needs for refusal in check_split(self.model, self.split)}
        lacking = []
        if self.gpu.weight_support(self.split.weights) == "none":
            lacking.append(f"runs {self.split.weights} weights")
        if not self.gpu.kv_cache_support(self.split.kv_cache):
            lacking.append(f"keeps a {self.split.kv_cache} KV cache")
        if lacking:
            found["dtype_supported"] = f"a GPU that {' and '.join(lacking)}: {self.gpu.name} does not"
        return found


def name_replica(
    model: ModelSpec,
    gpu: str,
    *,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    attention_dp: int = 1,
    weights: str | None = None,
    kv_cache: str | None = None,
) -> Replica:
    """Return the replica that the user names; precisions not named are the checkpoint's own.

    Raises:
        UnknownNameError: the GPU is not in the catalog.
        QuestionError: `ep` is neither 1 nor all GPUs of a stage.
    """
    checkpoint = model.checkpoint
    if ep not in (1, tp * attention_dp):
        raise QuestionError(f"--ep {ep}: expected 1, or tp x attention_dp = {tp * attention_dp}")
    card = get_gpu(gpu)
    held = kv_cache or card.own_kv_cache(str(checkpoint.own_kv_cache))
    return Replica(model, card, Split(str(weights or checkpoint.weights), held, tp, pp, ep, attention_dp))


def replica_columns(replica: Replica) -> dict[str, list[object]]:
    """Return the replica as a one-row table for the speed model, on a node that holds just it."""
    split = replica.split
    fabric, scale_up_gpus = default_fabric(replica.gpu, split.gpus)
    return {
        "gpu": [replica.gpu.name],
        "weights": [split.weights],
        "kv_cache": [split.kv_cache],
        "tp": [split.tp],
        "pp": [split.pp],
        "ep": [split.ep],
        "attention_dp": [split.attention_dp],
        "gpus_per_node": [split.gpus],
        "fabric": [fabric],
        "scale_up_gpus": [scale_up_gpus],
        "network": ["unknown"],
        "network_gbit_per_s": [float("nan")],
    }


def refuse(replica: Replica) -> None:
    """Raise QuestionError with every reason why engines would not load this replica; return when there is none."""
    refusals = replica.refusals
    if refusals:
        said = "\n".join(f"  - {rule} ({get_rule(rule).meaning}): needs {needs}" for rule, needs in refusals.items())
        raise QuestionError(
            f"{replica.model.name} does not run as {replica.split.weights} tp={replica.split.tp} "
            f"pp={replica.split.pp} ep={replica.split.ep} on {replica.gpu.name}:\n{said}"
        )
