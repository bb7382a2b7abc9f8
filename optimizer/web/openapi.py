"""What /openapi.json says: FastAPI's own description, with problems as they are really sent."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from optimizer.web.problems import MEDIA_TYPE, Problem
from optimizer.web.settings import ServeSettings

DESCRIPTION = """The cheapest feasible GPU layout for a language model, proved, at dated prices.

Money is USD; `_ms` fields are milliseconds, `_gib` fields 2^30 bytes; a value that is not known is null, never zero.
That nothing is feasible is an answer (200, with `status` "infeasible", the rules in conflict and the least changes),
not an error. Errors are problem details (RFC 9457) that name each field. Nothing in a request is ever opened as a file
or an address: models are those of the catalog, or come with the request as `models`.
"""


def describe(app: FastAPI, settings: ServeSettings) -> None:
    """Have the application describe itself."""
    app.description = DESCRIPTION

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _schema(app, settings)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's manual has it


def _schema(app: FastAPI, settings: ServeSettings) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    parts = found.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        parts.pop(unused, None)
    own = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts |= own.pop("$defs", {})
    parts["Problem"] = own
    for operations in found["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if status.startswith(("4", "5")) and "Health" not in str(response):
                    response["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if settings.token is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
        found["paths"]["/healthz"]["get"]["security"] = []
    return found
