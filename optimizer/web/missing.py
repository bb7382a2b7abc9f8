"""Addresses and methods that the service does not have: said as problems, before the page under "/" takes them."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

_PART = re.compile(r"\{\w+\}")
PLACES = ("/api", "/api/{rest:path}", "/healthz", "/metrics", "/docs", "/openapi.json")


class _Missing:
    """What answers them: an application of its own, as only those are asked with any method there is."""

    def __init__(self, app: FastAPI):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say which methods an address takes, or that there is no such address."""
        if allowed := methods_of(self.app.openapi(), scope["path"]):
            raise HTTPException(405, f"expected {' or '.join(allowed)}", {"Allow": ", ".join(allowed)})
        raise HTTPException(404, "there is nothing here; /docs lists what there is")


def add_missing(app: FastAPI) -> None:
    """Answer what no route of the service has answered; to be added after all of them."""
    app.router.routes += [Route(place, _Missing(app), include_in_schema=False) for place in PLACES]


def methods_of(schema: dict[str, Any], path: str) -> list[str]:
    """Return the methods that an address takes, by the service's own description."""
    if path in ("/docs", "/openapi.json"):
        return ["GET"]
    paths = schema["paths"]
    templates = [path] if path in paths else [one for one in paths if re.fullmatch(_PART.sub("[^/]+", one), path)]
    return sorted({method.upper() for template in templates for method in paths[template]})
