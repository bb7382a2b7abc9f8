"""A cache of pure functions of large objects, which are known by which object it is and not by their content."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def kept(size: int, owners: int = 1) -> Callable[[F], F]:
    """Keep a pure function's answers by the identity of its first `owners` arguments and the value of the others.

    Comparing two models layer by layer, or two tables, costs more than the answers that are kept for them. The owners
    are kept with the answer: as long as they live, no other object has their id. Emptied when it holds `size` answers.
    """

    def decorate(function: F) -> F:
        answers: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

        @wraps(function)
        def cached(*args: Any, **kwargs: Any) -> Any:
            key = (tuple(map(id, args[:owners])), args[owners:], tuple(kwargs.items()))
            found = answers.get(key)
            if found is None:
                if len(answers) >= size:
                    answers.clear()
                found = answers[key] = (args[:owners], function(*args, **kwargs))
            return found[1]

        return cast("F", cached)

    return decorate
