"""Models that were read from the Hugging Face Hub once: kept in the user's data folder, found without a network.

One JSON file a model, `models/<org>--<name>.json`, lower case: the name, where it came from, and the decoded files.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from catalogs.errors import DataFileError
from catalogs.model_config import ModelConfigError
from catalogs.model_parser import parse_config
from catalogs.model_spec import ModelSpec
from catalogs.user_data import user_data_folder

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_]|[.\-](?![.\-])){0,95}(?<![.\-])"
_HUB_ID = re.compile(f"{_PART}/{_PART}")


def is_hub_id(name: str) -> bool:
    """Say whether a name has the form `org/name` that the Hub gives to models."""
    return _HUB_ID.fullmatch(name) is not None


def pulled_path(name: str) -> Path:
    """Return where a model of this Hub name is kept, if it is."""
    return user_data_folder() / "models" / f"{name.lower().replace('/', '--')}.json"


def pulled_model(name: str) -> ModelSpec | None:
    """Return the kept model of a Hub name; None where there is none.

    Raises:
        DataFileError: it cannot be read.
    """
    if not is_hub_id(name):
        return None
    path = pulled_path(name)
    try:
        changed = path.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataFileError(path, [f"cannot be read: {error.strerror}"]) from error
    return _read(path, changed)


def keep_model(name: str, kept: Mapping[str, Any]) -> ModelSpec:
    """Keep a model that was read from the Hub, whole or not at all, and return it.

    Args:
        name: its Hub name.
        kept: `config`, `hf_quant_config` (None where there is none), `source`, and what else is known.

    Raises:
        DataFileError: its config is not one that can be read, or it cannot be written; nothing is kept then.
    """
    path = pulled_path(name)
    entry = {"name": name, **kept}
    spec = _parsed(path, entry)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=".unfinished-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(entry, file)
                file.flush()
                os.fsync(file.fileno())
            Path(unfinished).replace(path)
        finally:
            Path(unfinished).unlink(missing_ok=True)
    except OSError as error:
        raise DataFileError(path, [f"cannot be written: {error.strerror}"]) from error
    return spec


@lru_cache(maxsize=64)
def _read(path: Path, _changed: int) -> ModelSpec:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataFileError(path, [f"cannot be read ({error}); delete it to have it read from the Hub anew"]) from None
    if not isinstance(entry, dict) or not {"name", "config", "source"} <= entry.keys():
        raise DataFileError(path, ["is not a kept model; delete it to have it read from the Hub anew"])
    return _parsed(path, entry)


def _parsed(path: Path, entry: Mapping[str, Any]) -> ModelSpec:
    try:
        spec = parse_config(entry["config"], str(entry["name"]), entry.get("hf_quant_config"))
    except ModelConfigError as error:
        raise DataFileError(f"{entry['name']}: config.json ({path.name})", error.problems) from None
    return spec.model_copy(update={"source": str(entry["source"])})
