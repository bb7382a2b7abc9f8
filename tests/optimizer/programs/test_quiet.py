"""Standard output stays clean, whatever the solver writes below Python."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run(code: str, *, close_stdout: bool = False) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, its standard output piped or closed."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    if close_stdout:
        command = ["sh", "-c", 'exec "$0" "$@" >&-', *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


NOISE = """
import ctypes, os, sys, threading
from optimizer.programs.quiet import quiet_stdout
libc = ctypes.CDLL(None)
def noise():
    os.write(1, b"noise from a descriptor\\n")
    libc.puts(b"noise from C's buffer")
"""


def test_what_is_written_below_python_goes_nowhere_and_what_python_writes_stays():
    done = run(
        NOISE
        + """
print("before", end=" ")
with quiet_stdout():
    noise()
print("after")
"""
    )
    assert (done.stdout, done.returncode) == ("before after\n", 0)


def test_standard_output_is_restored_after_an_error():
    done = run(
        NOISE
        + """
try:
    with quiet_stdout():
        noise()
        raise ValueError
except ValueError:
    print("restored")
"""
    )
    assert done.stdout == "restored\n"


def test_threads_that_solve_at_once_restore_it_when_the_last_leaves():
    done = run(
        NOISE
        + """
gate = threading.Barrier(3)
def work(last):
    with quiet_stdout():
        gate.wait()
        noise()
        if last:
            done.wait()
        noise()
done = threading.Event()
threads = [threading.Thread(target=work, args=(last,)) for last in (False, False, True)]
for thread in threads: thread.start()
threads[0].join(); threads[1].join()
done.set()
threads[2].join()
print("restored")
"""
    )
    assert (done.stdout, done.stderr) == ("restored\n", "")


def test_a_closed_standard_output_is_no_error():
    done = run(
        NOISE
        + """
with quiet_stdout():
    pass
sys.stderr.write("done")
""",
        close_stdout=True,
    )
    assert (done.stderr, done.returncode) == ("done", 0)


def test_a_solve_prints_nothing():
    done = run("""
    import sys
    from optimizer.programs.fleet import cheapest_fleet
    from tests.optimizer.programs.fleet_oracle import draw_instance
    for seed in range(3):
        cheapest_fleet(draw_instance(seed, sites=3, kinds=12, classes=6, models=2, load=9, cap=50, gpus=(8,)))
    """)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
