"""Standard output stays the caller's: HiGHS inside OR-Tools sometimes writes to it, below Python."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator

_OUT = 1
_lock = threading.Lock()
_inside = 0
_kept: int | None = None


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Send what is written to file descriptor 1 nowhere, until the last of the threads that are inside leaves.

    Where standard output is closed there is nothing to keep clean, and nothing is done.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _kept  # noqa: PLW0603  the descriptor is the process's, whoever solves
    with _lock:
        if _inside == 0:
            _flush()
            _kept = _redirect()
        _inside += 1


def _leave() -> None:
    global _inside, _kept  # noqa: PLW0603
    with _lock:
        _inside -= 1
        if _inside == 0 and _kept is not None:
            _flush_c()
            os.dup2(_kept, _OUT)
            os.close(_kept)
            _kept = None


def _redirect() -> int | None:
    try:
        kept = os.dup(_OUT)
    except OSError:
        return None  # closed
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except OSError:
        os.close(kept)
        return None
    os.dup2(nowhere, _OUT)
    os.close(nowhere)
    return kept


def _flush() -> None:
    # What Python still holds back is the caller's, and must not go the way of the solver's.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    _flush_c()


def _flush_c() -> None:
    # The solver writes through C's own buffer, which would otherwise come out after standard output is restored.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)
