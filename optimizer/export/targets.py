"""The forms that launch files come in, by name: engines' own command lines, and manifests of what runs containers.

To add one: a function of the deployments that returns files, and a line here. Modules are imported when asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, Literal

from catalogs.errors import near_matches
from optimizer.engines import ENGINE_NAMES
from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, LaunchFile

Target = Callable[[tuple[Deployment, ...]], tuple[LaunchFile, ...]]

TargetName = Literal[
    "vllm",
    "sglang",
    "trtllm",
    "docker-compose",
    "kubernetes",
    "helm-values",
    "skypilot",
    "dstack",
    "terraform-vars",
]
# Name -> "module:function".
TARGETS: Final[dict[str, str]] = {
    "vllm": "optimizer.export.scripts:scripts",
    "sglang": "optimizer.export.scripts:scripts",
    "trtllm": "optimizer.export.scripts:scripts",
    "docker-compose": "optimizer.export.compose:compose",
    "kubernetes": "optimizer.export.kubernetes:kubernetes",
    "helm-values": "optimizer.export.helm:helm",
    "skypilot": "optimizer.export.skypilot:skypilot",
    "dstack": "optimizer.export.dstack:dstack",
    "terraform-vars": "optimizer.export.terraform:terraform",
}


def check_target(name: str) -> None:
    """Refuse a name that is no target.

    Raises:
        QuestionError: with the nearest names.
    """
    if name not in TARGETS:
        near = near_matches(name[:80], TARGETS, limit=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise QuestionError(f"--to {name!r}: no such target{hint} (accepted: {', '.join(TARGETS)})")


def launch_files(name: str, deployments: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    """Write deployments down for a target; file names are unique.

    Raises:
        QuestionError: there is no such target, or it cannot express a deployment.
    """
    check_target(name)
    for one in deployments:
        if one.launch.mpi and name not in ENGINE_NAMES:
            raise QuestionError(
                f"--to {name}: {one.launch.engine} over {one.replica.nodes} nodes is started by MPI, which no manifest "
                f"can write down; use --to {one.launch.engine}, or --engine vllm or sglang"
            )
    module, _, function = TARGETS[name].partition(":")
    target: Target = getattr(import_module(module), function)
    return target(deployments)
