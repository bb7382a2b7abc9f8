"""Where the chunks of a sweep are solved: in this process, in some on this machine (joblib), or on a Dask cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Generator, Iterable
from functools import lru_cache
from typing import Any, Protocol

from optimizer.errors import QuestionError
from optimizer.whatif.chunks import Chunk, Row, solve_chunk

Solved = list[tuple[int, Row]]
JOBS_EXTRA, DASK_EXTRA = 'pip install "shardwise[sweep]"', 'pip install "shardwise[dask]"'
ORPHAN_CHECK_S = 1.0


class Engine(Protocol):
    """Solves chunks; yields each one's rows as soon as they are there, in any order.

    Attributes:
        name: what it is, for people.
        jobs: chunks that it solves at once.
    """

    name: str
    jobs: int

    def run(self, chunks: Iterable[Chunk]) -> Generator[Solved, None, None]:
        """Solve the chunks."""
        ...


class OneProcess:
    """This process alone."""

    name = "one process"
    jobs = 1

    def run(self, chunks: Iterable[Chunk]) -> Generator[Solved, None, None]:
        """Solve one chunk after the other."""
        yield from map(solve_chunk, chunks)


class Processes:
    """Several processes on this machine, through joblib."""

    def __init__(self, jobs: int):
        self.jobs = jobs
        self.name = f"{jobs} processes"

    def run(self, chunks: Iterable[Chunk]) -> Generator[Solved, None, None]:
        """Solve so many chunks at once; left early, the processes are ended."""
        from joblib import Parallel, delayed  # noqa: PLC0415  an extra

        parallel = Parallel(n_jobs=self.jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        found: Any = parallel(delayed(_solve_undisturbed)(chunk, os.getpid()) for chunk in chunks)
        try:
            yield from found
        except BaseException:
            _end_processes()
            raise
        finally:
            with contextlib.suppress(Exception):
                found.close()


def _solve_undisturbed(chunk: Chunk, asked_by: int) -> Solved:
    """Solve a chunk in a process that leaves Ctrl-C, which a terminal sends to all, to the one that asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(asked_by)
    return solve_chunk(chunk)


@lru_cache(maxsize=1)
def end_with(parent: int) -> None:
    """End this process when the one that asked (its parent) is gone: killed, it cannot tell."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(ORPHAN_CHECK_S)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


def _end_processes() -> None:
    from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415  an extra

    with contextlib.suppress(Exception):
        get_reusable_executor().shutdown(wait=False, kill_workers=True)


class DaskCluster:
    """The workers of a Dask cluster; shardwise, of this version, is installed on them."""

    def __init__(self, address: str):
        import distributed  # noqa: PLC0415  an extra

        connect: Any = distributed.Client
        try:
            self._client: Any = connect(address, timeout="10s", set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise QuestionError(f"--cluster {address}: no Dask scheduler answers there ({error})") from None
        threads = self._client.nthreads()
        if not threads:
            self._client.close()
            raise QuestionError(f"--cluster {address}: the scheduler has no workers; start some with `dask worker`")
        self.jobs = sum(threads.values())
        self.name = f"{len(threads)} Dask workers at {address}"

    def run(self, chunks: Iterable[Chunk]) -> Generator[Solved, None, None]:
        """Solve the chunks on the cluster; left early, what has not begun is cancelled."""
        import distributed  # noqa: PLC0415  an extra

        as_completed: Any = distributed.as_completed
        futures = self._client.map(solve_chunk, list(chunks), pure=False)
        try:
            for _, rows in as_completed(futures, loop=self._client.loop, with_results=True):
                yield rows
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel(futures)
            self._client.close()


def choose_engine(jobs: int | None, cluster: str | None) -> tuple[Engine, str]:
    """Return the engine asked for, and what to say where a better one is missing; empty where none is.

    Args:
        jobs: processes on this machine; one per core when not given.
        cluster: address of a Dask scheduler.

    Raises:
        QuestionError: a cluster is asked for and does not answer, or its package is missing.
    """
    if cluster is not None:
        return _dask(cluster), ""
    try:
        import joblib  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        more = jobs if jobs is not None else os.cpu_count() or 1
        said = f"joblib is not installed: one process instead of {more}; {JOBS_EXTRA}"
        return OneProcess(), said if more > 1 else ""
    amount = jobs if jobs is not None else int(joblib.cpu_count())
    return (Processes(amount) if amount > 1 else OneProcess()), ""


def _dask(address: str) -> DaskCluster:
    if not address.startswith(("tcp://", "tls://", "ucx://", "ws://", "wss://", "inproc://")):
        raise QuestionError(f"--cluster {address!r}: expected an address such as tcp://127.0.0.1:8786")
    try:
        import distributed  # noqa: F401, PLC0415  an extra
    except ModuleNotFoundError:
        raise QuestionError(f"--cluster needs Dask: {DASK_EXTRA}") from None
    return DaskCluster(address)
