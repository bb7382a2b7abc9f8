"""Ctrl-C while the solver runs, in a process of several threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Signals come from another process, so that any thread of this one may get them.
SOLVES = """
import os, signal, threading, time
from optimizer.programs.layout import Choice, Demand, cheapest
signal.signal(signal.SIGINT, signal.SIG_IGN)
threading.Thread(target=lambda: [time.sleep(0.001) for _ in iter(int, 1)], daemon=True).start()
solving = os.getpid()
if not (sender := os.fork()):
    while os.getppid() == solving:
        os.kill(solving, signal.SIGINT)
        time.sleep(0.0005)
    os._exit(0)
for _ in range(150):
    cheapest([Choice(3, 2, 1, 10, 1_000_000 + rank, rank) for rank in range(30)], Demand())
os.kill(sender, signal.SIGKILL)
print("solved")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX signals")
def test_a_process_that_ignores_ctrl_c_goes_on_solving() -> None:
    ran = subprocess.run([sys.executable, "-c", SOLVES], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "solved\n", "")
