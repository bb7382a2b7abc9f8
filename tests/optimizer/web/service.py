"""`shardwise serve` as a process of its own, for tests."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
# A small question: one GPU type of one provider, prices of one day.
SMALL = {
    "model": MODEL,
    "workload": {"input_tokens": 500, "output_tokens": 100, "request_rate": 2},
    "limits": {"gpus": ["A100-SXM-80GB"], "providers": ["spheron"]},
    "prices": {"as_of": "2026-08-14"},
}
# One that takes long: every format, every GPU, every split.
LONG = {
    "model": "deepseek-ai/DeepSeek-V3",
    "workload": {"input_tokens": 4000, "output_tokens": 1000, "request_rate": 40, "input_cv": 1, "output_cv": 1},
    "targets": {"at": "p95", "ttft_ms": 5000, "tpot_ms": 60},
    "limits": {"weights": "any", "kv_cache": "any", "terms": "any", "provider_kinds": "any"},
}
START_S = 60.0


def changed(scenario: dict[str, object], **fields: object) -> dict[str, object]:
    """A scenario with sections replaced."""
    return {**scenario, **fields}


@dataclass(frozen=True)
class Service:
    """A service that runs."""

    address: str
    process: subprocess.Popen[str]
    client: httpx.Client
    log: Path

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        """Ask something of the API."""
        return self.client.post(f"/api/v1/{path}", json=body, headers=headers)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Read something from it."""
        return self.client.get(path, headers=headers)

    def children(self) -> list[int]:
        """The processes below it."""
        return descendants(self.process.pid)


def descendants(pid: int) -> list[int]:
    """Every process below one, by what /proc says."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] != "Z":
                    found += [int(entry.name), *descendants(int(entry.name))]
    return found


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(holds: object, seconds: float = 20.0) -> bool:
    """Wait until something holds; say whether it did."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def serving(*flags: str, ready: bool = True, **environment: str) -> Iterator[Service]:
    """Run `shardwise serve` on a free port; wait until it is ready."""
    log = tempfile.NamedTemporaryFile("w+", prefix="shardwise-serve-", suffix=".log")  # noqa: SIM115  kept to the end
    process = subprocess.Popen(
        [sys.executable, "-m", "optimizer.cli", "serve", "--port", "0", *flags],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"http://\S+", line)
        if found is None:
            raise RuntimeError(f"{line}{Path(log.name).read_text()}")
        # Whatever proxy the machine is set up with, this is its own address.
        with httpx.Client(base_url=found[0], timeout=60, trust_env=False) as client:
            service = Service(found[0], process, client, Path(log.name))
            if ready and not until(lambda: client.get("/healthz").status_code == 200, START_S):
                raise RuntimeError("the service did not become ready")
            yield service
    finally:
        process.kill()
        process.communicate(timeout=20)
        log.close()
