"""The schedule, the health file, the metrics, and what is sent out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import QuestionError
from optimizer.notify import announcer, hidden
from optimizer.reoptimize.answer import Reoptimization, SourceOutcome
from optimizer.watch.cron import trigger
from optimizer.watch.health import Health
from optimizer.watch.metrics import Metrics, serve
from optimizer.watch.watcher import Watcher
from tests.optimizer.command import run
from tests.optimizer.reoptimize.saved import at, look, save


class TestCron:
    @pytest.mark.parametrize(
        ("line", "after", "due"),
        [
            ("0 */6 * * *", "2026-08-20T05:59", "2026-08-20T06:00"),
            ("30 7 * * 1", "2026-08-20T00:00", "2026-08-24T07:30"),  # a Monday
            ("30 7 * * 0", "2026-08-20T00:00", "2026-08-23T07:30"),  # a Sunday
            ("30 7 * * 7", "2026-08-20T00:00", "2026-08-23T07:30"),
            ("0 9 * * 1-5", "2026-08-21T10:00", "2026-08-24T09:00"),
            ("0 9 * * 5-7", "2026-08-20T10:00", "2026-08-21T09:00"),
            ("0 9 1 * mon", "2026-08-25T00:00", "2026-08-31T09:00"),  # the first of the month, or a Monday
            ("@daily", "2026-08-20T10:00", "2026-08-21T00:00"),
        ],
    )
    def test_a_line_means_what_cron_says(self, line: str, after: str, due: str) -> None:
        moment = datetime.fromisoformat(after).replace(tzinfo=UTC)

        found = trigger(line, UTC).get_next_fire_time(None, moment)
        assert found.strftime("%Y-%m-%dT%H:%M") == due

    @pytest.mark.parametrize("line", ["", "every day", "61 * * * *", "* * * * 8", "* * * * 5-2", "* * * * mo", "@now"])
    def test_what_is_no_line_is_refused(self, line: str) -> None:
        with pytest.raises(QuestionError, match="five fields"):
            trigger(line)


def watcher(folder: Path, **more: Any) -> Watcher:
    return Watcher(lambda stop: look(folder, at(l4=2.0), stop=stop), health_file=folder / "health.json", **more)


def health(folder: Path) -> Health:
    return Health.model_validate_json((folder / "health.json").read_text())


class TestLooks:
    def test_a_look_is_accounted_for_in_the_health_file(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at())
        watcher(tmp_path).run()

        found = health(tmp_path)
        assert (found.runs, found.failed_runs, found.last_error) == (1, 0, None)
        assert found.verdicts == {str(plan): "switch"}
        assert found.last_run is not None

    def test_a_look_that_fails_is_told_and_ends_nothing(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        one = watcher(tmp_path)
        assert one.run() is None  # there are no plans yet
        save(tmp_path, at())
        assert one.run() is not None

        found = health(tmp_path)
        assert (found.runs, found.failed_runs) == (2, 1)
        assert "holds no plans" in (found.last_error or "")
        assert "warning" in capsys.readouterr().err

    def test_a_failing_source_and_plan_are_counted_and_named(self, tmp_path: Path) -> None:
        save(tmp_path, at())
        (tmp_path / "bad.json").write_text("{")
        sources = (SourceOutcome(name="aws", status="failed", message="no answer"),)
        one = Watcher(lambda _: look(tmp_path, at(), sources=sources), health_file=tmp_path / "health.json")
        one.run()

        said = health(tmp_path).last_error or ""
        assert "bad.json" in said
        assert "aws: no answer" in said
        assert health(tmp_path).sources == {"aws": "failed"}
        text = scraped(one.metrics)
        assert 'shardwise_failures_total{what="plan"} 1.0' in text
        assert 'shardwise_failures_total{what="source"} 1.0' in text

    def test_a_stop_is_heeded_between_plans(self, tmp_path: Path) -> None:
        save(tmp_path, at())
        one = watcher(tmp_path)
        one.stopped.set()

        found = one.run()
        assert found is not None
        assert found.plans == ()

    def test_looks_missed_while_nothing_ran_are_caught_up_on_once(self, tmp_path: Path) -> None:
        save(tmp_path, at())
        old = Health(shardwise_version="0", pid=None, started=datetime(2026, 8, 1, tzinfo=UTC))
        old = old.model_copy(update={"last_run": datetime.now(UTC) - timedelta(days=30)})
        (tmp_path / "health.json").write_text(old.model_dump_json())
        one = watcher(tmp_path)
        looked = threading.Event()
        one.show = lambda _: looked.set()
        stopper = threading.Thread(target=lambda: (looked.wait(20), time.sleep(0.3), one.stopped.set()))
        stopper.start()
        one.until_stopped(trigger("0 0 * * *", UTC))
        stopper.join()

        assert health(tmp_path).runs == 1
        assert health(tmp_path).next_run is None


def scraped(metrics: Metrics) -> str:
    port = _free_port()
    end = serve(metrics, "127.0.0.1", port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    finally:
        end()


def _free_port() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        return int(server.server_address[1])


def test_metrics_tell_verdicts_ages_and_the_last_look(tmp_path: Path) -> None:
    save(tmp_path, at())
    pulled = datetime.now(UTC) - timedelta(hours=2)
    one = watcher(tmp_path, ages=lambda: {"vast": pulled})
    one.run()

    text = scraped(one.metrics)
    assert 'shardwise_plans{verdict="switch"} 1.0' in text
    assert "shardwise_runs_total 1.0" in text
    age = next(line for line in text.splitlines() if line.startswith('shardwise_source_age_seconds{source="vast"}'))
    assert 7200 <= float(age.split()[1]) < 7300
    assert "shardwise_last_run_timestamp_seconds 1." in text


def test_sigterm_ends_a_watch_with_0_and_says_so_in_the_health_file(tmp_path: Path) -> None:
    save(tmp_path, at())
    command = ["watch", str(tmp_path), "--no-refresh", "--health-file", str(tmp_path / "health.json")]
    process = subprocess.Popen(
        [sys.executable, "-m", "optimizer.cli", *command], stderr=subprocess.PIPE, env=dict(os.environ), text=True
    )
    assert process.stderr is not None
    assert "the next look is at" in process.stderr.readline()
    assert health(tmp_path).pid == process.pid
    process.send_signal(signal.SIGTERM)
    process.stderr.close()

    assert process.wait(20) == 0
    assert health(tmp_path).pid is None


class _Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(json.loads(body))  # type: ignore[attr-defined]
        self.send_response(self.server.code)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hook) as server:
        server.got, server.code = [], 200  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class TestNotifications:
    def test_a_verdict_is_sent_when_it_changes_and_only_then(self, tmp_path: Path, hook: Any) -> None:
        plan, announce = save(tmp_path, at()), announcer([f"json://127.0.0.1:{hook.server_address[1]}/secret-hook"])

        def looks(price: float) -> Reoptimization:
            return look(plan, at(l4=price), announce=announce)

        looks(1.0)
        assert hook.got == []  # a first "keep" is no news
        looks(2.0)
        looks(2.1)
        looks(1.0)
        looks(1.0)
        assert [one["title"] for one in hook.got] == [
            "shardwise: a switch is worth it for plan.json",
            "shardwise: keep plan.json",
        ]
        assert "saves $438.00 a month" in hook.got[0]["message"]

    def test_a_failed_one_is_a_warning_without_the_url_and_is_sent_again(self, tmp_path: Path, hook: Any) -> None:
        plan, announce = save(tmp_path, at()), announcer([f"json://127.0.0.1:{hook.server_address[1]}/secret-hook"])
        hook.code = 500

        found = look(plan, at(l4=2.0), announce=announce)
        assert found.plans[0].verdict == "switch"
        assert found.warnings == (f"json://...: could not be notified of {plan}",)
        hook.code = 200
        assert look(plan, at(l4=2.0), announce=announce).warnings == ()
        assert len(hook.got) == 2

    def test_a_url_that_is_none_is_refused_without_its_secrets(self) -> None:
        with pytest.raises(QuestionError) as refused:
            announcer(["nosuch://user:hunter2@host/token"])

        assert "hunter2" not in str(refused.value)
        assert "nosuch://..." in str(refused.value)
        assert hidden("token-without-kind") == "..."

    def test_urls_come_from_the_environment_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert announcer(None) is None
        monkeypatch.setenv("SHARDWISE_NOTIFY_URLS", "json://127.0.0.1:1/a\njson://127.0.0.1:1/b")
        assert announcer([]) is not None


class TestCommands:
    def test_reoptimize_prints_a_table_json_and_markdown(self, tmp_path: Path) -> None:
        solved = run("solve", "Qwen/Qwen2.5-0.5B-Instruct", "--input-tokens", "1000", "--output-tokens", "100",
                     "--request-rate", "1", "--provider", "spheron", "--as-of", "2026-08-14", "--json")  # fmt: skip
        plan, report = tmp_path / "plan.json", tmp_path / "report.md"
        plan.write_text(solved.out)

        table = run("reoptimize", str(plan), "--as-of", "2026-08-14", "--out", str(report))
        assert table.code == 0, table.err
        assert "1 plan at the prices of 2026-08-14: 1 keep" in " ".join(table.out.split())
        assert max(map(len, table.out.splitlines())) <= 80
        assert report.read_text().startswith("# 1 plan at the prices of 2026-08-14")
        found = run("reoptimize", str(plan), "--as-of", "2026-08-14", "--json").json
        assert (found["kind"], found["plans"][0]["resolved"]) == ("reoptimization", False)
        once = run("watch", str(plan), "--once", "--no-refresh", "--health-file", str(tmp_path / "health.json"))
        assert once.code == 0
        assert health(tmp_path).runs == 1

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (("--min-saving", "5 dollars"), "--min-saving: expected a percentage"),
            (("--horizon", "30"), "--horizon: expected a duration"),
            (("--switch-cost-usd", "-1"), "--switch-cost-usd: expected dollars"),
            (("--out", "report.txt"), "ends in .md or .json"),
            (("--refresh", "--as-of", "2026-08-14"), "give one of them"),
        ],
    )
    def test_bad_flags_are_named(self, tmp_path: Path, flags: tuple[str, ...], said: str) -> None:
        ran = run("reoptimize", str(tmp_path), *flags)

        assert ran.code == 2
        assert said in ran.err

    def test_a_bad_cron_line_and_port_are_named(self, tmp_path: Path) -> None:
        assert "--cron 'soon'" in run("watch", str(tmp_path), "--cron", "soon").err
        assert "--metrics-port: expected" in run("watch", str(tmp_path), "--metrics-port", "0").err

    def test_solve_refuses_to_answer_from_prices_older_than_asked(self) -> None:
        flags = ("solve", "Qwen/Qwen2.5-0.5B-Instruct", "--input-tokens", "9", "--output-tokens", "9",
                 "--request-rate", "1", "--as-of", "2026-07-20")  # fmt: skip

        refused = run(*flags, "--max-price-age", "24h")
        assert refused.code == 2
        assert "--max-price-age 1d: every price that this question allows is older" in refused.err
        assert run(*flags, "--max-price-age", "5000d").code == 0
        assert "expected a duration" in run(*flags, "--max-price-age", "24").err
