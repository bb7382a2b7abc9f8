"""Questions answered by processes: shared, kept, limited in time, ended for good when nobody waits for them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest

from optimizer.plan import AnswerPart
from optimizer.questions.kinds import build_question
from optimizer.questions.no_answer import Busy, Fault, Stopping, TookTooLong
from optimizer.questions.refusal import Refusal
from optimizer.questions.requests import FitQuestion, SolveQuestion
from optimizer.questions.workers import Progress, Workers, WorkerSettings
from tests.optimizer.web.service import LONG, MODEL, SMALL, descendants, is_alive, until

COUNTED: list[tuple[str, str]] = []


def count(kind: str, outcome: str, seconds: float) -> None:
    COUNTED.append((kind, outcome))


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as found:
        yield found


@pytest.fixture(scope="module")
def workers(runner: asyncio.Runner) -> Iterator[Workers]:
    found = Workers(WorkerSettings(processes=1, most_waiting=3), count)

    async def begin() -> None:
        found.start()
        await found.until_ready()

    runner.run(begin())
    yield found
    runner.run(found.stop(0.1))
    assert until(lambda: not processes()), "its processes are gone with it"


def fit(context: int) -> FitQuestion:
    """A question of some milliseconds; another one for each context."""
    return build_question(FitQuestion, {"model": MODEL, "gpu": "L4-24GB", "context": context})


def long(rate: float) -> SolveQuestion:
    return build_question(SolveQuestion, {"scenario": {**LONG, "workload": {**LONG["workload"], "request_rate": rate}}})


def test_an_answer_is_the_same_as_in_this_process_and_is_kept(runner: asyncio.Runner, workers: Workers) -> None:
    from optimizer.questions.kinds import answer  # noqa: PLC0415

    question = fit(1000)
    COUNTED.clear()

    first, second = runner.run(workers.run(question)), runner.run(workers.run(question))

    assert first == answer(question)
    assert second is first
    assert COUNTED == [("fit", "answered"), ("fit", "kept")]


def test_equal_questions_that_are_being_answered_share_one_answer(runner: asyncio.Runner, workers: Workers) -> None:
    async def ask() -> list[AnswerPart]:
        return await asyncio.gather(*(workers.run(fit(1001)) for _ in range(20)))

    COUNTED.clear()
    found = runner.run(ask())

    assert len({id(one) for one in found}) == 1
    assert COUNTED == [("fit", "answered")]


def test_what_is_wrong_comes_back_field_by_field(runner: asyncio.Runner, workers: Workers) -> None:
    question = build_question(SolveQuestion, {"scenario": {**SMALL, "model": "no/such-model"}})

    with pytest.raises(Refusal) as error:
        runner.run(workers.run(question))

    assert [one.field for one in error.value.problems] == ["scenario.model"]


def test_a_question_that_takes_too_long_is_given_up_and_its_process_replaced(
    runner: asyncio.Runner, workers: Workers
) -> None:
    before = set(processes())

    with pytest.raises(TookTooLong):
        runner.run(workers.run(long(41), time_limit_s=0.3))

    async def later() -> AnswerPart:
        return await workers.run(fit(1002))

    assert runner.run(later()).fits  # type: ignore[attr-defined]
    assert workers.running == workers.waiting == 0
    assert before - set(processes()), "a process was ended"


def test_a_caller_that_is_cancelled_ends_the_process_that_is_at_its_question(
    runner: asyncio.Runner, workers: Workers
) -> None:
    seen: list[Progress] = []

    async def cancel() -> set[int]:
        asked = asyncio.create_task(workers.run(long(42), watch=seen.append))
        while not seen or seen[0].phase != "running":
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        at_it = set(processes())
        asked.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert time.monotonic() - began < 0.2, "whoever cancels does not wait for the end"
        while workers.running:
            await asyncio.sleep(0.02)
        return at_it

    at_it = runner.run(cancel())

    assert until(lambda: any(not is_alive(pid) for pid in at_it), 10)
    assert seen[0].phase == "done"


def test_one_of_two_who_wait_for_the_same_may_leave(runner: asyncio.Runner, workers: Workers) -> None:
    question = build_question(SolveQuestion, {"scenario": SMALL})

    async def leave() -> AnswerPart:
        first, second = (asyncio.create_task(workers.run(question)) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        return await second

    assert runner.run(leave()).status == "optimal"  # type: ignore[attr-defined]


def test_more_questions_than_may_wait_are_refused_with_a_time_to_ask_again(
    runner: asyncio.Runner, workers: Workers
) -> None:
    async def flood() -> list[BaseException | AnswerPart]:
        asked = [asyncio.create_task(workers.run(fit(2000 + number))) for number in range(8)]
        return await asyncio.gather(*asked, return_exceptions=True)

    found = runner.run(flood())

    busy = [one for one in found if isinstance(one, Busy)]
    assert busy
    assert all(one.retry_after_s >= 1 for one in busy)
    assert all(isinstance(one, (Busy, AnswerPart)) for one in found)


def test_a_process_that_dies_at_a_question_is_a_fault_and_the_next_one_is_answered(
    runner: asyncio.Runner, workers: Workers
) -> None:
    async def die() -> None:
        asked = asyncio.create_task(workers.run(long(43)))
        while not workers.running:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        for pid in processes():
            os.kill(pid, signal.SIGKILL)
        await asked

    with pytest.raises(Fault):
        runner.run(die())
    assert runner.run(workers.run(fit(3000))).fits  # type: ignore[attr-defined]


def test_a_process_that_dies_while_it_has_nothing_to_do_is_replaced(runner: asyncio.Runner, workers: Workers) -> None:
    for pid in processes():
        os.kill(pid, signal.SIGKILL)

    async def later() -> AnswerPart:
        await asyncio.sleep(1)
        return await workers.run(fit(3001))

    assert runner.run(later()).fits  # type: ignore[attr-defined]


def test_a_pool_that_ends_tells_those_who_wait(runner: asyncio.Runner) -> None:
    async def stop() -> list[BaseException | AnswerPart]:
        own = Workers(WorkerSettings(processes=1))
        asked = [asyncio.create_task(own.run(fit(4000 + number))) for number in range(3)]
        await asyncio.sleep(0.05)
        await own.stop(0.1)
        return await asyncio.gather(*asked, return_exceptions=True)

    assert all(isinstance(one, Stopping) for one in runner.run(stop()))


def processes() -> list[int]:
    """The processes of pools below this one: those that were started to work, not the tracker beside them."""
    found = []
    for pid in descendants(os.getpid()):
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            if "spawn_main" in file.read():
                found.append(pid)
    return found
