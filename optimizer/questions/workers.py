"""Processes that answer questions: several at once, limited in time, cancelled by ending the process.

A question waits for a free process, in the order asked. Equal questions that are being answered share one answer, and
answers are kept for a while, as long as prices stay the same.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from optimizer.plan import AnswerPart
from optimizer.questions.facts import price_state
from optimizer.questions.in_worker import Answered
from optimizer.questions.list_requests import SourcesQuestion
from optimizer.questions.listed import Listed
from optimizer.questions.no_answer import Busy, Fault, Stopping, TookTooLong
from optimizer.questions.processes import Processes, check_extra
from optimizer.questions.requests import Question

LINGER_S = 0.5  # what nobody waits for any more may still take: to end and replace a process takes longer


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How questions are answered.

    Attributes:
        processes: questions answered at once.
        most_waiting: questions that may wait for a free process.
        time_limit_s: from asking to the answer, where the caller says nothing else.
        kept: answers that are kept, lists of facts aside.
    """

    processes: int = field(default_factory=lambda: max(os.cpu_count() or 1, 1))
    most_waiting: int = 200
    time_limit_s: float = 60.0
    kept: int = 128


@dataclass
class Progress:
    """How far a question is; it changes as time goes.

    Attributes:
        phase: "queued", "running" or "done".
        began: when a process took it (time.monotonic); None before.
    """

    phase: str = "queued"
    began: float | None = None


@dataclass(eq=False)
class _Work:
    """A question that is being answered, for one or more who wait."""

    task: asyncio.Task[Answered]
    progress: Progress
    waiters: int = 0


