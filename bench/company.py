"""Other processes on the CPUs, and this one on a part of them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager

SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
while True:
    pass
"""


def cpus() -> list[int]:
    """Return the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def company(cpu: int) -> Iterator[None]:
    """Have a process that does not rest on one CPU until the block is left."""
    command = [sys.executable, "-c", SPIN, str(cpu)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


@contextmanager
def restricted(allowed: Set[int]) -> Iterator[None]:
    """Let this thread, and processes that it starts, run on these CPUs until the block is left."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
