"""How a report divides a replica, and what an engine says to it."""

from __future__ import annotations

from catalogs.models import ModelSpec
from optimizer.divisibility import Refusal, check_split
from optimizer.memory.stages import stage_layer_counts
from optimizer.split import Split
from optimizer.validate.cases import Row, whole
from optimizer.validate.engines import Engine

MOST_TP_SHOWN = 32
NODE_GPUS = 8  # where a report gives GPUs and no split: tensor parallel in a node, stages over nodes
VISION_WHOLE_SINCE = (0, 8)
UNEVEN_STAGES_SINCE = (0, 5, 1)


def read_split(row: Row, model: ModelSpec, kv: str) -> Split:
    """Return the split of one replica; a size that is not given is 1, or follows from the number of GPUs."""
    gpus, tp, pp, dp, ep = (whole(row, name) for name in ("n_gpus", "tp", "pp", "dp", "ep"))
    shared = bool(dp and dp > 1 and ep and ep > 1 and model.is_moe)
    attention_dp = dp if shared and dp else 1
    if tp is None and pp is None and gpus and not dp:
        tp = min(gpus, NODE_GPUS)
        pp = -(-gpus // tp)
    elif tp is None:
        tp = max(1, (gpus or 1) // ((pp or 1) * (dp or 1)))
    tp, pp = tp or 1, pp or 1
    dealt = tp * attention_dp if ep and ep > 1 else 1
    return Split(model.checkpoint.weights, kv, tp, pp, dealt, attention_dp)


def refusals(model: ModelSpec, split: Split, engine: Engine) -> tuple[Refusal, ...]:
    """Return why this engine of this time does not load the model so."""
    sliced = engine.name == "vllm" and bool(engine.version) and engine.version < VISION_WHOLE_SINCE
    return check_split(model, split, vision_sliced=sliced and split.tp > 1)


def accepted_tp(model: ModelSpec, split: Split, engine: Engine) -> str:
    """Return the tensor parallel sizes that load, as "1, 2, 4"."""
    sizes = [
        tp
        for tp in range(1, MOST_TP_SHOWN + 1)
        if not refusals(model, Split(split.weights, split.kv_cache, tp, split.pp), engine)
    ]
    return ", ".join(map(str, sizes)) or "none"


def stages_said(model: ModelSpec, pp: int) -> str:
    """Return how the layers go over the stages, as "61 layers over 4 stages: 15, 15, 16, 15"."""
    counts = ", ".join(map(str, stage_layer_counts(len(model.layers), pp)))
    return f"{len(model.layers)} layers over {pp} stages: {counts}"
