"""Why a question that is well asked may have no answer: reasons of the service, not of the question."""

from __future__ import annotations


class NoAnswer(RuntimeError):  # noqa: N818  the base of what may happen to a question that is well asked
    """A question was well asked and has no answer, for reasons of the service."""


class Busy(NoAnswer):
    """Too many questions wait already.

    Attributes:
        retry_after_s: when to ask again.
    """

    def __init__(self, waiting: int, retry_after_s: int):
        self.retry_after_s = retry_after_s
        super().__init__(f"{waiting} questions are waiting already; ask again in {retry_after_s} s")


class TookTooLong(NoAnswer):
    """The answer did not come within the time limit; the work was ended."""

    def __init__(self, limit_s: float):
        self.limit_s = limit_s
        super().__init__(f"no answer within {limit_s:g} s; ask it as a job, or ask less")


class Stopping(NoAnswer):
    """The service is ending."""

    def __init__(self) -> None:
        super().__init__("the service is ending")


class Fault(NoAnswer):
    """A fault of the program's own, or a worker process that died; the log has more."""
