"""What is imported when: `shardwise --help` and the small modules stay light."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "aiconfigurator_core",
    "alembic",
    "fastapi",
    "matplotlib",
    "mcp",
    "nicegui",
    "numpy",
    "ortools",
    "pandas",
    "pebble",
    "prometheus_client",
    "pydantic",
    "requests",
    "rich.table",
    "sqlalchemy",
    "uvicorn",
    "yaml",
)


def imported_by(statement: str) -> set[str]:
    """Which heavy packages a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["optimizer", "optimizer.cli"])
def test_neither_the_library_nor_the_command_line_imports_anything_heavy_before_it_is_asked_for(module: str) -> None:
    assert imported_by(f"import {module}") == set()


@pytest.mark.parametrize(
    "module", ["catalogs.errors", "catalogs.gpus", "catalogs.models", "optimizer.scenario", "optimizer.flags"]
)
def test_questions_and_facts_are_read_without_tables_or_a_solver(module: str) -> None:
    assert not imported_by(f"import {module}") & {"numpy", "ortools", "pandas", "requests", "rich.table", "sqlalchemy"}


def test_listing_gpus_needs_no_tables_and_no_solver() -> None:
    listing = "from optimizer.report.catalog import gpus; gpus(None)"

    assert not imported_by(listing) & {"numpy", "ortools", "pandas", "requests", "sqlalchemy"}


def test_our_own_speed_model_needs_no_other_backend() -> None:
    assert "aiconfigurator_core" not in imported_by("import optimizer.solve, optimizer.predict, optimizer.simulate")
