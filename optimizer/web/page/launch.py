"""Launch files of an answer, in each form that something starts it from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nicegui import ui
from nicegui.element import Element

from catalogs.errors import CatalogError
from optimizer.engines import ENGINE_NAMES
from optimizer.errors import QuestionError
from optimizer.export.deployment import LaunchFile
from optimizer.export.options import ExportOptions
from optimizer.export.targets import TARGETS, launch_files
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.web.page.elements import Words, announce, box, button, card, with_attributes

LABELS = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "trtllm": "TensorRT-LLM",
    "docker-compose": "Docker Compose",
    "kubernetes": "Kubernetes",
    "helm-values": "Helm values",
    "skypilot": "SkyPilot",
    "terraform-vars": "Terraform variables",
}


def files_of(plan: Plan | FleetPlan, target: str) -> tuple[LaunchFile, ...]:
    """Return the launch files of a plan for a target (see optimizer.export.targets).

    Raises:
        QuestionError, CatalogError: the target cannot express it, or a part of it is not known.
    """
    from optimizer.export.plans import deployments  # noqa: PLC0415  reads offers, for fallbacks

    options = ExportOptions.model_validate({"engine": target if target in ENGINE_NAMES else None})
    return launch_files(target, deployments(plan, options))


class LaunchFiles:
    """The files, one form at a time."""

    def __init__(self, plan: Plan | FleetPlan, create: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]):
        """Build the section where the page stands.

        Args:
            plan: the answer.
            create: runs what takes a while for this page.
        """
        self._plan, self._create = plan, create
        self._task: asyncio.Task[None] | None = None
        self._tabs: dict[str, Element] = {}
        with card("Launch files"):
            with box("div", "tabs", role="group", aria_label="Form of the launch files"):
                for name in TARGETS:
                    tab = button(LABELS.get(name, name), lambda name=name: self.show(name))
                    self._tabs[name] = with_attributes(tab, aria_pressed="false")
            self._place = box("div", aria_live="polite")
            with self._place:
                Words("Choose what is to start it.", "p", "muted")

    def show(self, target: str) -> None:
        """Show the files of one form."""
        for name, tab in self._tabs.items():
            tab.props["aria-pressed"] = str(name == target).lower()
        if self._task is not None:
            self._task.cancel()
        self._task = self._create(self._fill(target))

    async def _fill(self, target: str) -> None:
        try:
            files = await asyncio.to_thread(files_of, self._plan, target)
        except (QuestionError, CatalogError) as error:
            self._place.clear()
            with self._place:
                Words(str(error), "p", "bad")
            return
        self._place.clear()
        with self._place:
            for file in files:
                self._show_file(file)

    @staticmethod
    def _show_file(file: LaunchFile) -> None:
        with box("div", "file-head"):
            Words(file.name, "strong")
            with box("div", "actions"):
                button("Copy", lambda: _copy(file), label=f"Copy {file.name}")
                save = lambda: ui.download.content(file.text, file.name)  # noqa: E731
                button("Download", save, label=f"Download {file.name}")
        with_attributes(Words(file.text, "pre", "code"), tabindex="0", role="region", aria_label=file.name)


def _copy(file: LaunchFile) -> None:
    ui.clipboard.write(file.text)
    announce(f"{file.name} is copied.", "positive")
