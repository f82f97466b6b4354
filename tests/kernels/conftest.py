"""Runs kernels as machine code, program by program, the way the launch loop does."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import pytest
from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, StridedLayoutAttr

from lamina.dialects.tile import WORKERS, KernelOp
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.jit import LoadedCode, compile_text, load_object
from lamina.targets.cpu.lowering import KernelCode, NodeTable, emit_kernel
from lamina.targets.reference.kernel import grid_of

GUARD, POISON, LINE = 64, 0x5A, 64


RunNative = Callable[..., str | None]


def aligned(size: int) -> tuple[np.ndarray, int]:
    """Return memory with a guard behind its `size` bytes, and its 64-byte aligned start."""
    memory = np.full(size + GUARD + LINE, POISON, np.uint8)
    return memory, -(-memory.ctypes.data // LINE) * LINE


def words(
    kernel: KernelOp, memrefs: Sequence[np.ndarray], symbols: Mapping[str, int]
) -> np.ndarray:
    """Return a kernel's arguments as its calling convention has them."""
    found: list[int] = []
    for arg, array in zip(kernel.memrefs, memrefs, strict=True):
        extents, layout = arg.type.get_shape(), arg.type.layout
        found.append(array.ctypes.data)
        found += [n for e, n in zip(extents, array.shape, strict=True) if e == DYNAMIC_INDEX]
        if isinstance(layout, StridedLayoutAttr):
            strides = zip(layout.strides, array.strides, strict=True)
            found += [n // array.itemsize for s, n in strides if isinstance(s, NoneAttr)]
        else:
            assert array.flags.c_contiguous
    return np.array(found + [symbols[s.data] for s in kernel.symbols], np.int64)


@cache
def compiled(kernel: KernelOp, level: str | None) -> tuple[KernelCode, NodeTable, LoadedCode]:
    nodes, features = NodeTable(), detect(level)
    code = emit_kernel(kernel, features, nodes)
    return code, nodes, load_object(compile_text(code.text, features), [code.name])


@pytest.fixture
def run_native() -> RunNative:
    """Return a function that runs a kernel in place and gives the node of a failed check."""

    def run(
        kernel: KernelOp,
        memrefs: Sequence[np.ndarray],
        symbols: Mapping[str, int],
        level: str | None = None,
        workers: int = 2,
    ) -> str | None:
        code, nodes, loaded = compiled(kernel, level)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(loaded.addresses[code.name])
        values = {**symbols, WORKERS: workers}
        args, error = words(kernel, memrefs, values), np.zeros(1, np.int32)
        memory, scratch = aligned(code.scratch_bytes)
        for program in np.ndindex(*grid_of(kernel, values)):
            ids = (*program, 0, 0)[:3]
            worker = np.array([*ids, scratch, error.ctypes.data], np.int64)
            call(args.ctypes.data, worker.ctypes.data)
        used = scratch - memory.ctypes.data + code.scratch_bytes
        assert (memory[used:] == POISON).all(), "the kernel wrote past its scratch memory"
        return nodes.names[error[0] - 1] if error[0] else None

    return run
