"""The application that `shardwise serve` runs: routes, limits, workers, and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from catalogs.errors import CatalogError
from optimizer.questions.facts import newest_price
from optimizer.questions.workers import Workers
from optimizer.version import __version__
from optimizer.web.guard import Guard
from optimizer.web.jobs import Jobs
from optimizer.web.metrics import Metrics
from optimizer.web.missing import add_missing
from optimizer.web.openapi import describe
from optimizer.web.problems import add_handlers
from optimizer.web.reference import reference
from optimizer.web.routes import job_routes, question_routes
from optimizer.web.settings import ServeSettings


class Health(BaseModel):
    """How the service is.

    Attributes:
        status: "ready", or "starting" (with status code 503) until a worker process has loaded what it needs.
        prices_seen_on: the day of the newest price; null where none can be read.
        price_age_days: from that day to today.
    """

    status: Literal["ready", "starting"]
    version: str
    prices_seen_on: date | None
    price_age_days: int | None


def create_app(settings: ServeSettings | None = None, *, page: bool = True) -> FastAPI:
    """Return the application; it starts its workers when it is served, and ends them with it.

    Args:
        settings: how it serves.
        page: with the page under "/", beside the routes for programs.

    `app.state.workers`, `app.state.jobs` and `app.state.settings` are what the page works with.
    """
    settings = settings or ServeSettings()
    metrics = Metrics()
    workers = Workers(settings.of_workers, metrics.answered)
    jobs = Jobs(workers, settings)
    app = FastAPI(
        title="Shardwise",
        version=__version__,
        description=__doc__,
        docs_url=None,  # these pages would load their scripts from other machines
        redoc_url=None,
        lifespan=_lifespan(workers, jobs, settings),
    )
    app.state.workers, app.state.jobs, app.state.settings = workers, jobs, settings
    app.include_router(question_routes(workers, jobs))
    app.include_router(job_routes(jobs))
    _add_own_routes(app, workers, jobs, metrics)
    add_handlers(app)
    describe(app, settings)
    add_missing(app)
    if page:
        from optimizer.web.page import mount  # noqa: PLC0415  its toolkit takes a while to import

        mount(app, workers, settings)
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    return app


def _lifespan(workers: Workers, jobs: Jobs, settings: ServeSettings) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        workers.start()
        try:
            yield
        finally:
            await jobs.stop()
            await workers.stop(settings.stop_s)

    return lifespan


def _add_own_routes(app: FastAPI, workers: Workers, jobs: Jobs, metrics: Metrics) -> None:
    @app.get("/healthz", operation_id="health", tags=["service"], responses={503: {"model": Health}})
    async def healthz(response: Response) -> Health:
        """Say whether the service is ready, its version, and how old its prices are. Needs no token."""
        seen, today = await _newest_price(), date.today()
        if not workers.ready:
            response.status_code = 503
        return Health(
            status="ready" if workers.ready else "starting",
            version=__version__,
            prices_seen_on=seen,
            price_age_days=None if seen is None else max((today - seen).days, 0),
        )

    @app.get("/metrics", operation_id="metrics", tags=["service"], response_class=PlainTextResponse)
    async def metrics_text() -> Response:
        """Metrics for Prometheus."""
        seen = await _newest_price()
        if seen is not None:
            metrics.price_age.set(max((date.today() - seen).days, 0))
        metrics.jobs.set(len(jobs))
        return Response(metrics.text(workers), media_type=CONTENT_TYPE_LATEST)

    @app.get("/docs", include_in_schema=False)
    async def docs(_: Request) -> Response:
        return HTMLResponse(reference(app.openapi()))


async def _newest_price() -> date | None:
    try:
        return await asyncio.to_thread(newest_price, date.today())
    except CatalogError:
        return None
