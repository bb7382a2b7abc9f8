"""How the layers of a model are dealt out to pipeline stages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from catalogs.model_spec import ModelSpec
from optimizer.kept import kept


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage.

    Attributes:
        layers: (index into ModelSpec.layer_counts, how many such layers) of this stage.
        first, last: whether it holds the embedding, or the final norm and the LM head.
    """

    layers: tuple[tuple[int, int], ...]
    first: bool
    last: bool


def stage_layer_counts(layers: int, stages: int) -> tuple[int, ...]:
    """Return the layers of each stage as vLLM deals them out: one more on late stages, the last stage excepted.

    vLLM `get_pp_indices`: the remainder goes to the stages before the last, from the end. Its issue 46217 (20 June
    2026) logs 61 layers over 4 stages as 15, 15, 16, 15 and 94 as 23, 24, 24, 23.

    Raises:
        ValueError: `stages` is below 1.
    """
    if stages < 1:
        raise ValueError(f"Expected at least 1 pipeline stage, got {stages}.")
    base, remainder = divmod(layers, stages)
    return tuple(base + (stages - 1 - remainder <= stage < stages - 1) for stage in range(stages))


@kept(size=1024)
def all_stages(model: ModelSpec, stages: int) -> tuple[Stage, ...]:
    """Return every stage, in order."""
    index_of = {id(layer): index for index, (layer, _) in enumerate(model.layer_counts)}
    indices = [index_of[id(layer)] for layer in model.layers]
    found, start = [], 0
    for number, size in enumerate(stage_layer_counts(len(indices), stages)):
        held = Counter(indices[start : start + size])
        found.append(Stage(tuple(sorted(held.items())), number == 0, number == stages - 1))
        start += size
    return tuple(found)


@kept(size=1024)
def distinct_stages(model: ModelSpec, stages: int) -> tuple[Stage, ...]:
    """Return the stages that differ from each other; equal ones are kept once."""
    return tuple(dict.fromkeys(all_stages(model, stages)))
