"""What a shell is told when Tab is pressed, asked in each shell's own way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.main import get_command

from catalogs.gpus import KV_CACHE_FORMATS, WEIGHT_FORMATS, load_gpus
from catalogs.model_index import build_index
from catalogs.providers import load_providers
from optimizer import completion, scenario
from optimizer.cli import app
from optimizer.commands.schema import SCHEMAS
from optimizer.engines import ENGINE_NAMES
from optimizer.export.targets import TARGETS

HEAVY = ("numpy", "ortools", "pandas", "rich.table", "sqlalchemy", "yaml")


def asked(shell: str, line: str, folder: Path | None = None, *, last: str = "") -> subprocess.CompletedProcess[str]:
    """Ask as the script of a shell does; the line ends where the cursor is."""
    words = line.split(" ")
    protocol = {
        "bash": {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    code = (
        f"import sys; sys.argv = ['shardwise']\nfrom optimizer.cli import main\ntry: main()\nfinally: {last or 'pass'}"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"_SHARDWISE_COMPLETE": f"complete_{shell}"} | protocol,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
    )


def completed(line: str, folder: Path | None = None) -> list[str]:
    """What bash is offered."""
    return asked("bash", line, folder).stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_told_the_gpus_that_begin_so(shell: str) -> None:
    told = asked(shell, "shardwise solve --gpu H200").stdout

    assert told.replace("\\", "").count("H200-SXM-141GB") == 1
    assert told.count("H200-NVL-141GB") == 1
    assert "H100" not in told


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_so(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['shardwise']\nfrom optimizer.cli import main; main()"],
        env=os.environ | {"_SHARDWISE_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert f"_SHARDWISE_COMPLETE=complete_{shell}" in done.stdout
    assert "shardwise" in done.stdout


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("shardwise schema whatif-b", ["whatif-breakeven", "whatif-budget"]),
        ("shardwise solve --provider lam", ["lambda"]),
        ("shardwise solve --term reserved", ["reserved-1y", "reserved-3y"]),
        ("shardwise solve --weights nv", ["nvfp4"]),
        ("shardwise fit meta-llama/Llama-3.1-7", ["meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-70B-Instruct"]),
        ("shardwise solve --gpu H200-SXM-141GB,A100-S", [f"H200-SXM-141GB,A100-SXM-{gb}GB" for gb in (40, 80)]),
        ("shardwise what", ["whatif"]),
        ("shardwise solve --ttft", ["--ttft-ms"]),
        ("shardwise solve --gpu nothing-like-it", []),
    ],
)
def test_values_subcommands_and_flags_are_completed(line: str, told: list[str]) -> None:
    assert completed(line) == told


def test_a_question_is_a_scenario_file_a_folder_or_a_model(tmp_path: Path) -> None:
    for name in ("qwen.yaml", "qwen.txt", ".hidden.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "chat.yml").touch()

    assert completed("shardwise solve q", tmp_path)[:2] == ["questions/", "qwen.yaml"]
    assert "qwen.txt" not in completed("shardwise solve q", tmp_path)
    assert completed("shardwise whatif breakeven questions/", tmp_path) == ["questions/chat.yml"]
    assert completed("shardwise pareto no-such-folder/", tmp_path) == []


def test_names_that_a_shell_would_act_on_are_left_to_the_shell(tmp_path: Path) -> None:
    for name in ("$(touch gone).yaml", "a b.yaml", "`touch gone`.yaml", "x;touch gone.yaml", "plain.yaml"):
        (tmp_path / name).touch()

    assert completed("shardwise pareto ", tmp_path) == ["plain.yaml"]
    assert not (tmp_path / "gone").exists()


def test_what_is_completed_is_what_is_accepted() -> None:
    assert set(completion.gpus()) == set(load_gpus())
    assert set(completion.providers()) == set(load_providers())
    assert set(completion.models()) == set(build_index())
    assert set(completion.targets()) == set(TARGETS)
    assert set(completion.schemas()) == set(SCHEMAS)
    assert (*scenario.TERMS, "any") == completion.TERMS
    assert set(completion.WEIGHTS) == {"checkpoint", *WEIGHT_FORMATS, "any"}
    assert set(completion.KV_CACHES) == {"auto", *KV_CACHE_FORMATS, "any"}
    assert set(completion.OF_FLAGS["--engine"]("")) == set(ENGINE_NAMES)
    assert get_args(scenario.Targets.model_fields["at"].annotation) == completion.LEVELS
    assert set(completion.OF_FLAGS["--memory-policy"]("")) == set(
        get_args(scenario.Memory.model_fields["policy"].annotation)
    )
    assert (*scenario.PROVIDER_KINDS, "any") == completion.PROVIDER_KINDS


def test_every_flag_that_is_completed_exists() -> None:
    def flags(command: Any) -> set[str]:
        own = {name for one in command.params for name in one.opts}
        return own.union(*map(flags, getattr(command, "commands", {}).values()))

    known = flags(get_command(app))
    assert set(completion.OF_FLAGS) <= known


def test_completion_needs_no_tables_and_answers_within_the_blink_of_an_eye() -> None:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        loaded = f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
        told = asked("bash", "shardwise solve meta-llama/Llama-3.1", last=loaded)
        times.append(time.perf_counter() - began)
        assert told.stderr.split() == []
        assert len(told.stdout.split()) > 3
    # 0.2 s on an idle core (the aim is 0.3 s); what else the machine does is not ours to assert.
    assert min(times) < 1.5
