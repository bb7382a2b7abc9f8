"""The routes of the JSON service: one a kind of question, and its jobs."""
# Annotations are evaluated here: each route's question is a type that its kind holds.

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Union

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from optimizer.plan import AnswerPart
from optimizer.questions.kinds import KINDS, Kind
from optimizer.questions.no_answer import NoAnswer
from optimizer.questions.refusal import Refusal
from optimizer.questions.requests import Question
from optimizer.questions.workers import Workers
from optimizer.web.jobs import Jobs, JobState
from optimizer.web.problems import of_error, problem_of, response

Problems = dict[int | str, dict[str, Any]]
API = "/api/v1"
JOB = f"{API}/jobs/{{id}}"
JOB_ID = r"^[A-Za-z0-9_-]{1,64}$"
PROBLEMS: Problems = {
    400: {"description": "The body is not JSON."},
    401: {"description": "The service's token is missing or wrong."},
    413: {"description": "The body is too large."},
    415: {"description": "The body is of another type than JSON."},
    422: {"description": "The question is wrong: each field, with what is accepted."},
    429: {"description": "Too many questions wait; Retry-After says when to ask again."},
    500: {"description": "Something broke."},
    503: {"description": "The service is ending."},
    504: {"description": "There was no answer within the time limit; the work was ended."},
}
OF_READING: Problems = {status: PROBLEMS[status] for status in (401, 422, 429, 500, 503, 504)}
OF_JOBS: Problems = {status: PROBLEMS[status] for status in (401, 422, 500)}


class JobList(BaseModel):
    """The jobs that are kept, the newest first, without their results."""

    jobs: tuple[JobState, ...]


def question_routes(workers: Workers, jobs: Jobs) -> APIRouter:
    """Return the routes of all kinds of question."""
    router = APIRouter()
    for kind in KINDS.values():
        about: dict[str, Any] = {
            "summary": kind.summary.rstrip("."),
            "description": kind.details,
            "tags": [kind.name.partition("/")[0]],
        }
        router.add_api_route(
            f"{API}/{kind.name}",
            _reading(kind, workers) if kind.reads else _asking(kind, workers),
            methods=["GET" if kind.reads else "POST"],
            operation_id=kind.name.replace("/", "_"),
            response_model=Union[kind.results],  # noqa: UP007  of a tuple
            responses=OF_READING if kind.reads else PROBLEMS,
            **about,
        )
        if not kind.reads:
            router.add_api_route(
                f"{API}/jobs/{kind.name}",
                _job(kind, jobs),
                methods=["POST"],
                operation_id=f"job_{kind.name.replace('/', '_')}",
                status_code=202,
                response_model=JobState,
                responses={**PROBLEMS, 202: _accepted()},
                **{**about, "summary": f"As a job: {about['summary']}", "tags": ["jobs"]},
            )
    return router


def _accepted() -> dict[str, Any]:
    where = {"description": "Where the job is looked at.", "schema": {"type": "string"}}
    link = {"operationId": "look_at_job", "parameters": {"id": "$response.body#/id"}}
    return {"description": "The job was taken.", "headers": {"Location": where}, "links": {"job": link}}


def _marked(route: Callable[..., Awaitable[Response]], kind: Kind) -> Callable[..., Awaitable[Response]]:
    route.asks = kind.question  # type: ignore[attr-defined]  # problems are worded by it
    return route


def _asking(kind: Kind, workers: Workers) -> Callable[..., Awaitable[Response]]:
    async def ask(request: Request, question: kind.question) -> Response:  # type: ignore[name-defined]
        return await _answered(request, workers, question)

    return _marked(ask, kind)


def _reading(kind: Kind, workers: Workers) -> Callable[..., Awaitable[Response]]:
    async def read(
        request: Request,
        question: Annotated[kind.question, Query()],  # type: ignore[name-defined]
    ) -> Response:
        return await _answered(request, workers, question)

    return _marked(read, kind)


def _job(kind: Kind, jobs: Jobs) -> Callable[..., Awaitable[Response]]:
    async def ask_as_job(question: kind.question) -> Response:  # type: ignore[name-defined]
        try:
            state = jobs.ask(question)
        except NoAnswer as error:
            return of_error(error)
        return _json(state, 202, {"Location": JOB.format(id=state.id)})

    return _marked(ask_as_job, kind)


async def _answered(request: Request, workers: Workers, question: Question) -> Response:
    """Answer a question, unless who asked hangs up: then the work ends too."""
    asked = asyncio.ensure_future(workers.run(question))
    gone = asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait([asked, gone], return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            return Response(status_code=499)  # nobody reads it
        return _json(asked.result(), 200)
    except (Refusal, NoAnswer) as error:
        return of_error(error)
    finally:
        for task in (asked, gone):
            task.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(found: AnswerPart | BaseModel, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(found.model_dump_json(), status, headers, media_type="application/json")


def job_routes(jobs: Jobs) -> APIRouter:
    """Return the routes by which jobs are looked at and ended."""
    router = APIRouter(tags=["jobs"])
    name = Annotated[str, Field(pattern=JOB_ID)]
    missing: Problems = {404: {"description": "There is no such job, or it is no longer kept."}, **OF_JOBS}

    @router.get(f"{API}/jobs", operation_id="list_jobs", response_model=JobList, responses=OF_JOBS)
    async def list_jobs() -> Response:
        """List the jobs that are kept."""
        return _json(JobList(jobs=jobs.list()), 200)

    @router.get(JOB, operation_id="look_at_job", response_model=JobState, responses=missing)
    async def look_at_job(id: name) -> Response:  # noqa: A002
        """Say how a job stands; with its result, once it is done."""
        return _of_job(jobs.look(id), id)

    @router.delete(JOB, operation_id="cancel_job", response_model=JobState, responses=missing)
    async def cancel_job(id: name) -> Response:  # noqa: A002
        """End a job, and the work on it."""
        return _of_job(await jobs.cancel(id), id)

    return router


def _of_job(state: JobState | None, name: str) -> Response:
    if name in KINDS:  # where jobs of that kind are asked for
        raise HTTPException(405, "expected POST", {"Allow": "POST"})
    if state is None:
        return response(problem_of(404, f"there is no job {name}, or it is no longer kept"))
    return _json(state, 200)
