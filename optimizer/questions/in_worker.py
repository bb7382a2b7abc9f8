"""What runs inside a worker process: it is made ready once, then answers one question after the other."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from dataclasses import dataclass

from optimizer.plan import AnswerPart
from optimizer.questions.refusal import Refusal
from optimizer.questions.requests import Question


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a question: its answer, or why there is none. Errors travel as values, since not all pickle.

    Attributes:
        fault: a fault of the program; shown to nobody who asks, but logged.
    """

    result: AnswerPart | None = None
    refused: Refusal | None = None
    fault: str = ""


def get_ready(parent: int) -> None:
    """Make a worker ready: what it will need is imported and loaded, and one small question solved.

    Its standard output becomes standard error: what solvers print below Python must not reach the caller's.
    """
    from optimizer.questions.kinds import answer, build_question  # noqa: PLC0415
    from optimizer.questions.requests import CHAT, SolveQuestion  # noqa: PLC0415
    from optimizer.whatif.engines import end_with  # noqa: PLC0415

    # A terminal sends Ctrl-C to every process of the group: it is for the one that asked to end its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent)
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
    with contextlib.suppress(Exception):  # without usable prices it is each question that has to be told so
        answer(build_question(SolveQuestion, {"scenario": CHAT}))
    gc.freeze()  # what is loaded now stays


def answer_here(question: Question) -> Answered:
    """Answer a question, whatever happens."""
    from optimizer.questions.kinds import answer  # noqa: PLC0415

    try:
        return Answered(result=answer(question))
    except Refusal as refused:
        return Answered(refused=refused)
    except Exception as error:
        import traceback  # noqa: PLC0415

        traceback.print_exc(file=sys.stderr)
        return Answered(fault=f"{type(error).__name__}: {error}")
