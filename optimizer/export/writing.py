"""Launch files as one text, or written to a file or a folder: all of them or none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from optimizer.errors import QuestionError
from optimizer.export.deployment import LaunchFile
from optimizer.user_files import write_whole

SCRIPT_MODE = 0o755


def as_text(files: Sequence[LaunchFile]) -> str:
    """Return files as one text: YAML as documents of one stream, others behind a line with their name."""
    if len(files) == 1:
        return files[0].text
    yaml = all(file.name.endswith((".yaml", ".yml")) for file in files)
    parts = [f"---\n# {one.name}\n{one.text}" if yaml else f"##### {one.name} #####\n{one.text}" for one in files]
    return "\n".join(parts)


def write_files(files: Sequence[LaunchFile], out: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write one file to `out`, or several into the folder `out`; return where they are.

    Files are first written beside their places, and moved there once all of them are there.

    Raises:
        QuestionError: one is there already and `force` is not given, or it cannot be written.
    """
    folder = out if len(files) > 1 or out.is_dir() else None
    if folder is not None and out.exists() and not out.is_dir():
        raise QuestionError(
            f"--out {out}: there are {len(files)} files to write; expected a folder, and this is a file"
        )
    places = tuple(folder / file.name for file in files) if folder is not None else (out,)
    there = [str(place) for place in places if place.exists()]
    if there and not force:
        raise QuestionError(f"--out: {', '.join(there)} is there already; give another name, or --force to replace it")
    if wrong := [str(place) for place in places if place.is_dir()]:
        raise QuestionError(f"--out: {', '.join(wrong)} is a folder; expected a file")
    try:
        _write(files, places)
    except OSError as error:
        raise QuestionError(f"--out {out}: cannot be written: {error.strerror or error}") from None
    return places


def _write(files: Sequence[LaunchFile], places: Sequence[Path]) -> None:
    """Write files to a folder beside their places, then move them; what was there before is put back on a failure."""
    home = places[0].parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".shardwise-export-", dir=home) as beside:
        new, old = Path(beside) / "new", Path(beside) / "old"
        old.mkdir()
        for file in files:
            write_whole(new / file.name, file.text)
            (new / file.name).chmod(SCRIPT_MODE if file.name.endswith(".sh") else 0o644)
        moved: list[tuple[Path, Path | None]] = []
        try:
            for file, place in zip(files, places, strict=True):
                kept = old / file.name if place.exists() else None
                if kept is not None:
                    shutil.copy2(place, kept)
                (new / file.name).replace(place)
                moved.append((place, kept))
        except OSError:
            for place, kept in moved:
                if kept is None:
                    place.unlink(missing_ok=True)
                else:
                    kept.replace(place)
            raise
