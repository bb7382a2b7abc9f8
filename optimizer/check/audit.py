"""What an audit looks at: the question, one layout with its figures, and what was worked out anew for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

from catalogs.gpus import Gpu, load_gpus
from catalogs.models import Layer, ModelSpec
from optimizer.check.predict import Prediction
from optimizer.memory import Footprint, footprint
from optimizer.plan import Cost, Layout, MemoryUse, Performance, TargetCheck
from optimizer.scenario import Scenario
from optimizer.split import Split

TOLERANCE = 1e-6  # relative; between two ways of adding up the same floating-point figures
SPEED_TOLERANCE = 1e-4  # relative; the load that a rate keeps up is bisected to a part of a request
Offer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that an answer breaks.

    Attributes:
        rule: the rule's name.
        message: what is wrong, with the numbers.
    """

    rule: str
    message: str


def by_rule(found: Sequence[Violation]) -> dict[str, str]:
    """Return what is wrong by the rule that it breaks."""
    said: dict[str, list[str]] = {}
    for one in found:
        said.setdefault(one.rule, []).append(one.message)
    return {rule: "; ".join(messages) for rule, messages in said.items()}


@dataclass(frozen=True)
class Audit:
    """One layout under audit.

    Attributes:
        cost, memory, performance, targets: what the answer says of it; None or empty where it says nothing.
        offers: the catalog's offers of its instance type, at list prices; None without a catalog.
        today: the day that the age of prices is counted to.
        predicted: latency and load worked out anew; None where the layout cannot run at all.
    """

    scenario: Scenario
    model: ModelSpec
    layout: Layout
    today: date
    cost: Cost | None = None
    memory: MemoryUse | None = None
    performance: Performance | None = None
    targets: tuple[TargetCheck, ...] = ()
    offers: Sequence[Offer] | None = None
    predicted: Prediction | None = field(default=None, compare=False)

    @property
    def split(self) -> Split:
        """How the layout divides a replica."""
        at = self.layout
        return Split(at.weights, at.kv_cache, at.tp, at.pp, at.ep, at.attention_dp)

    @cached_property
    def gpu(self) -> Gpu | None:
        """The layout's GPU; None when the catalog has none of that name."""
        return load_gpus().get(self.layout.gpu)

    @property
    def kinds_of_layer(self) -> list[Layer]:
        """Each different layer of the model once."""
        return [layer for layer, _ in self.model.layer_counts]

    @cached_property
    def held(self) -> Footprint:
        """Bytes on the fullest GPU."""
        return footprint(self.model, self.split, max_batched_tokens=self.scenario.memory.max_batched_tokens)

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica."""
        return self.layout.tp * self.layout.pp * self.layout.attention_dp

    @property
    def requests_per_rank(self) -> int:
        """Requests whose cache one GPU holds at the concurrency limit."""
        return -(-self.layout.concurrency_per_replica // self.layout.attention_dp)

    @property
    def nodes_spanned(self) -> int:
        """Nodes that one replica lies on."""
        return max(1, -(-self.gpus_per_replica // self.layout.gpus_per_node))


Check = Callable[[Audit], Iterator[str]]


def close(one: float, other: float, tolerance: float = TOLERANCE) -> bool:
    """Whether two figures agree but for rounding."""
    return one == other or abs(one - other) <= max(tolerance * max(abs(one), abs(other)), 1e-12)


def exceeds(value: float, limit: float, tolerance: float = TOLERANCE) -> bool:
    """Whether a figure is over its limit by more than rounding; one that is no number always is."""
    return not value <= limit * (1 + tolerance)
