"""The raw bytes of pulls, compressed, each under the hash of its content; bounded by age and by size.

A file is written beside its place, made durable, and moved there before the database speaks of it: a crash leaves at
worst a file that no look names, and `prune` takes it away in time.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from catalogs.history.records import HistoryError

MAX_PULL_BYTES = 200_000_000
MAX_FOLDER_BYTES = 2_000_000_000
MAX_AGE_SECONDS = 180 * 86_400.0
_UNFINISHED_SECONDS = 86_400.0
_UNFINISHED = ".unfinished-"


@dataclass(frozen=True, slots=True)
class RawPull:
    """Raw bytes that went by: their hash and size, and whether they were few enough to keep."""

    sha256: str
    size_bytes: int
    kept: bool


class RawPulls:
    """A folder of raw pulls."""

    def __init__(self, folder: Path):
        self.folder = folder

    def keep(self, chunks: Iterable[bytes], *, max_bytes: int = MAX_PULL_BYTES) -> RawPull:
        """Hash bytes as they come, and keep them unless they are more than `max_bytes`.

        Raises:
            HistoryError: the folder cannot be written; nothing is left behind.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=self.folder)
        except OSError as error:
            raise HistoryError(f"{self.folder}: cannot be written: {error.strerror or error}") from error
        unfinished = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                sha256, size = _write(file, chunks, max_bytes)
                file.flush()
                os.fsync(file.fileno())
            if size > max_bytes:
                return RawPull(sha256, size, kept=False)
            path = self.path(sha256)
            path.parent.mkdir(exist_ok=True, mode=0o700)
            unfinished.replace(path)
            for folder in (path.parent, self.folder):
                _sync_folder(folder)
            return RawPull(sha256, size, kept=True)
        except OSError as error:
            raise HistoryError(f"{self.folder}: cannot be written: {error.strerror or error}") from error
        finally:
            unfinished.unlink(missing_ok=True)

    def path(self, sha256: str) -> Path:
        """Return where the bytes of a hash lie, if they are kept."""
        return self.folder / sha256[:2] / f"{sha256}.gz"

    def read(self, sha256: str, *, max_bytes: int = MAX_PULL_BYTES) -> bytes:
        """Return the bytes of a hash.

        Raises:
            HistoryError: they are not kept (any more), or are damaged.
        """
        try:
            with gzip.open(self.path(sha256), "rb") as file:
                data = file.read(max_bytes + 1)
        except FileNotFoundError:
            raise HistoryError(f"{sha256}: its raw bytes are not kept (any more)") from None
        except (OSError, EOFError) as error:
            raise HistoryError(f"{self.path(sha256)}: cannot be read: {error}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise HistoryError(f"{self.path(sha256)}: is damaged: its content does not have the hash of its name")
        return data

    def prune(
        self,
        *,
        max_bytes: int = MAX_FOLDER_BYTES,
        max_age_seconds: float = MAX_AGE_SECONDS,
        now: float | None = None,
    ) -> int:
        """Delete the oldest files until the folder is in its bounds, and what a crash left; returns how many."""
        now = time.time() if now is None else now
        deleted = 0
        kept: list[tuple[float, int, Path]] = []
        for path in self.folder.rglob("*"):
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue  # another process deleted it
            unfinished = path.name.startswith(_UNFINISHED)
            if path.suffix == ".gz" and not unfinished:
                kept.append((stat.st_mtime, stat.st_size, path))
            elif unfinished and now - stat.st_mtime > _UNFINISHED_SECONDS:
                path.unlink(missing_ok=True)
                deleted += 1
        total = sum(size for _, size, _ in kept)
        for modified, size, path in sorted(kept):
            if total <= max_bytes and now - modified <= max_age_seconds:
                break
            path.unlink(missing_ok=True)
            total -= size
            deleted += 1
        return deleted


def _write(file: object, chunks: Iterable[bytes], max_bytes: int) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as packed:  # type: ignore[call-overload]
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            if size <= max_bytes:
                packed.write(chunk)
    return digest.hexdigest(), size


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # folders cannot be opened there; the move itself is durable
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
