"""The processes that questions are answered in, whatever happens to any of them."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
from typing import Any

from optimizer.errors import QuestionError
from optimizer.questions.in_worker import Answered, answer_here, get_ready
from optimizer.questions.requests import Question

MOST_QUESTIONS = 2_000  # of one process, before a fresh one takes its place: what was cached for others goes with it
JOIN_S = 10.0
EXTRA = 'answering in processes of their own needs pebble: pip install "shardwise[web]" (or "shardwise[mcp]")'
log = logging.getLogger("shardwise")


def check_extra() -> None:
    """Check that the package which keeps processes is there.

    Raises:
        QuestionError: it is missing.
    """
    try:
        import pebble  # noqa: F401, PLC0415  an extra
    except ModuleNotFoundError:
        raise QuestionError(EXTRA) from None


class Processes:
    """So many processes, started with the first question; one that is cancelled takes its process along."""

    def __init__(self, count: int):
        """Make the pool, without a process yet.

        Args:
            count: questions answered at once.
        """
        self._count = count
        self._pool: Any = None  # a ProcessPool, whose methods are not typed

    async def answer(self, question: Question) -> Answered:
        """Answer a question in one of them; what goes wrong there is told as a fault, and logged."""
        from pebble import ProcessExpired  # noqa: PLC0415

        future = self._running().schedule(answer_here, args=[question])
        try:
            answered: Answered = await asyncio.wrap_future(future)
            return answered
        except ProcessExpired as error:
            log.error("a worker process died (exit code %s) while it answered a question", error.exitcode)
            return Answered(fault="the process that answered died")
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("a question was not answered")
            return Answered(fault=f"{type(error).__name__}: {error}")

    def _running(self) -> Any:
        """Return the pool; another one where it broke, as it does when a process that does nothing is killed."""
        from pebble import ProcessPool  # noqa: PLC0415

        if self._pool is None or not self._pool.active:
            if self._pool is not None:
                self._pool.stop()
            self._pool = ProcessPool(
                max_workers=self._count,
                max_tasks=MOST_QUESTIONS,
                initializer=get_ready,
                initargs=[os.getpid()],
                context=multiprocessing.get_context("spawn"),
            )
        return self._pool

    async def stop(self) -> None:
        """End them."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()
            await asyncio.to_thread(pool.join, JOIN_S)
