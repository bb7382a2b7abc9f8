"""The live memory bar: one replica of the model in the form, on a GPU type and a split that are chosen beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui
from pydantic import TypeAdapter, ValidationError

from catalogs.errors import CatalogError
from catalogs.models import load_model
from optimizer.errors import QuestionError
from optimizer.fields import Tokens, shown
from optimizer.fit import memory_use
from optimizer.memory import MemoryPolicy
from optimizer.plan import MemoryUse, Plan
from optimizer.replica import name_replica
from optimizer.report.drawings import draw_memory
from optimizer.scenario import Memory
from optimizer.web.page.elements import Words, box, drawing
from optimizer.web.page.fields import get

GPU, TP, PP = "H100-SXM-80GB", 4, 1
AT_ONCE = 32
FORMATS = ("bf16", "fp8", "int8", "int4")
FIELD = "outlined dense stack-label hide-bottom-space behavior=menu"


@dataclass(frozen=True, slots=True)
class FitAsked:
    """The replica that the bar is of; `weights` is empty for the checkpoint's own."""

    gpu: str = GPU
    tp: int = TP
    pp: int = PP
    weights: str = ""
    at_once: str = str(AT_ONCE)


def fit_of(question: Mapping[str, Any], asked: FitAsked, models: Sequence[str]) -> tuple[MemoryUse | None, str]:
    """Return the memory of the fullest GPU, and what to say where there is none, or where an engine would refuse it.

    Args:
        question: the fields that the form says; model, lengths and memory policy count.
        asked: the replica.
        models: names that may be asked about.
    """
    name = get(question, "model")
    if name not in models:
        return None, "Choose a model to see whether a replica of it fits."
    try:
        policy = Memory.model_validate(question.get("memory") or {})
        context = _whole(get(question, "workload.context_tokens"), 0) or sum(
            _whole(get(question, f"workload.{one}_tokens"), 1) for one in ("input", "output")
        )
        replica = name_replica(load_model(name), asked.gpu, tp=asked.tp, pp=asked.pp, weights=asked.weights or None)
        refusals = replica.refusals
        if set(refusals) - {"dtype_supported"}:
            return None, f"No engine would load it so: {'; '.join(refusals.values())}."
        used = memory_use(
            replica,
            context,
            _whole(asked.at_once, AT_ONCE),
            MemoryPolicy(policy.policy, policy.overhead, policy.headroom, policy.gpu_memory_utilization, policy.engine),
            policy.max_batched_tokens,
        )
    except (QuestionError, CatalogError, ValueError) as error:
        return None, str(error).splitlines()[0]
    return used, f"But {'; '.join(refusals.values())}." if refusals else ""


def _whole(value: Any, default: int) -> int:
    """Return a whole number as a field holds it; the default where it is empty."""
    if value in (None, ""):
        return default
    try:
        return int(_NUMBER.validate_python(value))
    except ValidationError as error:
        raise ValueError(f"{error.errors()[0]['msg'].removeprefix('Value error, ')}; got {shown(value)}") from None


_NUMBER = TypeAdapter(Tokens)


class FitBar:
    """The bar and what chooses its replica."""

    def __init__(self, question: Callable[[], Mapping[str, Any]], models: Sequence[str], gpus: Sequence[str]):
        """Build it where the page stands.

        Args:
            question: returns what the form says now.
            models: names that may be asked about.
            gpus: GPU types to choose from.
        """
        self._question, self._models = question, models
        self._touched = self._setting = False
        with box("div", "grid"):
            gpu = ui.select(list(gpus), label="GPU", value=GPU, with_input=True, on_change=self._chosen)
            self._gpu = gpu.props(FIELD).classes("wide")
            self._tp = ui.select([1, 2, 4, 8, 16], label="Tensor parallel", value=TP, on_change=self._chosen)
            self._pp = ui.select([1, 2, 4, 8], label="Pipeline stages", value=PP, on_change=self._chosen)
            formats = {"": "the checkpoint's own"} | {one: one for one in FORMATS}
            self._weights = ui.select(formats, label="Weights", value="", on_change=self._chosen)
            for element in (self._tp, self._pp, self._weights):
                element.props(FIELD)
            self._at_once = ui.input(label="Requests at once", value=str(AT_ONCE), on_change=self._chosen)
            self._at_once.props("outlined dense stack-label hide-bottom-space inputmode=numeric autocomplete=off")
        self._place = box("div", "fit", role="status", aria_live="polite")
        self.update()

    def _chosen(self) -> None:
        if not self._setting:
            self._touched = True
            self.update()

    def follow(self, plan: Plan) -> None:
        """Show the replica of an answer, unless the user chose another."""
        layout = plan.layout
        if layout is None or self._touched:
            return
        self._setting = True
        self._gpu.value = layout.gpu if layout.gpu in self._gpu.options else GPU
        for element, value in ((self._tp, layout.tp), (self._pp, layout.pp)):
            if value not in element.options:
                element.set_options(sorted({*element.options, value}))
            element.value = value
        self._weights.value = layout.weights if layout.weights in FORMATS else ""
        self._at_once.value = str(layout.concurrency_per_replica)
        self._setting = False
        self.update()

    @property
    def asked(self) -> FitAsked:
        """The replica that is chosen."""
        return FitAsked(
            str(self._gpu.value or GPU),
            int(self._tp.value or 1),
            int(self._pp.value or 1),
            str(self._weights.value or ""),
            str(self._at_once.value or ""),
        )

    def update(self) -> None:
        """Work it out and draw it anew: a millisecond or two."""
        used, said = fit_of(self._question(), self.asked, self._models)
        self._place.clear()
        with self._place:
            if used is not None:
                verdict = "Fits" if used.fits else "Does not fit"
                left = used.headroom_left_gib
                rest = f"{left:.1f} GiB left" if used.fits else f"{-left:.1f} GiB too much"
                Words(f"{verdict}: {rest} of {used.available_gib:.1f} GiB.", "strong", "good" if used.fits else "bad")
                drawing(draw_memory(used, width=380.0))
            if said:
                Words(said, "p", "muted")
