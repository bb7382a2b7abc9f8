"""What questions are answered from: models by name or by the config that was sent, offers of a day, kept while good."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from catalogs.errors import CatalogError, UnknownNameError
from catalogs.model_config import ModelConfigError
from catalogs.models import ModelSpec, named_model, parse_config
from catalogs.offers import OfferTable, load_offers
from catalogs.user_data import DATABASE_VARIABLE, HISTORY_FILE, user_data_folder
from optimizer.performance.own_calibration import calibration_file
from optimizer.questions.refusal import FieldProblem, Refusal

SERVER_LOOK_S = 60  # a database on a server does not say cheaply whether it changed: it is looked at anew so often
State = tuple[object, ...]


def models_of(
    names: Iterable[str], configs: Mapping[str, Mapping[str, Any]], where: str = "scenario.model"
) -> dict[str, ModelSpec]:
    """Return the models of these names: of the configs that came with the request, else of the catalog.

    Raises:
        Refusal: a name is in neither, or a config is not one.
    """
    found: dict[str, ModelSpec] = {}
    for name in names:
        if name in configs:
            found[name] = _of_config(name, configs[name])
            continue
        try:
            found[name] = named_model(name)
        except UnknownNameError as error:
            said = f"{error} Accepted: a name that the catalog lists, or one whose config.json is in `models`."
            raise Refusal([FieldProblem(where, said)]) from None
    return found


def _of_config(name: str, config: Mapping[str, Any]) -> ModelSpec:
    try:
        return parse_config(config, name)
    except ModelConfigError as error:
        raise Refusal([FieldProblem(f"models.{name}", said) for said in error.problems]) from None
    except CatalogError as error:
        raise Refusal([FieldProblem(f"models.{name}", str(error))]) from None


def offers_on(as_of: date | None, today: date) -> OfferTable:
    """Return the offers of a day at list prices; the same table as long as no price has changed.

    Raises:
        CatalogError: no price is as old, or the history cannot be read.
    """
    return _offers(as_of, today, price_state())


@lru_cache(maxsize=4)
def _offers(as_of: date | None, today: date, _state: State) -> OfferTable:
    return load_offers(as_of, today=today)


def newest_price(today: date) -> date:
    """Return the day of the newest price.

    Raises:
        CatalogError: there is none, or the history cannot be read.
    """
    newest: date = offers_on(None, today).frame["seen_on"].max().date()
    return newest


def price_state() -> State:
    """Return what changes where prices or the user's own calibration do."""
    folder = user_data_folder()
    files = [folder / HISTORY_FILE, folder / f"{HISTORY_FILE}-wal", calibration_file()]
    server = os.environ.get(DATABASE_VARIABLE)
    looked = int(time.time() // SERVER_LOOK_S) if server else 0
    return (server, looked, *map(_stamp, files))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
