"""Errors as RFC 9457 problem details: what is wrong, with which field, and what is accepted."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from optimizer.questions.no_answer import Busy, Fault, NoAnswer, Stopping, TookTooLong
from optimizer.questions.refusal import FieldProblem, Refusal, invalid_items
from optimizer.questions.requests import Question

MEDIA_TYPE = "application/problem+json"
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)


class FieldError(BaseModel):
    """One field of a request that is wrong; `field` is its dotted name, empty where no single one is to blame."""

    model_config = ConfigDict(frozen=True)

    field: str
    detail: str


class Problem(BaseModel):
    """Why there is no answer (RFC 9457)."""

    model_config = ConfigDict(frozen=True)

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: tuple[FieldError, ...] = ()


def problem_of(status: int, detail: str, errors: tuple[FieldProblem, ...] = ()) -> Problem:
    """Return a problem of this HTTP status."""
    fields = tuple(FieldError(field=one.field, detail=one.detail) for one in errors)
    return Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, errors=fields)


def refused(error: Refusal) -> Problem:
    """Return what is wrong with a question."""
    return problem_of(422, str(error), error.problems)


def unanswered(error: NoAnswer) -> Problem:
    """Return why a question that is well asked has no answer; what broke inside stays in the log."""
    if isinstance(error, Busy):
        return problem_of(429, str(error))
    if isinstance(error, TookTooLong):
        return problem_of(504, str(error))
    if isinstance(error, Stopping):
        return problem_of(503, str(error))
    return problem_of(500, "something broke; the service's log says what")


def response(found: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return a problem as a response."""
    body = found.model_dump(mode="json", exclude_defaults=False)
    return JSONResponse(body, status_code=found.status, headers=headers, media_type=MEDIA_TYPE)


def of_error(error: Refusal | NoAnswer) -> Response:
    """Return the response to a question that was not answered."""
    if isinstance(error, Refusal):
        return response(refused(error))
    headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, Busy) else None
    return response(unanswered(error), headers)


def add_handlers(app: FastAPI) -> None:
    """Answer whatever goes wrong in a route with a problem."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _fault)


async def _invalid(request: Request, error: Exception) -> Response:
    items: list[Any] = list(error.errors()) if isinstance(error, RequestValidationError) else []
    if request.method == "POST" and _JSON.fullmatch(request.headers.get("content-type", "")) is None:
        return response(problem_of(415, "expected JSON, with Content-Type: application/json"))
    if any(item["type"] == "json_invalid" for item in items):
        said = "; ".join(str(item.get("ctx", {}).get("error", item["msg"])) for item in items)
        return response(problem_of(400, f"the body is not JSON: {said}"))
    asked = getattr(getattr(request.scope.get("route"), "endpoint", None), "asks", Question)
    inside = [{**item, "loc": tuple(item["loc"])[1:]} for item in items]
    return response(refused(invalid_items(inside, asked)))


async def _http(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else None
    detail = str(error.detail) if isinstance(error, HTTPException) else ""
    return response(problem_of(status, detail), headers)


async def _fault(_: Request, __: Exception) -> Response:
    return response(unanswered(Fault()))
