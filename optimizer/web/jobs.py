"""Questions that are answered in the background: asked, looked at, cancelled, and their results kept for a while."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from optimizer.plan import AnswerPart
from optimizer.questions.kinds import kind_of
from optimizer.questions.no_answer import Busy, NoAnswer
from optimizer.questions.refusal import Refusal
from optimizer.questions.requests import Question
from optimizer.questions.workers import Progress, Workers
from optimizer.web.problems import Problem, refused, unanswered
from optimizer.web.settings import ServeSettings

RETRY_S = 5
State = Literal["queued", "running", "done", "failed", "cancelled"]


class JobState(BaseModel):
    """How a job stands.

    Attributes:
        id: names it in /api/v1/jobs/{id}.
        kind: of question.
        state: queued, running, done (with a result), failed (with a problem) or cancelled.
        asked_at: when it was asked.
        waited_s: seconds for a free process, so far or in all; running_s: in a process.
        result: the answer, of the same form as the kind's own route gives it.
        problem: why there is none.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    kind: str
    state: State
    asked_at: datetime
    waited_s: float
    running_s: float
    result: dict[str, Any] | None = None
    problem: Problem | None = None


@dataclass
class _Job:
    name: str
    kind: str
    asked_at: datetime
    asked: float
    task: asyncio.Task[None] | None = None
    progress: Progress = field(default_factory=Progress)
    ended: float | None = None
    result: AnswerPart | None = None
    problem: Problem | None = None

    @property
    def state(self) -> State:
        if self.ended is None:
            return "running" if self.progress.phase == "running" else "queued"
        if self.result is not None:
            return "done"
        return "failed" if self.problem is not None else "cancelled"


class Jobs:
    """The jobs of a service: a bounded number, the oldest results make room."""

    def __init__(self, workers: Workers, settings: ServeSettings):
        self._workers, self._settings = workers, settings
        self._jobs: OrderedDict[str, _Job] = OrderedDict()

    def __len__(self) -> int:
        return len(self._jobs)

    def ask(self, question: Question) -> JobState:
        """Begin to answer a question.

        Raises:
            Busy: as many jobs as are kept have not ended.
        """
        self._make_room()
        job = _Job(secrets.token_urlsafe(12), kind_of(question).name, datetime.now(UTC), time.monotonic())
        job.task = asyncio.create_task(self._answer(job, question))
        self._jobs[job.name] = job
        return self._said(job)

    async def _answer(self, job: _Job, question: Question) -> None:
        def watch(progress: Progress) -> None:
            job.progress = progress

        try:
            job.result = await self._workers.run(question, time_limit_s=self._settings.job_time_limit_s, watch=watch)
        except Refusal as error:
            job.problem = refused(error)
        except NoAnswer as error:
            job.problem = unanswered(error)
        finally:
            job.ended = time.monotonic()

    def look(self, name: str) -> JobState | None:
        """Return how a job stands; None where there is none of that name, or no more."""
        self._forget()
        job = self._jobs.get(name)
        return None if job is None else self._said(job)

    async def cancel(self, name: str) -> JobState | None:
        """End a job, and the process that is at it; one that has ended stays as it is."""
        job = self._jobs.get(name)
        if job is None:
            return None
        if job.task is not None and not job.task.done():
            job.task.cancel()
            await asyncio.wait([job.task])
            job.ended = job.ended or time.monotonic()  # one that had not begun was never told
        return self._said(job)

    def list(self) -> tuple[JobState, ...]:
        """Return all jobs, the newest first, without their results."""
        self._forget()
        return tuple(self._said(job).model_copy(update={"result": None}) for job in reversed(self._jobs.values()))

    async def stop(self) -> None:
        """End all jobs."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None and not job.task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _make_room(self) -> None:
        self._forget()
        while len(self._jobs) >= self._settings.max_jobs:
            oldest = next((job for job in self._jobs.values() if job.ended is not None), None)
            if oldest is None:
                raise Busy(len(self._jobs), RETRY_S)
            del self._jobs[oldest.name]

    def _forget(self) -> None:
        """Leave out results that are too old."""
        oldest = time.monotonic() - self._settings.keep_jobs_s
        for job in list(self._jobs.values()):
            if job.ended is not None and job.ended < oldest:
                del self._jobs[job.name]

    def _said(self, job: _Job) -> JobState:
        now = job.ended or time.monotonic()
        began = job.progress.began
        return JobState(
            id=job.name,
            kind=job.kind,
            state=job.state,
            asked_at=job.asked_at,
            waited_s=round((began or now) - job.asked, 3) if (began or now) > job.asked else 0.0,
            running_s=round(max(now - began, 0.0), 3) if began is not None else 0.0,
            result=None if job.result is None else job.result.model_dump(mode="json"),
            problem=job.problem,
        )
