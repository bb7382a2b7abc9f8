"""Metrics of `shardwise watch` for Prometheus, served on one address of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from optimizer.errors import QuestionError
from optimizer.reoptimize.answer import VERDICTS
from optimizer.watch.health import Health

LastLooks = Callable[[], Mapping[str, datetime]]
FAILURES = ("run", "plan", "source", "notification")


class Metrics:
    """What Prometheus reads: ages are worked out when it asks.

    shardwise_source_age_seconds{source}    since the source's prices were last pulled
    shardwise_last_run_timestamp_seconds    when the last look began; _last_success_ likewise
    shardwise_last_run_duration_seconds
    shardwise_runs_total                    looks; shardwise_failures_total{what}: of what, see FAILURES
    shardwise_plans{verdict}                plans by the verdict of the last look
    """

    def __init__(self) -> None:
        self._health: Health | None = None
        self._failures = dict.fromkeys(FAILURES, 0)
        self._looks: Mapping[str, datetime] = {}

    def failed(self, what: str, count: int = 1) -> None:
        """Count failures."""
        self._failures[what] += count

    def update(self, health: Health, looks: Mapping[str, datetime]) -> None:
        """Take over what a look found."""
        self._health, self._looks = health, looks

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, as prometheus_client asks for them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415  an extra

        ages = GaugeMetricFamily(
            "shardwise_source_age_seconds", "Since its prices were last pulled.", labels=["source"]
        )
        for source, pulled in sorted(self._looks.items()):
            ages.add_metric([source], max(time.time() - pulled.timestamp(), 0.0))
        yield ages
        failures = CounterMetricFamily("shardwise_failures", "What went wrong.", labels=["what"])
        for what, count in self._failures.items():
            failures.add_metric([what], count)
        yield failures
        health = self._health
        if health is None:
            return
        yield CounterMetricFamily("shardwise_runs", "Looks at the plans.", value=health.runs)
        plans = GaugeMetricFamily("shardwise_plans", "Plans by verdict.", labels=["verdict"])
        for verdict in VERDICTS:
            plans.add_metric([verdict], sum(one == verdict for one in health.verdicts.values()))
        yield plans
        for name, words, moment in (
            ("last_run", "When the last look began.", health.last_run),
            ("last_success", "When the last look that no error ended began.", health.last_success),
        ):
            if moment is not None:
                yield GaugeMetricFamily(f"shardwise_{name}_timestamp_seconds", words, value=moment.timestamp())
        if health.last_run_seconds is not None:
            words = "How long the last look took."
            yield GaugeMetricFamily("shardwise_last_run_duration_seconds", words, value=health.last_run_seconds)


def serve(metrics: Metrics, host: str, port: int) -> Callable[[], None]:
    """Serve metrics at http://HOST:PORT/metrics; return what ends it.

    Raises:
        QuestionError: the port cannot be had.
    """
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415  an extra

    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise QuestionError(f"--metrics-port {port}: cannot be had on {host}: {error.strerror or error}") from None

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join(5)

    return end
