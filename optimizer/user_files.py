"""The user's own files: the folder where they live, reading them bounded, and writing them whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from catalogs.user_data import FOLDER_VARIABLE, user_data_folder
from optimizer.errors import QuestionError

__all__ = ["FOLDER_VARIABLE", "read_bounded", "user_data_folder", "write_whole"]


def read_bounded(path: Path, most: int, expected: str) -> bytes:
    """Read a file of at most so many bytes: it may be a device or a pipe.

    Raises:
        QuestionError: it cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise QuestionError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > most:
        raise QuestionError(f"{path}: is larger than {most:,} bytes; expected {expected}")
    return data


def write_whole(path: Path, content: str | bytes, *, private: bool = True) -> None:
    """Write a file so that a reader, or a crash, finds the old one or the new one; folders are made.

    Args:
        path: the file.
        content: what it shall hold.
        private: only the user may read it; else it gets the rights that files of the user's get.

    Raises:
        OSError: it cannot be written; the old file is then as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if not private:
            Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