class Workers:
    """A pool of processes; its methods are called on one event loop.

    Attributes:
        settings: how it works.
        ready: a process has answered its first question, so that the next answer comes fast.
    """

    def __init__(
        self, settings: WorkerSettings | None = None, counted: Callable[[str, str, float], None] | None = None
    ):
        """Make a pool that has not started yet.

        Args:
            settings: how it works.
            counted: told of every question that ended: its kind, how ("answered", "kept", "refused", "cancelled",
                "failed"), and the seconds in a process.
        """
        self.settings = settings or WorkerSettings()
        self.ready = False
        self._counted = counted or (lambda kind, outcome, seconds: None)
        self._work: dict[str, _Work] = {}  # that may be shared
        self._all: set[_Work] = set()
        self._kept: OrderedDict[str, AnswerPart] = OrderedDict()
        self._slots = asyncio.Semaphore(self.settings.processes)
        self._processes = Processes(self.settings.processes)
        self._warming: asyncio.Task[None] | None = None
        self._stopped = False
        self._seconds = 0.5  # a question's time in a process, averaged over the last

    @property
    def waiting(self) -> int:
        """Questions that wait for a free process."""
        return sum(work.progress.phase == "queued" for work in self._all)

    @property
    def running(self) -> int:
        """Questions that a process is at."""
        return len(self._all) - self.waiting

    def start(self) -> None:
        """Start the processes; returns at once, and `ready` is set when the first of them is.

        Raises:
            QuestionError: the package that keeps processes is missing.
        """
        check_extra()
        self._stopped = False
        self._warming = asyncio.create_task(self._warm())

    async def _warm(self) -> None:
        await self._processes.answer(SourcesQuestion())
        self.ready = True

    async def until_ready(self) -> None:
        """Wait until the first process is ready."""
        if self._warming is not None:
            await asyncio.shield(self._warming)

    async def run(
        self,
        question: Question,
        *,
        time_limit_s: float | None = None,
        watch: Callable[[Progress], None] = lambda _: None,
    ) -> AnswerPart:
        """Answer a question in a process.

        A caller that is cancelled takes the work with it, unless another one waits for the same.

        Args:
            question: what is asked.
            time_limit_s: from now to the answer; the settings' when not given.
            watch: is given the progress of the work, which is kept up to date.

        Raises:
            Refusal: it cannot be answered as it was asked.
            NoAnswer: too many wait (Busy), it took too long, the service ends, or something broke.
        """
        from optimizer.questions.kinds import kind_of  # noqa: PLC0415

        if self._stopped:
            raise Stopping
        limit, kind, key = time_limit_s or self.settings.time_limit_s, kind_of(question).name, _key(question)
        if (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            self._counted(kind, "kept", 0.0)
            return kept
        work = self._work.get(key) or self._begin(key, kind, question)
        work.waiters += 1
        watch(work.progress)
        try:
            done, _ = await asyncio.wait([work.task], timeout=limit)
        finally:
            work.waiters -= 1
            if not work.waiters and not work.task.done():
                self._leave(key, work)
        if not done:
            raise TookTooLong(limit)
        if work.task.cancelled():
            raise Stopping
        answered = work.task.result()
        if answered.refused is not None:
            raise answered.refused
        if answered.result is None:
            raise Fault(answered.fault)
        return answered.result

    def _begin(self, key: str, kind: str, question: Question) -> _Work:
        if len(self._all) >= self.settings.processes + self.settings.most_waiting:
            waiting = self.waiting
            raise Busy(waiting, max(1, round(waiting * self._seconds / self.settings.processes / 2)))
        progress = Progress()
        work = _Work(asyncio.create_task(self._do(question, progress)), progress)
        self._work[key] = work
        self._all.add(work)
        work.task.add_done_callback(lambda task: self._ended(key, kind, work, task))
        return work

    async def _do(self, question: Question, progress: Progress) -> Answered:
        """Wait for a free process, and answer."""
        async with self._slots:
            progress.began, progress.phase = time.monotonic(), "running"
            return await self._processes.answer(question)

    def _ended(self, key: str, kind: str, work: _Work, task: asyncio.Task[Answered]) -> None:
        """Keep what came of a question, and count it."""
        began, work.progress.phase = work.progress.began, "done"
        self._all.discard(work)
        if self._work.get(key) is work:
            del self._work[key]
        seconds = 0.0 if began is None else time.monotonic() - began
        if began is not None:
            self._seconds += 0.1 * (seconds - self._seconds)
        if task.cancelled():
            self._counted(kind, "cancelled", seconds)
            return
        answered = task.result()
        if answered.result is not None and not isinstance(answered.result, Listed):
            self._keep(key, answered.result)
        outcome = "failed" if answered.fault else "refused" if answered.refused is not None else "answered"
        self._counted(kind, outcome, seconds)

    def _keep(self, key: str, result: AnswerPart) -> None:
        self._kept[key] = result
        while len(self._kept) > self.settings.kept:
            self._kept.popitem(last=False)

    def _leave(self, key: str, work: _Work) -> None:
        """End work that nobody waits for: at once while it waits itself, soon where a process is at it."""
        if work.progress.phase == "queued" or self._stopped:
            self._end(key, work)
        else:
            asyncio.get_running_loop().call_later(LINGER_S, self._end_if_left, key, work)

    def _end_if_left(self, key: str, work: _Work) -> None:
        if not work.waiters and not work.task.done():
            self._end(key, work)

    def _end(self, key: str, work: _Work) -> None:
        if self._work.get(key) is work:
            del self._work[key]
        work.task.cancel()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Let what runs end for so long, then end the processes; questions that wait are told that it stops."""
        self._stopped = True
        for work in list(self._all):
            if work.progress.phase == "queued":
                work.task.cancel()
        if self._all:
            await asyncio.wait([work.task for work in self._all], timeout=grace_s)
        if left := [work.task for work in self._all]:
            for task in left:
                task.cancel()
            await asyncio.wait(left)
        if self._warming is not None:
            self._warming.cancel()
        await self._processes.stop()


def _key(question: Question) -> str:
    """Return what two questions with the same answer have in common."""
    return f"{type(question).__name__} {date.today()} {price_state()} {question.model_dump_json()}"
