"""The runs behind a user's own calibration, one file a source, and the calibration itself: written whole or not at all.

The kept runs are what counts: the calibration is worked out from all of them, and can be at any time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from optimizer.errors import QuestionError
from optimizer.performance.own_calibration import calibration_file, calibration_folder
from optimizer.user_files import write_whole


class StoredRun(BaseModel):
    """One run, completed by the options that were given with its file; names are those of the project's files of runs.

    Attributes:
        where: the place in the file; "" where the file is one run.
        lengths: "same", "near" or "mixed".
        completed, failed: requests; null where the file does not say.
        lacks: what neither the file nor the options say, and the options for it; "" where nothing is missing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: str
    engine: str
    engine_version: str | None
    model: str
    gpu: str
    n_gpus: int
    tp: int
    pp: int
    ep: int
    attn_dp: int
    weight_precision: str
    kv_precision: str
    isl: float
    osl: float
    lengths: str
    concurrency: float | None
    batch: float | None
    request_rate: float | None
    scenario: str
    ttft_ms: float | None
    tpot_ms: float | None
    output_tok_s_total: float | None
    completed: float | None
    failed: float | None
    lacks: str = ""


class Source(BaseModel):
    """A benchmark file whose runs are kept.

    Attributes:
        name: of the file, without its folder.
        sha256: of its content; the same content is kept once, as it was given last.
        forced: whether runs that look wrong are used all the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    sha256: str
    format: str
    added: date
    forced: bool = False
    runs: tuple[StoredRun, ...]


def load_sources() -> list[Source]:
    """Return what is kept, oldest first.

    Raises:
        QuestionError: a file in the folder of runs is damaged.
    """
    found = []
    for path in sorted(_runs_folder().glob("*.json")):
        try:
            found.append(Source.model_validate_json(path.read_bytes()))
        except OSError as error:
            raise QuestionError(f"{path}: cannot be read: {error.strerror or error}") from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            raise QuestionError(
                f"{path}: is not what `shardwise calibrate` keeps ({place}: {first['msg']}); "
                "remove that file and calibrate with the benchmark anew"
            ) from None
    return sorted(found, key=lambda source: (source.added, source.name, source.sha256))


def keep(sources: Sequence[Source], toml: str | None) -> None:
    """Write sources and calibration, and remove what is no longer among them.

    Args:
        sources: all that is to be kept.
        toml: the calibration's text; None where no run is left to calibrate with.

    Raises:
        QuestionError: the folder cannot be written.
    """
    folder = _runs_folder()
    names = {f"{source.sha256[:32]}.json": source for source in sources}
    try:
        for name, source in names.items():
            text = source.model_dump_json(indent=1) + "\n"
            path = folder / name
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                write_whole(path, text)
        if toml is not None:
            write_whole(calibration_file(), toml)
        else:
            calibration_file().unlink(missing_ok=True)
        for path in folder.glob("*.json"):
            if path.name not in names:
                path.unlink()
    except OSError as error:
        raise QuestionError(
            f"{error.filename or calibration_folder()}: cannot be written: {error.strerror or error}; "
            "SHARDWISE_DATA_DIR names another folder"
        ) from None


def _runs_folder() -> Path:
    return calibration_folder() / "runs"


def to_toml(
    head: Mapping[str, Any],
    sources: Sequence[Mapping[str, Any]],
    runs: Sequence[Mapping[str, Any]],
    errors: Sequence[Mapping[str, Any]],
    own: Mapping[str, tuple[str, str]],
    factors: Mapping[str, Mapping[str, float]],
) -> str:
    """Return the text of a calibration file; values are text, numbers, days, lists of text, or left out when None."""
    blocks = ["# Written by `shardwise calibrate` from the runs in the folder beside it; not edited by hand."]
    blocks.append(_block("[calibration]", head))
    blocks += [_block("[[sources]]", one) for one in sources]
    blocks += [_block("[[errors]]", one) for one in errors]
    blocks += [_block("[[runs]]", one) for one in runs]
    blocks.append("[own]")
    blocks += [_block(f"[own.{_text(name)}]", {"era": era, "release": release}) for name, (era, release) in own.items()]
    blocks.append("[factors]")
    blocks += [_block(f"[factors.{_text(level)}]", row) for level, row in factors.items()]
    return "\n\n".join(blocks) + "\n"


def _block(title: str, values: Mapping[str, Any]) -> str:
    lines = (f"{name} = {_value(value)}" for name, value in values.items() if value is not None)
    return "\n".join([title, *lines])


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, (int, float)):
        return repr(value)
    return value.isoformat() if isinstance(value, date) else _text(value)


def _text(value: object) -> str:
    """A TOML basic string: JSON's escapes are among TOML's, and delete, which JSON leaves, has one in TOML."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
