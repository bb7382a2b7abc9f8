"""A sweep on a real Dask scheduler with two worker processes gives the rows of a sweep on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.errors import QuestionError
from optimizer.whatif.engines import OneProcess, choose_engine
from optimizer.whatif.points import read_grid
from optimizer.whatif.sweep import sweep
from tests.optimizer.catalogs import TODAY
from tests.optimizer.whatif.test_sweep import RATES, scenario_file

distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own making


def test_two_workers_on_loopback_give_the_rows_of_one_process(tmp_path: Path) -> None:
    from optimizer.scenario import load_scenario  # noqa: PLC0415

    asked, grid = load_scenario(scenario_file(tmp_path)), read_grid([RATES, "targets.tpot_ms=0.1,20"])
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs="CRITICAL",
    )
    try:
        engine, said = choose_engine(None, cluster.scheduler_address)
        assert (engine.jobs, said) == (2, "")
        on_cluster = sweep(asked, grid, tmp_path / "cluster.csv", engine, today=TODAY)
    finally:
        cluster.close(timeout=10)
    here = sweep(asked, grid, tmp_path / "here.csv", OneProcess(), today=TODAY)
    assert on_cluster.rows == here.rows
    assert (tmp_path / "cluster.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(QuestionError, match="expected an address such as tcp://"):
        choose_engine(None, "localhost")
