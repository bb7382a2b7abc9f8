"""A cache keyed by which model object it is: comparing two models layer by layer costs more than the answers here."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from catalogs.model_spec import ModelSpec

P = ParamSpec("P")
T = TypeVar("T")


def per_model(
    size: int,
) -> Callable[[Callable[Concatenate[ModelSpec, P], T]], Callable[Concatenate[ModelSpec, P], T]]:
    """Cache a pure function of a model and other hashable arguments; emptied when it holds `size` answers."""

    def decorate(function: Callable[Concatenate[ModelSpec, P], T]) -> Callable[Concatenate[ModelSpec, P], T]:
        # The model is kept with its answer: as long as it lives, no other object has its id.
        kept: dict[Hashable, tuple[ModelSpec, T]] = {}

        @wraps(function)
        def cached(model: ModelSpec, /, *args: P.args, **kwargs: P.kwargs) -> T:
            key = (id(model), args, tuple(kwargs.items()))
            found = kept.get(key)
            if found is None:
                if len(kept) >= size:
                    kept.clear()
                found = kept[key] = (model, function(model, *args, **kwargs))
            return found[1]

        return cached

    return decorate
