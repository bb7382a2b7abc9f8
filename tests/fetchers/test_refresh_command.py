"""`shardwise prices refresh` as a user runs it, against recorded answers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from catalogs.history import open_history
from tests.fetchers.recorded import RECORDED, SECRETS, SETTINGS, serve_recorded
from tests.fetchers.server import Answer, Server, serve
from tests.optimizer.command import run

OPEN = ("linode", "cloudrift", "vast")  # need no credentials


@pytest.fixture
def servers() -> Iterator[dict[str, Server]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(serve()) for name in (*OPEN, "lambda")}


@pytest.fixture
def environment(servers: dict[str, Server], tmp_path: Path) -> dict[str, str]:
    for name, server in servers.items():
        serve_recorded(server, name)
    urls = {f"SHARDWISE_SOURCE_URL_{name.upper()}": server.url for name, server in servers.items()}
    return {**urls, "SHARDWISE_DATA_DIR": str(tmp_path / "data")} | dict.fromkeys([*SECRETS, *SETTINGS], "")


def refresh(*more: str, names: tuple[str, ...] = OPEN) -> list[str]:
    return ["prices", "refresh", *(part for name in names for part in ("--source", name)), *more]


def break_(server: Server, name: str) -> None:
    for _, path, _ in RECORDED[name]:
        server.on(path, Answer(b"{}", 404))


def test_all_fine_is_0_and_every_command_sees_the_new_prices(environment: dict[str, str]) -> None:
    ran = run(*refresh(), **environment)
    assert ran.code == 0, ran.err
    assert "3 rows. 3 fresh." in ran.out
    assert ran.err == ""
    listed = run("prices", "list", "--json", "--provider", "vast", "--gpu", "H100-SXM*", **environment)
    assert {row["source"] for row in listed.json if row["seen_on"] > "2026-08-22"} == {"vast"}
    assert run("prices", "quarantine", "--json", **environment).json
    assert {row["source"] for row in run("prices", "sources", "--json", **environment).json} == set(OPEN)


def test_some_failed_is_4_and_all_failed_is_5(environment: dict[str, str], servers: dict[str, Server]) -> None:
    break_(servers["linode"], "linode")
    ran = run(*refresh("--json"), **environment)
    assert ran.code == 4
    assert {row["source"]: row["status"] for row in ran.json} == {
        "linode": "failed",
        "cloudrift": "fresh",
        "vast": "fresh",
    }
    assert "HTTP 404" in ran.json[0]["reason"]
    for name in OPEN:
        break_(servers[name], name)
    ran = run(*refresh(), **environment)
    assert ran.code == 5
    assert "3 failed." in ran.out


def test_a_dry_run_writes_nothing(environment: dict[str, str]) -> None:
    ran = run(*refresh("--dry-run"), **environment)
    assert (ran.code, "Nothing was written (--dry-run)." in ran.out) == (0, True)
    assert not Path(environment["SHARDWISE_DATA_DIR"]).exists()


def test_a_source_without_its_credentials_is_left_out(environment: dict[str, str]) -> None:
    ran = run(*refresh(names=("linode", "lambda")), **environment)
    assert ran.code == 0
    assert "Skipped: lambda (needs LAMBDA_API_KEY)." in ran.out
    ran = run(*refresh(names=("linode", "lambda")), **environment | {"LAMBDA_API_KEY": "a-key-of-somebody"})
    assert (ran.code, "2 fresh" in ran.out) == (0, True)
    with open_history(f"sqlite:///{environment['SHARDWISE_DATA_DIR']}/prices.sqlite") as history:
        assert {state.name for state in history.sources()} == {"linode", "lambda"}


def test_nothing_that_can_be_asked_is_bad_input(environment: dict[str, str]) -> None:
    ran = run(*refresh(names=("lambda",)), **environment)
    assert (ran.code, "lambda needs LAMBDA_API_KEY" in ran.err) == (2, True)


def test_an_unknown_source_is_answered_with_near_ones(environment: dict[str, str]) -> None:
    ran = run(*refresh(names=("linnode",)), **environment)
    assert (ran.code, "linode" in ran.err) == (2, True)


def test_a_terminal_shows_which_sources_are_asked(environment: dict[str, str]) -> None:
    from optimizer.commands.refresh import _Progress  # noqa: PLC0415

    written: list[str] = []
    with mock.patch("sys.stderr") as terminal:
        terminal.isatty.return_value = True
        terminal.write.side_effect = written.append
        progress = _Progress(2)
        progress.started("linode")
        assert list(progress.watched(iter([]))) == []
    assert "0/2 sources done; asking linode" in written[0]
    assert written[-1] == "\r\x1b[K"


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits(environment: dict[str, str], columns: int) -> None:
    ran = run(*refresh(), columns=columns, **environment)
    assert max(map(len, ran.out.splitlines())) <= columns
