"""What `plan` does: buffers are arrays, views of the arena's bytes; launches run in order."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.ir import Operation

from lamina.dialects import plan, simt, tile
from lamina.dialects.dims import parse_dim
from lamina.dialects.tensors import extents
from lamina.dialects.tile import AnyKernelOp
from lamina.errors import LoweringError
from lamina.targets.reference.dtypes import Array, dtype_of
from lamina.targets.reference.interpreter import Interpreter, Meaning
from lamina.targets.reference.kernel import grid_of, run_programs
from lamina.targets.reference.nn import branch_of
from lamina.targets.reference.nn_values import bind_results, bind_values
from lamina.targets.reference.simt import run_blocks
from lamina.targets.reference.tile import poison
from lamina.targets.signature import tensor_of

Args = tuple[Any, ...]

_RESERVED: Final = 1 << 34
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)


def _alloc(run: Interpreter, op: plan.AllocOp | plan.ArenaOp, args: Args) -> tuple[Any]:
    kind = tensor_of(op.y.type)
    symbols = {name for extent in extents(kind) for name in extent.symbols}
    if isinstance(op, plan.ArenaOp) and not symbols <= run.extents.keys():
        # How large it becomes shows as the plan runs; addresses cost nothing.
        return (np.frombuffer(mmap.mmap(-1, _RESERVED, flags=_PRIVATE), np.uint8),)
    return (poison(kind, run.shape(kind)),)


def _view(run: Interpreter, op: plan.ViewOp, args: Args) -> tuple[Any]:
    kind, start = tensor_of(op.y.type), parse_dim(op.offset.data).evaluate(run.extents)
    shape, dtype = run.shape(kind), dtype_of(kind)
    memory = args[0].reshape(-1).view(np.uint8)
    end = plan.area_of(op.y).end.evaluate(run.extents) if prod(shape) else start
    if start < 0 or end > memory.size:
        raise LoweringError(
            f"plan.view of bytes {start} to {end} of a buffer of {memory.size} bytes"
        )
    stretch = memory[start:end].view(dtype)
    if op.columns is None or not stretch.size:
        return (stretch.reshape(shape),)
    strides = [s.evaluate(run.extents) * dtype.itemsize for s in plan.strides_of(op.y)]
    return (as_strided(stretch, shape, strides),)


def _launch(run: Interpreter, op: plan.LaunchOp, args: Args) -> tuple[()]:
    run.run_region(op.body)
    return ()


class Launched(NamedTuple):
    """A kernel, the values of its symbols, and the number of programs in each dimension."""

    kernel: AnyKernelOp
    values: Mapping[str, int]
    grid: tuple[int, ...]


def launched(run: Interpreter, op: plan.CallOp) -> Launched:
    """Return what a call runs; LoweringError if that is no kernel."""
    kernel = run.symbol(op.callee.string_value())
    if not isinstance(kernel, AnyKernelOp):
        raise LoweringError(f"plan.call of @{op.callee.string_value()}, which is no kernel")
    extents = (parse_dim(symbol.data).evaluate(run.extents) for symbol in op.symbols)
    values = dict(zip((name.data for name in kernel.symbols), extents, strict=True))
    return Launched(kernel, values, grid_of(kernel, {**run.extents, **values}))


def _call(run: Interpreter, op: plan.CallOp, args: Args) -> tuple[()]:
    kernel, values, grid = launched(run, op)
    _RUNNERS[type(kernel)](run, kernel, args, values, np.ndindex(*grid))
    return ()


_RUNNERS: dict[type[AnyKernelOp], Callable[..., None]] = {
    tile.KernelOp: run_programs,
    simt.KernelOp: run_blocks,
}
"""What runs the kernels of each level."""


def _switch(run: Interpreter, op: plan.SwitchOp, args: Args) -> tuple[()]:
    run.run_region(op.branches[branch_of(run, op.value.data, tile.values(op.bounds))])
    return ()


def _bind(run: Interpreter, op: plan.BindOp, args: Args) -> tuple[()]:
    bind_values(run, op, args[0])
    return ()


def _host(run: Interpreter, op: plan.HostOp, args: Args) -> tuple[()]:
    name = op.callee.string_value()
    count = len(run.symbol(name).regions[0].block.args)
    results = run.call(name, args[:count])
    if op.binds is not None:
        run.received = results
        run.learn(bind_results(run, name, results))
        return ()
    for buffer, result in zip(args[count:], results, strict=True):
        _put(buffer, result)
    return ()


def _receive(run: Interpreter, op: plan.ReceiveOp, args: Args) -> tuple[()]:
    for buffer, result in zip(args, run.received, strict=True):
        _put(buffer, result)
    return ()


def _put(buffer: Array, result: Array) -> None:
    if buffer is not result:
        buffer[...] = result


def _copy(run: Interpreter, op: plan.CopyOp, args: Args) -> tuple[()]:
    args[1][...] = args[0]
    return ()


MEANINGS: dict[type[Operation], Meaning] = {
    plan.AllocOp: _alloc,
    plan.ArenaOp: _alloc,
    plan.ViewOp: _view,
    plan.LaunchOp: _launch,
    plan.CallOp: _call,
    plan.SwitchOp: _switch,
    plan.BindOp: _bind,
    plan.HostOp: _host,
    plan.ReceiveOp: _receive,
    plan.CopyOp: _copy,
}
