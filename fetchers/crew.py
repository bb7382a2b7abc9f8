"""A few jobs at once, each in a thread of its own: none waits for another that hangs, and none ends another."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def each(
    jobs: Iterable[Job],
    work: Callable[[Job], Result],
    *,
    at_once: int,
    longest_s: Callable[[Job], float],
    started: Callable[[Job], None] = lambda _: None,
) -> Iterator[tuple[Job, Result | Exception]]:
    """Yield every job with its result, or with the exception that ended it, as they end.

    A job that takes longer than it may is yielded with TimeoutError and left behind; its thread ends with the program.
    Threads are daemons, so that an interrupted program does not wait for answers.
    """
    waiting, running = deque(enumerate(jobs)), dict[int, tuple[Job, float]]()
    ended: SimpleQueue[tuple[int, Result | Exception]] = SimpleQueue()

    def run(number: int, job: Job) -> None:
        try:
            ended.put((number, work(job)))
        except Exception as error:
            ended.put((number, error))

    while waiting or running:
        while waiting and len(running) < at_once:
            number, job = waiting.popleft()
            running[number] = job, time.monotonic() + longest_s(job)
            started(job)
            threading.Thread(target=run, args=(number, job), daemon=True, name=f"shardwise-{job}").start()
        try:
            left = min(until for _, until in running.values()) - time.monotonic()
            number, result = ended.get(timeout=max(left, 0.0))
        except Empty:
            late = [number for number, (_, until) in running.items() if until <= time.monotonic()]
            for number in late:
                job, _ = running.pop(number)
                yield job, TimeoutError(f"no answer in {longest_s(job):,.0f} s")
            continue
        if number in running:
            yield running.pop(number)[0], result
