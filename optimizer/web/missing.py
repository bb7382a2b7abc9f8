"""Addresses and methods that the service does not have: said as problems, before the page under "/" takes them."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
PLACES = ("/api", "/api/{rest:path}", "/healthz", "/metrics", "/docs", "/openapi.json")


def add_missing(app: FastAPI) -> None:
    """Answer what no route of the service has answered; to be added after all of them."""

    async def missing(request: Request) -> Any:
        if allowed := methods_of(app.openapi(), request.url.path):
            raise HTTPException(405, f"expected {' or '.join(allowed)}", {"Allow": ", ".join(allowed)})
        raise HTTPException(404, "there is nothing here; /docs lists what there is")

    for place in PLACES:
        app.add_route(place, missing, methods=METHODS, include_in_schema=False)


def methods_of(schema: dict[str, Any], path: str) -> list[str]:
    """Return the methods that an address takes, by the service's own description."""
    if path in ("/docs", "/openapi.json"):
        return ["GET"]
    found = {
        method.upper()
        for template, operations in schema["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
        for method in operations
    }
    return sorted(found)
