"""Runs kernels as machine code, program by program, the way the launch loop does.

Code for AArch64 runs under an emulator elsewhere.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import pytest
from calling import GUARD, LINE, POISON, words
from emulator import Emulator

from lamina.dialects.tile import WORKERS, KernelOp
from lamina.targets.cpu.features import detect, levels
from lamina.targets.cpu.jit import LoadedCode, compile_text, load_object
from lamina.targets.cpu.lowering import KernelCode, NodeTable, emit_kernel
from lamina.targets.reference.kernel import grid_of

RunNative = Callable[..., str | None]


def aligned(size: int) -> tuple[np.ndarray, int]:
    """Return memory with a guard behind its `size` bytes, and its 64-byte aligned start."""
    memory = np.full(size + GUARD + LINE, POISON, np.uint8)
    return memory, -(-memory.ctypes.data // LINE) * LINE


@cache
def compiled(kernel: KernelOp, level: str | None) -> tuple[KernelCode, NodeTable, LoadedCode]:
    nodes, features = NodeTable(), detect(level)
    code = emit_kernel(kernel, features, nodes)
    return code, nodes, load_object(compile_text(code.text, features), [code.name])


@pytest.fixture(scope="session")
def emulator(
    needs: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Emulator]:
    """Return a function that gives the emulator, if its tools are there."""
    return cache(lambda: Emulator(needs, tmp_path_factory.mktemp("emulator")))


@pytest.fixture
def run_native(emulator: Callable[[], Emulator]) -> RunNative:
    """Return a function that runs a kernel in place and gives the node of a failed check."""

    def run(
        kernel: KernelOp,
        memrefs: Sequence[np.ndarray],
        symbols: Mapping[str, int],
        level: str | None = None,
        workers: int = 2,
    ) -> str | None:
        values = {**symbols, WORKERS: workers}
        if level in (None, *levels()):
            return run_here(kernel, memrefs, values, level)
        return emulator().run(kernel, memrefs, values, level)

    return run


def run_here(
    kernel: KernelOp,
    memrefs: Sequence[np.ndarray],
    values: Mapping[str, int],
    level: str | None,
) -> str | None:
    code, nodes, loaded = compiled(kernel, level)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(loaded.addresses[code.name])
    addresses = [array.ctypes.data for array in memrefs]
    args, error = words(kernel, memrefs, values, addresses), np.zeros(1, np.int32)
    memory, scratch = aligned(code.scratch_bytes)
    for program in np.ndindex(*grid_of(kernel, values)):
        ids = (*program, 0, 0)[:3]
        worker = np.array([*ids, scratch, error.ctypes.data], np.int64)
        call(args.ctypes.data, worker.ctypes.data)
    used = scratch - memory.ctypes.data + code.scratch_bytes
    assert (memory[used:] == POISON).all(), "the kernel wrote past its scratch memory"
    return nodes.names[error[0] - 1] if error[0] else None
