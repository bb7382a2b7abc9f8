"""From a question to an answer: the cheapest feasible GPU layout for a language model.

    from optimizer import Scenario, solve

    plan = solve(Scenario.from_yaml("scenario.yaml"))

Names are imported when they are asked for (PEP 562), so that `import optimizer` stays light.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from catalogs.errors import CatalogError as CatalogError
    from optimizer.errors import AuditError as AuditError
    from optimizer.errors import QuestionError as QuestionError
    from optimizer.fleet.plan import FleetPlan as FleetPlan
    from optimizer.fleet.question import FleetScenario as FleetScenario
    from optimizer.library import explain as explain
    from optimizer.library import fit as fit
    from optimizer.library import front as front
    from optimizer.library import load_model as load_model
    from optimizer.library import load_offers as load_offers
    from optimizer.library import load_plan as load_plan
    from optimizer.library import predict as predict
    from optimizer.library import reoptimize as reoptimize
    from optimizer.library import solve as solve
    from optimizer.library import sweep as sweep
    from optimizer.library import what_budgets_buy as what_budgets_buy
    from optimizer.plan import Plan as Plan
    from optimizer.scenario import Scenario as Scenario

_FUNCTIONS = (
    "explain",
    "fit",
    "front",
    "load_model",
    "load_offers",
    "load_plan",
    "predict",
    "reoptimize",
    "solve",
    "sweep",
    "what_budgets_buy",
)
_HOMES = {
    "AuditError": "optimizer.errors",
    "CatalogError": "catalogs.errors",
    "FleetPlan": "optimizer.fleet.plan",
    "FleetScenario": "optimizer.fleet.question",
    "Plan": "optimizer.plan",
    "QuestionError": "optimizer.errors",
    "Scenario": "optimizer.scenario",
    **dict.fromkeys(_FUNCTIONS, "optimizer.library"),
}
__all__ = sorted(_HOMES)  # noqa: PLE0605  names of the table above


class _CalledModule(ModuleType):
    """A module of this package that has the name of one of its functions (`optimizer.solve`): calling it calls that.

    Python binds a submodule to its name in the package as soon as anything imports it, so the name alone cannot tell
    the two apart; as it is, both `from optimizer import solve` and `import optimizer.solve` do what they say.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function of the library; help() of it: help(optimizer.library)."""
        return self.__wrapped__(*args, **options)

    @property
    def __wrapped__(self) -> Any:
        """The function, which inspect and notebooks show the signature of."""
        return getattr(import_module("optimizer.library"), self.__name__.rpartition(".")[2])


class _Package(ModuleType):
    """This package: modules with the name of a function become callable when they are bound to it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FUNCTIONS and type(value) is ModuleType:
            value.__class__ = _CalledModule
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    # The import may have bound a module of the same name, which then is what the package has.
    return vars(sys.modules[__name__]).get(name, found)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


sys.modules[__name__].__class__ = _Package
