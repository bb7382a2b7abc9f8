"""Launch files of an answer, in each form that something starts it from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from nicegui import ui
from nicegui.element import Element

from optimizer.export.answer import Export, ExportedFile
from optimizer.export.targets import TARGETS
from optimizer.web.page.elements import Words, announce, box, button, card, with_attributes

Create = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
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


class LaunchFiles:
    """The files, one form at a time."""

    def __init__(self, export: Callable[[str, Element], Awaitable[Export | None]], create: Create):
        """Build the section where the page stands.

        Args:
            export: returns the launch files of the answer for a target; where there are none it says why in a place.
            create: runs what takes a while for this page.
        """
        self._export, self._create = export, create
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
        found = await self._export(target, self._place)
        if found is None:
            return
        self._place.clear()
        with self._place:
            for file in found.files:
                self._show_file(file)

    @staticmethod
    def _show_file(file: ExportedFile) -> None:
        with box("div", "file-head"):
            Words(file.name, "strong")
            with box("div", "actions"):
                button("Copy", lambda: _copy(file), label=f"Copy {file.name}")
                save = lambda: ui.download.content(file.text, file.name)  # noqa: E731
                button("Download", save, label=f"Download {file.name}")
        with_attributes(Words(file.text, "pre", "code"), tabindex="0", role="region", aria_label=file.name)


def _copy(file: ExportedFile) -> None:
    ui.clipboard.write(file.text)
    announce(f"{file.name} is copied.", "positive")
