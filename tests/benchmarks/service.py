"""Figures of the service: how soon it answers first, and fifty different questions asked at the same moment.

python -m tests.benchmarks.service            with a process per core
python -m tests.benchmarks.service 1          with so many processes

Every question is about the whole bundled catalog, with all reasons; no two are alike, so that no answer is shared.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.optimizer.web.service import Service, serving

AT_ONCE = 50
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct",
    "Qwen/Qwen2.5-32B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
)


def scenario(number: int) -> dict[str, Any]:
    """One of the questions: five models, two kinds of traffic, five amounts of it."""
    kind, amount = divmod(number // len(MODELS), 5)
    rate = 1 + 1.7 * amount
    traffic = {"request_rate": rate} if kind == 0 else {"concurrency": 8 * (amount + 1)}
    return {
        "model": MODELS[number % len(MODELS)],
        "workload": {"input_tokens": 1500 + 100 * number, "output_tokens": 300, **traffic},
        "targets": {"ttft_ms": 3000, "tpot_ms": 60},
    }


def asked(address: str, number: int) -> tuple[float, int]:
    """Ask one question over a connection of its own; return seconds and the status."""
    with httpx.Client(base_url=address, timeout=300, trust_env=False) as client:
        began = time.perf_counter()
        found = client.post("/api/v1/solve", json={"scenario": scenario(number)})
        return time.perf_counter() - began, found.status_code


def measure(service: Service) -> None:
    """Print the figures of a service that is ready and was asked nothing yet."""
    first, status = asked(service.address, AT_ONCE)
    print(f"first:   {first:.2f} s for the first answer, status {status} (aim: under 1 s)")
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda number: asked(service.address, number), range(AT_ONCE)))
    wall = time.perf_counter() - began
    seconds = sorted(taken for taken, _ in found)
    errors = sum(status != 200 for _, status in found)
    print(
        f"at once: {AT_ONCE} solves in {wall:.1f} s, {errors} errors; p50 {seconds[AT_ONCE // 2]:.1f} s, "
        f"p95 {seconds[int(AT_ONCE * 0.95)]:.1f} s, slowest {seconds[-1]:.1f} s; "
        f"{wall / AT_ONCE:.2f} s a solve (aim: no error)"
    )
    again, _ = asked(service.address, AT_ONCE)
    print(f"kept:    {again * 1e3:.0f} ms for a question that was answered before")
    sizes = [_resident_mib(pid) for pid in (service.process.pid, *service.children())]
    print(f"memory:  {sizes[0]:.0f} MiB the service, {max(sizes[1:]):.0f} MiB the largest of its processes")


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    """Run the measures."""
    flags = ("--workers", sys.argv[1]) if len(sys.argv) > 1 else ()
    began = time.perf_counter()
    with serving(*flags) as service:
        print(f"start:   {time.perf_counter() - began:.1f} s until it says it is ready")
        measure(service)


if __name__ == "__main__":
    main()
