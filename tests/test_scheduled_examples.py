"""The recipes for looking at plans on a schedule: they parse, and every command in them is one."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from optimizer.cli import app
from optimizer.watch.cron import trigger

PAGE = Path(__file__).parent.parent / "examples" / "scheduled.md"
RECIPES = sorted((PAGE.parent / "scheduled").iterdir())
_COMMAND = re.compile(r"(?:^|[=* \t])shardwise ((?:solve|reoptimize|watch|prices) [^>|\n]*)", re.MULTILINE)


def _commands(text: str) -> list[list[str]]:
    without_comments = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    found = [re.sub(r"`.*|\|\|.*", "", one) for one in _COMMAND.findall(without_comments)]
    return [[word.replace("%%", "%") for word in shlex.split(one.removesuffix(" 2"))] for one in found]


def _check(arguments: list[str]) -> None:
    """Read a command's arguments as the command line does; click refuses what it does not know."""
    command = get_command(app).commands[arguments[0]]  # type: ignore[attr-defined]
    command.make_context(arguments[0], arguments[1:])


def test_the_page_lists_every_recipe() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert [one.name for one in RECIPES if f"(scheduled/{one.name})" not in text] == []
    assert len(RECIPES) == 5


@pytest.mark.parametrize("path", [PAGE, *RECIPES], ids=lambda path: path.name)
def test_every_command_in_a_recipe_is_one(path: Path) -> None:
    commands = _commands(path.read_text(encoding="utf-8"))

    if path.suffix not in (".timer", ".yaml"):
        assert commands
    for arguments in commands:
        _check(arguments)


def test_the_cron_job_of_kubernetes_is_one_and_runs_a_command_of_ours() -> None:
    job = yaml.safe_load((PAGE.parent / "scheduled" / "kubernetes-cronjob.yaml").read_text(encoding="utf-8"))

    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    trigger(job["spec"]["schedule"])
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["shardwise"]
    _check(container["args"])
    claims = {one["name"] for one in pod["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == claims


def test_the_workflow_of_github_is_one() -> None:
    flow = yaml.safe_load((PAGE.parent / "scheduled" / "github-actions.yml").read_text(encoding="utf-8"))

    trigger(flow[True]["schedule"][0]["cron"])  # YAML 1.1 reads "on" as true
    (job,) = flow["jobs"].values()
    assert all("uses" in step or "run" in step for step in job["steps"])


@pytest.mark.parametrize("name", ["shardwise-reoptimize.service", "shardwise-reoptimize.timer"])
def test_units_of_systemd_have_their_sections(name: str) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((PAGE.parent / "scheduled" / name).read_text(encoding="utf-8"))

    assert "Unit" in unit
    assert ("Service" in unit) if name.endswith("service") else unit["Timer"]["Persistent"] == "true"


def test_the_line_of_the_crontab_has_a_schedule_and_no_bare_percent_sign() -> None:
    lines = (PAGE.parent / "scheduled" / "crontab").read_text(encoding="utf-8").splitlines()
    (line,) = (one for one in lines if one and not one.startswith("#") and "=" not in one.split()[0])

    trigger(" ".join(line.split()[:5]))
    assert "%" not in line
