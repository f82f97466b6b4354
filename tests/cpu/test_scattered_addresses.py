"""Code loads where little holes among huge mappings are all the addresses that are near."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOFTMAX = Path(__file__).parents[2] / "examples/softmax.mlir"

HOLES = """
import ctypes, sys

import lamina, numpy

c = ctypes.CDLL(None)
c.mmap.restype = ctypes.c_void_p
c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
NOTHING_BEHIND = 0x4022

def reserve(size):
    return c.mmap(None, size, 0, NOTHING_BEHIND, -1, 0)

for size in (1 << bits for bits in (24, 20, 16, 14, 12)):
    last, together = 0, 0
    while together < 20:
        place = reserve(size)
        last, together = place, together + 1 if last - place == size else 0
first = reserve(128 << 32)
for n in range(128):
    assert c.munmap(first + (n << 32), (n % 8 + 1) << 12) == 0
"""

RUN = """
model = lamina.compile(lamina.read(sys.argv[1]))
y = model(x=numpy.zeros((3, 64), numpy.float32))["y"]
assert (y == 1 / 64).all()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's choice of addresses is Linux's")
def test_a_compiled_model_loads_among_huge_mappings(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, _, err = command("compile", SOFTMAX, "-o", tmp_path / "softmax.lamina")
    assert not code, err
    program = [sys.executable, "-c", HOLES + RUN, tmp_path / "softmax.lamina"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
