"""Lists that can be asked for: rows of the catalog and of prices, a part of them at a time."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from optimizer.fields import Day, Name, whole
from optimizer.questions.requests import Pattern, Question

MOST_ROWS = 10_000

Limit = Annotated[int, whole(1, MOST_ROWS), Field(description="Most rows.")]
Offset = Annotated[int, whole(0, 10_000_000), Field(description="Rows to leave out before.")]
PriceDay = Annotated[Day | None, Field(description="Day whose prices count; the newest when not given.")]


class CatalogQuestion(Question):
    """Rows of a catalog whose names hold a text."""

    match: Pattern | None = Field(default=None, description="Only names that hold this text.")
    limit: Limit = 100
    offset: Offset = 0


class GpusQuestion(CatalogQuestion):
    """GPU types: usable memory, bandwidth, dense FLOP/s, scale-up domain."""


class ModelsQuestion(CatalogQuestion):
    """Bundled models: parameters, KV bytes per token, context, checkpoint format."""


class NodesQuestion(CatalogQuestion):
    """Rentable node shapes: GPUs, fabric, network."""

    provider: Name | None = None
    gpu: Name | None = None


class OffersQuestion(NodesQuestion):
    """Priced offers of a day, the cheapest per GPU first."""

    term: Name | None = None
    region: Name | None = None
    as_of: PriceDay = None


class PatternsQuestion(Question):
    """Rows of the price history, by patterns: * and ? stand for anything."""

    gpu: Pattern | None = None
    provider: Pattern | None = None
    region: Pattern | None = None
    term: Pattern | None = None
    limit: Limit = 100
    offset: Offset = 0

    @property
    def patterns(self) -> dict[str, str | None]:
        """The patterns by the column that they are of."""
        names = ("gpu", "provider", "region", "term", "instance_type")
        return {name: getattr(self, name) for name in names if name in type(self).model_fields}


class PricesQuestion(PatternsQuestion):
    """Offers of a day, by patterns: * and ? stand for anything."""

    instance_type: Pattern | None = None
    as_of: PriceDay = None
    sort: Literal["usd_per_gpu_hour", "usd_per_node_hour", "gpu", "provider", "seen_on"] = "usd_per_gpu_hour"


class HistoryQuestion(PatternsQuestion):
    """How prices moved: a row for each time that a price stood."""

    instance_type: Pattern | None = None
    source: Name | None = Field(default=None, description="Only this source.")
    since: Day | None = Field(default=None, description="From this day on.")
    until: Day | None = Field(default=None, description="Up to this day.")


class DiffQuestion(PatternsQuestion):
    """What changed between two days, the largest moves first."""

    before: Day = Field(description="The earlier day.", examples=["2026-07-05"])
    after: Day = Field(description="The later day.", examples=["2026-08-14"])

    @model_validator(mode="after")
    def _in_order(self) -> DiffQuestion:
        if self.before > self.after:
            raise ValueError(f"before: {self.before} is after {self.after}; expected the earlier day first")
        return self


class SourcesQuestion(Question):
    """How old the prices of each source of the history are, and what failed."""
