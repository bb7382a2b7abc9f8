"""What a target's own reader makes of a launch file: the commands that would run, in the end."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

Argv = tuple[str, ...]
LEADER = "10.0.0.1"
# One write: processes that run side by side do not mix what they say.
_SAYS = r"""#!/bin/sh
printf '%s\0' vllm "$@" "$(printf '\001')" >> "$SAID"
while [ "$(tr -dc '\001' < "$SAID" | wc -c)" -lt "$CALLS" ]; do sleep 0.01; done
"""
_COMPOSE = re.compile(r"\$(?:(\$)|\{(\w+)(?::\?[^}]*)?\}|(.?))", re.DOTALL)
_KUBERNETES = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def compose_commands(text: str, variables: Mapping[str, str] | None = None) -> dict[str, Argv]:
    """Read as Docker Compose does: $$ is a dollar sign, ${NAME} a variable, anything else after $ an error."""
    services = yaml.safe_load(text)["services"]
    return {
        name: tuple(as_compose_reads(word, variables) for word in (*service["entrypoint"], *service["command"]))
        for name, service in services.items()
        if "entrypoint" in service
    }


def as_compose_reads(text: str, variables: Mapping[str, str] | None = None) -> str:
    """Return text interpolated."""

    def value(found: re.Match[str]) -> str:
        dollar, name, wrong = found.groups()
        assert wrong is None, f"invalid interpolation: {text!r}"
        return "$" if dollar else (variables or {})[name]

    return _COMPOSE.sub(value, text)


def kubernetes_commands(pod: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> Argv:
    """Read as a kubelet does: $$ is a dollar sign, $(NAME) a variable that is set, or else just that."""
    (container,) = pod["containers"]
    return tuple(as_kubernetes_reads(word, variables) for word in (*container["command"], *container["args"]))


def as_kubernetes_reads(text: str, variables: Mapping[str, str] | None = None) -> str:
    """Return text with its variables' values."""
    values = {"LWS_LEADER_ADDRESS": LEADER} | dict(variables or {})

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] else values.get(found[2], found[0])

    return _KUBERNETES.sub(value, text)


def shell_commands(script: str, folder: Path, *, shell: str = "bash", calls: int = 1, **variables: str) -> list[Argv]:
    """Run a script where `vllm` is a program that says what it was called with, and stays until all have said it."""
    program = folder / "vllm"
    if not program.exists():
        program.write_text(_SAYS)
        program.chmod(0o755)
    said = folder / "said"
    said.write_bytes(b"")
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SAID": str(said), "CALLS": str(calls), **variables}
    subprocess.run([shell, "-c", script], env=environment, check=True, timeout=20, stdin=subprocess.DEVNULL)
    return [tuple(call.split("\0")[:-1]) for call in said.read_bytes().decode().split("\1\0") if call]


def dstack_script(text: str) -> str:
    """Read as `dstack apply` does: $$ is a dollar sign, ${{ }} a value of its own, which none of ours is."""
    found, rest = "", yaml.safe_load(text)["commands"]
    script = " && ".join(command.strip() for command in rest)
    while script:
        head, dollar, script = script.partition("$")
        found += head + dollar
        assert not (dollar and script.startswith("{{")), "dstack would put a value of its own here"
        script = script[1:] if dollar and script.startswith("$") else script
    return found


def terraform_groups(text: str) -> dict[str, Any]:
    """Return the groups of nodes of a .tfvars.json."""
    return dict(json.loads(text)["shardwise_nodes"])


def cloud_init_file(user_data: str, name: str) -> str:
    """Return a file that cloud-init writes."""
    assert user_data.startswith("#cloud-config\n")
    (file,) = [each for each in yaml.safe_load(user_data)["write_files"] if each["path"].endswith(f"/{name}")]
    if "encoding" not in file:
        return str(file["content"])

    assert file["encoding"] == "gz+b64"
    return gzip.decompress(base64.b64decode(file["content"])).decode()


def helm_command(values: Mapping[str, Any], model: Mapping[str, Any]) -> Argv:
    """Return the command that the chart's template makes of a model's values."""
    config = model["vllmConfig"]
    command = ["vllm", "serve", model["modelURL"], "--host", "0.0.0.0"]
    command += ["--port", str(values["servingEngineSpec"]["containerPort"])]
    command += ["--enable-prefix-caching" if config.get("enablePrefixCaching") else "--no-enable-prefix-caching"]
    flags = {
        "maxModelLen": "--max-model-len",
        "dtype": "--dtype",
        "tensorParallelSize": "--tensor-parallel-size",
        "maxNumSeqs": "--max-num-seqs",
        "gpuMemoryUtilization": "--gpu-memory-utilization",
    }
    for field, flag in flags.items():
        if field in config:
            command += [flag, f"{config[field]:g}" if isinstance(config[field], float) else str(config[field])]
    pod = {"containers": [{"command": command, "args": config.get("extraArgs", [])}]}
    return kubernetes_commands(pod)
