"""The wheel as a stranger gets it: built, installed into an empty environment, run in an empty folder, without extras.

The environment holds the packages that a base install brings and no others, linked from where the tests run; the source
tree is not on its path.
"""

from __future__ import annotations

import email
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCENARIO = ROOT / "examples" / "llama-3.1-70b-chat.yaml"
SWEEP = ("whatif", "sweep", "chat.yaml", "--vary", "workload.request_rate=1,2", "--out")
PACKAGES = ("catalogs", "fetchers", "optimizer")

# Runs command lines one after the other, as the console script would, and prints what became of each.
DRIVER = """
import contextlib, io, json, os, sys
from optimizer.cli import main

found = []
for words in json.load(sys.stdin):
    sys.argv = ["shardwise", *words]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    found.append([code, out.getvalue(), err.getvalue()])
json.dump(found, sys.stdout)
"""


@dataclass(frozen=True)
class Installed:
    """The wheel, the environment it is installed in, and an empty folder to work in."""

    wheel: Path
    environment: Path
    folder: Path

    @property
    def site(self) -> Path:
        """Where its packages are."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.environment / "lib" / version / "site-packages"

    def run(self, program: str, *words: str, stdin: str = "", **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SHARDWISE_", "HF_"))
        }
        kept |= {"SHARDWISE_DATA_DIR": str(self.folder / "data"), "COLUMNS": "100"}
        return subprocess.run(
            [str(self.environment / "bin" / program), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.folder,
            env=kept | extra,
        )

    def shardwise(self, *commands: list[str], **extra: str) -> list[tuple[int, str, str]]:
        """Run command lines in one process; exit code, output and errors of each."""
        done = self.run("python", "-c", DRIVER, stdin=json.dumps(commands), **extra)
        assert done.returncode == 0, done.stderr
        return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build and install; needs no network, since nothing is resolved."""
    folder = tmp_path_factory.mktemp("wheel")
    _quietly(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist"), cwd=ROOT)
    (wheel,) = (folder / "dist").glob("*.whl")
    _quietly(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"), cwd=folder)
    python = folder / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install", "--no-index")
    _quietly(*pip, "--no-deps", "--no-compile", str(wheel), cwd=folder)
    (folder / "empty").mkdir()
    shutil.copy(SCENARIO, folder / "empty" / "chat.yaml")
    made = Installed(wheel, folder / "venv", folder / "empty")
    for name in _names_needed(_metadata(wheel).get_all("Requires-Dist")):
        for one in _top_of(importlib.metadata.distribution(name)):
            if not (made.site / one.name).exists():
                (made.site / one.name).symlink_to(one)
    return made


def _quietly(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def _names_needed(requirements: Iterable[str]) -> set[str]:
    """The distributions that these bring, and those that they bring in turn."""
    found: set[tuple[str, str]] = set()
    asked = [(Requirement(one), "") for one in requirements]
    while asked:
        one, extra = asked.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        for part in {"", *one.extras}:
            if (one.name, part) not in found:
                found.add((one.name, part))
                below = importlib.metadata.distribution(one.name).requires or ()
                asked += [(Requirement(text), part) for text in below]
    return {name for name, _ in found}


def _top_of(distribution: importlib.metadata.Distribution) -> set[Path]:
    """Its packages, modules and metadata, as they lie in the folder of packages."""
    tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    return {Path(str(distribution.locate_file(top))) for top in tops}


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(installed: Installed) -> None:
    in_tree = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(installed.wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        size = sum(one.compress_size for one in archive.infolist())

    assert held == in_tree
    kinds = {Path(name).suffix for name in held if "/data/" in name}
    assert {".toml", ".csv", ".json"} <= kinds
    assert any(name.startswith("catalogs/history/migrations/") for name in held)
    assert "catalogs/py.typed" in held or not (ROOT / "catalogs" / "py.typed").exists()
    assert size < 10e6


def test_its_metadata_is_that_of_the_project(installed: Installed) -> None:
    said = _metadata(installed.wheel)

    assert said["Name"] == "shardwise"
    assert said["Requires-Python"] == PROJECT["requires-python"]
    assert said["License-Expression"] == PROJECT["license"]
    assert set(said.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert said.get_payload().startswith("# shardwise")


def test_the_installed_command_solves_the_demo_in_an_empty_folder(installed: Installed) -> None:
    where = installed.run("python", "-c", "import optimizer, catalogs; print(optimizer.__file__, catalogs.__file__)")
    solved = installed.run("shardwise", "solve", "chat.yaml")

    assert [Path(one).is_relative_to(installed.site) for one in where.stdout.split()] == [True, True], where.stderr
    assert solved.stderr == ""
    assert solved.returncode == 0
    assert solved.stdout.startswith("OPTIMAL  ")
    assert "Source: GPU rental price data" in solved.stdout
    assert installed.run("python", "-c", "import tests").returncode != 0


def test_a_base_install_answers_everything_that_needs_no_extra(installed: Installed) -> None:
    llama = "meta-llama/Llama-3.1-8B-Instruct"
    lengths = ["--input-tokens", "500", "--output-tokens", "100"]
    expected = {
        ("--version",): "shardwise ",
        ("catalog", "gpus"): "H100-SXM-80GB",
        ("catalog", "models"): llama,
        ("catalog", "nodes", "--gpu", "T4-16GB"): "g4dn.xlarge",
        ("schema", "scenario"): '"properties"',
        ("prices", "list", "--limit", "3"): "rows. Prices as of",
        ("prices", "sources"): "No history is kept yet",
        ("fit", llama, "--gpu", "L40S-48GB"): "FITS",
        ("predict", llama, "--gpu", "L4-24GB", "--concurrency", "4", *lengths): "time per output token",
        ("solve", "chat.yaml", "--json"): '"optimal"',
        ("pareto", "chat.yaml", "--out", "front.csv"): "$/hour",
        ("whatif", "budget", "chat.yaml", "--usd-per-hour", "20", "--maximize", "traffic"): "most traffic",
        (*SWEEP, "s.csv", "--jobs", "1"): "2 optimal",
        ("calibrate", "--list"): "",
        ("report", "plan.json", "--out", "report.html"): "report.html",
        ("export", "plan.json", "--to", "vllm"): "vllm serve",
        ("export", "plan.json", "--to", "kubernetes"): "kind: Deployment",
    }  # fmt: skip

    plan = installed.run("shardwise", "solve", "chat.yaml", "--json").stdout
    (installed.folder / "plan.json").write_text(plan, encoding="utf-8")
    found = installed.shardwise(*map(list, expected))

    for (words, held), (code, out, err) in zip(expected.items(), found, strict=True):
        assert (code, err) == (0, ""), (words, err, out)
        assert held in out, words


def test_what_needs_an_extra_says_how_to_install_it(installed: Installed) -> None:
    expected = {
        ("pareto", "chat.yaml", "--plot", "front.png"): "plot",
        (*SWEEP, "s.csv", "--jobs", "1", "--plot", "s.png"): "plot",
        ("prices", "history", "--gpu", "H100-SXM-80GB", "--provider", "lambda", "--plot", "h.png"): "plot",
        (*SWEEP, "s.parquet", "--jobs", "1"): "parquet",
        ("prices", "export", "p.parquet"): "parquet",
        (*SWEEP, "s.csv", "--cluster", "tcp://127.0.0.1:1"): "dask",
        ("whatif", "api", "chat.yaml", "--against", "openai/gpt-4o"): "api-prices",
        ("solve", "chat.yaml", "--performance", "aiconfigurator"): "aiconfigurator",
        ("watch", ".", "--cron", "0 0 * * *"): "watch",
        ("serve", "--port", "0"): "web",
        ("mcp",): "mcp",
        ("fit", "some-org/not-bundled", "--gpu", "L4-24GB"): "hub",
    }

    found = installed.shardwise(*map(list, expected))

    for (words, extra), (code, out, err) in zip(expected.items(), found, strict=True):
        assert code == 2, (words, out, err)
        assert re.search(rf"""pip install ['"]shardwise\[{extra}\]['"]""", err), (words, err)
        assert "Traceback" not in err
    # One process does what several would, only later.
    ((code, _, err),) = installed.shardwise([*SWEEP, "several.csv", "--jobs", "2"])
    assert code == 0
    assert 'pip install "shardwise[sweep]"' in err
    ((code, _, err),) = installed.shardwise(["prices", "sources"], SHARDWISE_DATABASE_URL="postgresql://localhost/none")
    assert code == 2
    assert 'pip install "shardwise[postgres]"' in err


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_bash_completes_the_installed_command_with_the_script_that_it_prints(installed: Installed) -> None:
    (installed.environment / "bin" / "bash").symlink_to(str(shutil.which("bash")))
    tab = """
        eval "$(_SHARDWISE_COMPLETE=source_bash shardwise)"
        COMP_WORDS=(shardwise solve --gpu H200) COMP_CWORD=3
        _shardwise_completion shardwise
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    path = f"{installed.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"

    assert installed.run("bash", "-c", tab, PATH=path).stdout.split() == ["H200-SXM-141GB", "H200-NVL-141GB"]
