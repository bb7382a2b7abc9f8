"""Looks at saved plans on a schedule until stopped: nothing that goes wrong in a look ends it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optimizer.errors import QuestionError
from optimizer.reoptimize.answer import Reoptimization
from optimizer.user_files import write_whole
from optimizer.version import __version__
from optimizer.watch.health import Health, last_run
from optimizer.watch.metrics import Metrics

INSTALL = 'watching needs APScheduler and prometheus-client: pip install "shardwise[watch]"'
GOOD = ("fresh", "unchanged", "skipped")  # what may become of a source without anything being wrong

Stop = Callable[[], bool]


@dataclass
class Watcher:
    """Looks, and keeps account of them.

    Attributes:
        look: pulls prices and looks at the plans once; told how to ask whether to stop.
        ages: when each source was last pulled.
        show: told what each look found.
        health_file: where the account is written; None for nowhere.
    """

    look: Callable[[Stop], Reoptimization]
    ages: Callable[[], Mapping[str, datetime]] = dict
    show: Callable[[Reoptimization], None] = lambda _: None
    health_file: Path | None = None
    metrics: Metrics = field(default_factory=Metrics)
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._writing = threading.Lock()
        self.health = Health(shardwise_version=__version__, pid=os.getpid(), started=datetime.now(UTC))

    def run(self) -> Reoptimization | None:
        """Look once; return what was found, or None where an error ended it."""
        began, clock = datetime.now(UTC), time.monotonic()
        found: Reoptimization | None = None
        changes: dict[str, Any] = {"last_run": began, "runs": self.health.runs + 1}
        try:
            found = self.look(self.stopped.is_set)
            changes |= self._account(found, began)
            self.show(found)
        except Exception as error:
            said = str(error) if isinstance(error, QuestionError) else f"{type(error).__name__}: {error}"
            changes |= {"last_error": said, "last_error_at": began, "failed_runs": self.health.failed_runs + 1}
            self.metrics.failed("run")
            _warn(said)
        self._write(changes | {"last_run_seconds": time.monotonic() - clock})
        return found

    def _account(self, found: Reoptimization, began: datetime) -> dict[str, Any]:
        failed = [one for one in found.plans if one.verdict == "failed"]
        bad = [one for one in found.sources if one.status not in GOOD]
        self.metrics.failed("plan", len(failed))
        self.metrics.failed("source", len(bad))
        self.metrics.failed("notification", sum("could not be notified" in one for one in found.warnings))
        before = self.health.verdicts if self.stopped.is_set() else {}  # plans after a stop were not looked at
        changes: dict[str, Any] = {
            "last_success": began,
            "verdicts": before | {one.file: one.verdict for one in found.plans},
            "sources": {one.name: one.status for one in found.sources},
        }
        said = [*(f"{one.file}: {one.why}" for one in failed), *(f"{one.name}: {one.message}" for one in bad)]
        if said:
            changes |= {"last_error": "\n".join(said), "last_error_at": began}
        return changes

    def _write(self, changes: dict[str, Any]) -> None:
        with self._writing:
            self._write_alone(changes)

    def _write_alone(self, changes: dict[str, Any]) -> None:
        self.health = self.health.model_copy(update=changes)
        try:
            self.metrics.update(self.health, self.ages())
        except Exception as error:  # of a history that is out of reach: ages are for people
            _warn(f"ages of sources are not known: {error}")
            self.metrics.update(self.health, {})
        if self.health_file is not None:
            try:
                write_whole(self.health_file, self.health.model_dump_json(indent=2) + "\n")
            except OSError as error:
                _warn(f"{self.health_file}: cannot be written: {error.strerror or error}")

    def until_stopped(self, when: Any) -> None:
        """Look on a schedule until SIGTERM or SIGINT; a look that was missed is caught up on, once.

        Looks run one at a time. One that falls due during another waits for it, further ones are dropped; one that fell
        due while no process ran (by the health file) is done at once.

        Args:
            when: a trigger of APScheduler.
        """
        from apscheduler.executors.pool import ThreadPoolExecutor  # noqa: PLC0415  an extra
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

        logging.getLogger("apscheduler").setLevel(logging.ERROR)  # a look that waits for another is no news
        scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1)}, timezone=UTC)
        defaults = {"coalesce": True, "max_instances": 2, "misfire_grace_time": None}
        missed = {"next_run_time": datetime.now(UTC)} if self._missed(when) else {}
        job: Any = scheduler.add_job(lambda: self._scheduled(job), when, **defaults, **missed)
        before = {one: signal.signal(one, self._on_signal) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            scheduler.start()
            self._write({"next_run": job.next_run_time})
            _say(f"watching; the next look is at {job.next_run_time:%Y-%m-%d %H:%M %Z}")
            while not self.stopped.wait(3600):
                pass
        finally:
            scheduler.shutdown(wait=True)
            for one, handler in before.items():
                signal.signal(one, handler)
            self._write({"next_run": None, "pid": None})

    def _scheduled(self, job: Any) -> None:
        if self.stopped.is_set():
            return
        self.run()
        if not self.stopped.is_set():
            self._write({"next_run": job.next_run_time})

    def _missed(self, when: Any) -> bool:
        last = last_run(self.health_file)
        if last is None:
            return False
        due = when.get_next_fire_time(last, last)
        return due is not None and due <= datetime.now(UTC)

    def _on_signal(self, *_: object) -> None:
        self.stopped.set()


def _say(text: str) -> None:
    sys.stderr.write(f"shardwise: {text}\n")
    sys.stderr.flush()


def _warn(text: str) -> None:
    _say(f"warning: {text}")
