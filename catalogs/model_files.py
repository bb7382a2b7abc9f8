"""Model configs on disk: the bundled ones by name, or a user's config.json, checkpoint folder or file of facts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from catalogs.errors import CatalogError, DataFileError, UnknownNameError
from catalogs.model_config import ModelConfigError
from catalogs.model_parser import parse_config
from catalogs.model_spec import ModelSpec
from catalogs.pulled_models import pulled_model

MAX_FILE_BYTES: Final = 32_000_000
_BUNDLED: Final = Path(__file__).parent / "data" / "models"
_PATH_HINT: Final = (
    "For any other model pass the path of its config.json, or of the folder that holds it; "
    "`shardwise catalog models` lists the known ones."
)
_SUFFIXES: Final = (".json", ".yaml", ".yml")


_given: ContextVar[Mapping[str, ModelSpec] | None] = ContextVar("given", default=None)


@contextmanager
def names_only(given: Mapping[str, ModelSpec]) -> Iterator[None]:
    """Have `load_model` open no path within: what it is asked for is one of these models, or a name (`named_model`)."""
    token = _given.set(given)
    try:
        yield
    finally:
        _given.reset(token)


def load_model(name_or_path: str | Path) -> ModelSpec:
    """Return a bundled model by its Hub name (any case, cached), or read a config.json or the folder that holds it.

    A string is a path when it ends in .json, .yaml or .yml, begins with ".", "/" or "~", or names a folder with a
    config.json; otherwise it is a name: a bundled one, or one that was read from the Hub before. Never fetches
    anything.

    Raises:
        UnknownNameError: no such model of that name; near matches and how to pass a config.json.
        DataFileError: the file cannot be read or is not a model config.
    """
    given = _given.get()
    if given is not None:
        return given.get(str(name_or_path)) or named_model(str(name_or_path))
    if isinstance(name_or_path, Path) or _looks_like_path(name_or_path):
        return _from_path(Path(name_or_path))
    known = _index().get(name_or_path.strip().lower())
    if known is not None:
        return _bundled(*known)
    if _exists(Path(name_or_path)):
        return _from_path(Path(name_or_path))
    pulled = pulled_model(name_or_path.strip())
    if pulled is not None:
        return pulled
    raise UnknownNameError("model", name_or_path[:200], bundled_models(), _PATH_HINT)


def named_model(name: str) -> ModelSpec:
    """Return a bundled model, or one that was read from the Hub before, by its name; what it says is never a path.

    Raises:
        UnknownNameError: neither has this name; near matches.
        DataFileError: the kept file of a model from the Hub cannot be read.
    """
    known = _index().get(name.strip().lower())
    if known is not None:
        return _bundled(*known)
    pulled = pulled_model(name.strip())
    if pulled is None:
        raise UnknownNameError("model", name[:200], bundled_models())
    return pulled


@lru_cache(maxsize=1)
def bundled_models() -> tuple[str, ...]:
    """Names of the bundled models, sorted, without parsing them."""
    return tuple(sorted((name for name, _ in _index().values()), key=str.lower))


@lru_cache(maxsize=1)
def _index() -> dict[str, tuple[str, str]]:
    """Lower-case name -> (name as on the Hub, file name)."""
    names = json.loads((_BUNDLED / "index.json").read_text(encoding="utf-8"))
    return {name.lower(): (name, file) for name, file in names.items()}


@lru_cache(maxsize=256)
def _bundled(name: str, file: str) -> ModelSpec:
    entry = json.loads((_BUNDLED / file).read_text(encoding="utf-8"))
    twin = entry.get("also", {}).get(name, {})
    spec = parse_config({**entry["config"], **twin}, name)
    return spec.model_copy(
        update={"published_parameters": entry["published_parameters"]["count"], "source": entry["source"]}
    )


def _looks_like_path(text: str) -> bool:
    if text.startswith((".", "/", "~")) or text.lower().endswith(_SUFFIXES):
        return True
    return _exists(Path(text) / "config.json")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _from_path(path: Path) -> ModelSpec:
    try:
        path = path.expanduser()
        file = path / "config.json" if path.is_dir() else path
        if path.is_dir() and not file.exists():
            raise DataFileError(path, ["the folder holds no config.json"])
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, CatalogError):
            raise
        raise DataFileError(path, [f"cannot be read: {error}"]) from None
    config = _decode(file)
    beside = file.with_name("hf_quant_config.json")
    quant = _decode(beside) if _exists(beside) else None
    try:
        return parse_config(config, _name_of(config, file), quant)
    except ModelConfigError as error:
        raise DataFileError(file, error.problems) from None


def _name_of(config: Mapping[str, Any], file: Path) -> str:
    named = config.get("_name_or_path")
    if isinstance(named, str) and "/" in named and not named.startswith((".", "/", "~")) and len(named) <= 200:
        return named
    return file.parent.name if file.name == "config.json" and file.parent.name else file.stem


def _decode(file: Path) -> Mapping[str, Any]:
    """Decode a JSON or YAML file into a mapping; lets the tokens Infinity and NaN through, which some configs hold."""
    try:
        if file.exists() and not file.is_file():
            raise DataFileError(file, ["not a regular file"])
        if file.stat().st_size > MAX_FILE_BYTES:
            raise DataFileError(file, [f"larger than {MAX_FILE_BYTES // 1_000_000} MB; not a model config"])
        text = file.read_text(encoding="utf-8-sig")
        decoded = _yaml(text) if file.suffix.lower() in {".yaml", ".yml"} else json.loads(text)
    except CatalogError:
        raise
    except json.JSONDecodeError as error:
        raise DataFileError(file, [f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"]) from None
    except RecursionError:
        raise DataFileError(file, ["nested too deeply; not a model config"]) from None
    except UnicodeDecodeError:
        raise DataFileError(file, ["not UTF-8 text"]) from None
    except (OSError, ValueError) as error:
        raise DataFileError(file, [f"cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
    if not isinstance(decoded, Mapping):
        raise DataFileError(file, [f"holds a {type(decoded).__name__}; expected an object with the model's facts"])
    return decoded


def _yaml(text: str) -> Any:
    import yaml  # noqa: PLC0415  only files given by hand need it, and it takes 15 ms to import

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}") from None
