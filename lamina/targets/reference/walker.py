"""Walk a plan here and run its kernels as native code: what a target that compiles kernels needs.

A native kernel is `void kernel(const int64_t *words, int32_t *error)`. It runs every program of its
grid. The words are the grid's three extents, then for each memref its address, its extents and its
strides in elements, then the kernel's indices. A check that does not hold puts its node's number,
counted from 1, into `error` if that is 0.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from lamina.dialects.plan import CallOp
from lamina.dialects.text import parse_module
from lamina.dialects.tile import AnyKernelOp
from lamina.targets.base import Array
from lamina.targets.known import KNOWN
from lamina.targets.reference.executable import ReferenceExecutable
from lamina.targets.reference.interpreter import Interpreter
from lamina.targets.reference.plan import launched

NativeKernel = Callable[[ctypes.c_void_p, ctypes.c_void_p], Any]
"""A function of `ctypes`."""

_GRID = 3


def outline_of(module: ModuleOp) -> bytes:
    """Return the text of a planned module whose kernels have no bodies."""
    outline = module.clone()
    for kernel in outline.ops:
        if isinstance(kernel, AnyKernelOp):
            block = kernel.body.block
            for op in reversed(list(block.ops)[:-1]):
                block.erase_op(op)
    return str(outline).encode()


def walk(
    outline: bytes,
    weights: Mapping[str, Any],
    kernels: Sequence[NativeKernel],
    nodes: Sequence[str],
) -> ReferenceExecutable:
    """Return what runs the plan of `outline`, given its kernels in order and the checks' nodes."""
    module = parse_module(KNOWN.context(), outline.decode(), "the artifact's plan")
    order = [kernel for kernel in module.ops if isinstance(kernel, AnyKernelOp)]
    natives = dict(zip(order, kernels, strict=True))

    def call(run: Interpreter, op: CallOp, buffers: tuple[Array, ...]) -> tuple[()]:
        kernel, values, grid = launched(run, op)
        failed = call_native(natives[kernel], grid, buffers, list(values.values()))
        if failed and run.failed is None:
            run.failed = nodes[failed - 1]
        return ()

    return ReferenceExecutable(module, weights, {CallOp: call})


def call_native(
    kernel: NativeKernel, grid: Sequence[int], memrefs: Sequence[Array], indices: Sequence[int]
) -> int:
    """Run a kernel; return the number of a check that did not hold, 0 if all did."""
    words = [*grid, *[1] * (_GRID - len(grid))]
    for memref in memrefs:
        strides = (stride // memref.itemsize for stride in memref.strides)
        words += [memref.ctypes.data, *memref.shape, *strides]
    given, error = np.array([*words, *indices], np.int64), np.zeros(1, np.int32)
    kernel(ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(error.ctypes.data))
    return int(error[0])
