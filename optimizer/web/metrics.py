"""Metrics of the service for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

if TYPE_CHECKING:
    from optimizer.questions.workers import Workers

SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """What Prometheus reads.

    shardwise_requests_total{method,route,status}    requests; routes of the page are one, "page"
    shardwise_request_seconds{route}                 from a request to the end of its answer
    shardwise_questions_total{kind,outcome}          answered, kept (from an earlier one), refused, cancelled, failed
    shardwise_question_seconds{kind}                 in a worker process
    shardwise_questions_waiting, _running            now
    shardwise_jobs                                   now, running or kept
    shardwise_price_age_days                         of the newest price
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "shardwise_requests", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self._request_s = Histogram(
            "shardwise_request_seconds", "Of a request.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._questions = Counter(
            "shardwise_questions", "Questions by what became of them.", ["kind", "outcome"], registry=self.registry
        )
        self._question_s = Histogram(
            "shardwise_question_seconds",
            "Of a question in a process.",
            ["kind"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._waiting = Gauge(
            "shardwise_questions_waiting", "Questions that wait for a process.", registry=self.registry
        )
        self._running = Gauge("shardwise_questions_running", "Questions that a process is at.", registry=self.registry)
        self.jobs = Gauge("shardwise_jobs", "Jobs, running or kept.", registry=self.registry)
        self.price_age = Gauge("shardwise_price_age_days", "Age of the newest price.", registry=self.registry)

    def requested(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request by its route, never by what was asked: names in addresses would fill the memory."""
        found = scope.get("route")
        route = str(getattr(found, "path", "")) or ("none" if status in (401, 403, 404, 405, 421) else "page")
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "DELETE", "OPTIONS") else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._request_s.labels(route).observe(seconds)

    def answered(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a question."""
        self._questions.labels(kind, outcome).inc()
        if outcome != "kept":
            self._question_s.labels(kind).observe(seconds)

    def text(self, workers: Workers) -> bytes:
        """Return the metrics as Prometheus reads them."""
        self._waiting.set(workers.waiting)
        self._running.set(workers.running)
        return generate_latest(self.registry)
