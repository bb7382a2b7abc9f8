"""`shardwise serve` as a command: where it listens, who may use it, how it ends."""

from __future__ import annotations

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from optimizer.errors import QuestionError
from optimizer.web.settings import ServeSettings, read_settings
from tests.optimizer.command import run, run_without
from tests.optimizer.web.service import LONG, MODEL, SMALL, changed, is_alive, serving, until

TOKEN = "a-token-of-the-tests-0123456789"


def test_a_port_that_is_taken_is_said_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        ran = run("serve", "--port", str(taken.getsockname()[1]))

    assert ran.code == 2
    assert "cannot be had" in ran.err
    assert "--port" in ran.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--port", "70000"), "--port: expected a whole number from 0 to 65,535"),
        (("--workers", "none"), "--workers"),
        (("--time-limit", "soon"), "--time-limit: expected seconds from 0.1"),
        (("--host", "0.0.0.0"), "without a token"),
        (("--host", "192.0.2.1", "--allow-anyone"), "cannot be had"),
        (("--host", "no.such.name.invalid", "--allow-anyone"), "no address"),
        (("--token-file", "/nowhere"), "cannot be read"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_flag(flags: tuple[str, ...], words: str) -> None:
    ran = run("serve", *flags)

    assert ran.code == 2
    assert words in ran.err


def test_variables_stand_in_for_flags_and_are_named_when_wrong() -> None:
    variables = {"SHARDWISE_SERVE_PORT": "9000", "SHARDWISE_SERVE_WORKERS": "3", "SHARDWISE_SERVE_TOKEN": TOKEN}

    assert read_settings({}, environment=variables).port == 9000
    assert read_settings({"port": "9001"}, environment=variables).port == 9001
    assert read_settings({"host": "0.0.0.0"}, environment=variables).of_workers.processes == 3
    assert read_settings({}, environment={"SHARDWISE_SERVE_ALLOW_HOST": "a.lan,b.lan"}).allow_hosts == (
        "a.lan",
        "b.lan",
    )
    for name in ("PORT", "TIME_LIMIT"):
        with pytest.raises(QuestionError, match=f"SHARDWISE_SERVE_{name}: expected"):
            read_settings({}, environment={f"SHARDWISE_SERVE_{name}": "x"})


@pytest.mark.parametrize("token", ["", "short", "has a blank in the middle", "ünïcödé-token-of-length", "x" * 2000])
def test_a_token_that_is_none_is_refused(token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token, encoding="utf-8")

    with pytest.raises(QuestionError, match="expected a token of 16"):
        read_settings({}, file, {})


def test_a_token_is_not_shown_when_settings_are() -> None:
    assert TOKEN not in repr(ServeSettings(token=TOKEN))


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "pebble", "prometheus_client"])
def test_a_package_that_is_missing_is_named_with_what_installs_it(missing: str) -> None:
    ran = run_without(missing, "serve")

    assert ran.code == 2
    assert 'pip install "shardwise[web]"' in ran.err


def test_with_a_token_all_but_its_health_is_for_those_who_bring_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    question = {"model": MODEL, "gpu": "L4-24GB"}

    with serving("--token-file", str(file), "--workers", "1", "--max-waiting", "0") as service:
        for path in ("/api/v1/catalog/gpus", "/openapi.json", "/metrics", "/docs", "/api/v1/jobs"):
            assert service.get(path).status_code == 401
            assert service.get(path, authorization=f"Bearer {TOKEN}x").status_code == 401
            assert service.get(path, authorization=f"Basic {TOKEN}").status_code == 401
        assert service.get("/healthz").status_code == 200
        assert service.post("fit", question).headers["www-authenticate"].startswith("Bearer")
        assert service.get("/openapi.json", authorization=f"bearer {TOKEN}").json()["security"] == [{"token": []}]

        # One question at a time, and none may wait.
        taken = service.post("jobs/solve", {"scenario": LONG}, authorization=f"Bearer {TOKEN}")
        busy = service.post("fit", question, authorization=f"Bearer {TOKEN}")
        assert (taken.status_code, busy.status_code) == (202, 429)
        assert int(busy.headers["retry-after"]) >= 1


def test_what_takes_too_long_is_a_problem_and_its_work_is_ended() -> None:
    with serving("--workers", "1", "--time-limit", "0.1") as service:
        found = service.post("whatif/breakeven", {"scenario": SMALL})

        assert found.status_code == 504
        assert "as a job" in found.json()["detail"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_finishes_what_it_is_at_and_leaves_nothing_behind(number: signal.Signals) -> None:
    with serving("--workers", "1") as service:
        children = service.children()
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(service.post, "solve", {"scenario": changed(SMALL, description=str(number))})
            time.sleep(0.1)
            service.process.send_signal(number)
            answered = asked.result()

        assert service.process.wait(20) == 0
        assert answered.status_code == 200
        assert service.log.read_text() == ""
        assert until(lambda: not any(map(is_alive, children)), 5)


def test_killed_it_leaves_no_process_behind() -> None:
    with serving("--workers", "2") as service:
        children = service.children()
        assert len(children) >= 2

        service.process.kill()

        assert until(lambda: not any(map(is_alive, children)), 10)
