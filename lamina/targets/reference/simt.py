"""What `simt` does: all threads of a block take each step at once, and no two may meet.

A thread's scalar is an array [threads], a vector of R registers an array [threads, R]; what is the
same in all threads may be one scalar, or an array [1, R].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith as arith_ops
from xdsl.dialects import scf as scf_ops
from xdsl.ir import Operation

from lamina.dialects import simt, tile
from lamina.dialects.layouts import SUBGROUP, Fragments, Layout
from lamina.dialects.tile import WORKERS
from lamina.targets.reference import (
    arith,
    math,
    numerics,
    scf,
    simt_mbarriers,
    simt_warpgroups,
)
from lamina.targets.reference import tile as tiles
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Interpreter, Meaning, Program, quiet
from lamina.targets.reference.kernel import arrays_of, indices_of, programs_of
from lamina.targets.reference.simt_atomics import atomic, threads_of
from lamina.targets.reference.simt_memory import memories, workgroup
from lamina.targets.reference.thread_block import ThreadBlock
from lamina.targets.reference.tile import poison

Args = tuple[Any, ...]

REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
"""How integers become one."""


def run_simt_kernel(
    kernel: simt.KernelOp,
    memrefs: Sequence[Array],
    symbols: Mapping[str, int],
    workers: int = 2,
    *,
    seed: int | None = None,
) -> None:
    """Run every block of the grid, in ascending order, or in one that `seed` shuffles.

    `memrefs` are changed in place; views with strides stand for strided memrefs. InputError as
    from `run_kernel`. LaminaError if two threads of a block touch an element without a barrier
    between, or two blocks do, one of them writing; if an element is outside; or if a condition or
    bound differs between threads.
    """
    values = {**symbols, WORKERS: workers}
    run = Interpreter(Program({}))
    run_blocks(run, kernel, memrefs, values, programs_of(kernel, values, seed))
    run.finish()


def run_blocks(
    run: Interpreter,
    kernel: simt.KernelOp,
    memrefs: Sequence[Array],
    values: Mapping[str, int],
    blocks: Iterable[tuple[int, ...]],
) -> None:
    """Run some blocks of a kernel in the given order; a failed check is left in `run.failed`."""
    arrays = arrays_of(kernel, memrefs)
    arguments = [*memories(kernel, arrays), *indices_of(kernel, values)]
    inner = ThreadBlock(run.fact(kernel, _program_of), kernel)
    inner.fail(run.failed)
    with quiet():
        for block in blocks:
            inner.run_at(tuple(int(i) for i in block), arguments)
    run.failed = inner.failure()


def _program_of(kernel: simt.KernelOp) -> Program:
    return Program(IN_KERNELS)


def _load(run: ThreadBlock, op: simt.LoadOp, args: Args) -> tuple[Any]:
    memory, at, *masks = args
    shape = np.broadcast_shapes(*(np.shape(x) for x in args[1:]))
    if memory.races is not None:
        shape = (len(run.threads), *shape[1:])
    places = np.broadcast_to(at, shape)
    kept = np.broadcast_to(masks[0] if masks else True, shape)
    _check_runs(run, op, places, kept)
    if not masks:
        run.touch(op, memory, places.reshape(-1), threads_of(run, shape), "read")
        return (memory.elements[places],)
    value = np.full(shape, run.fact(op, tiles.pad_of))
    run.touch(op, memory, places[kept], threads_of(run, shape)[kept.reshape(-1)], "read")
    value[kept] = memory.elements[places[kept]]
    return (value[()],)


def _store(run: ThreadBlock, op: simt.StoreOp, args: Args) -> tuple[()]:
    value, memory, at, *masks = args
    if not memory.elements.flags.writeable:
        raise run.error(op, "it writes a memref whose access is read")
    shape = (len(run.threads), *np.shape(at)[1:])
    places, value = np.broadcast_to(at, shape), np.broadcast_to(value, shape)
    kept = np.broadcast_to(masks[0] if masks else True, shape)
    _check_runs(run, op, places, kept)
    run.touch(op, memory, places[kept], threads_of(run, shape)[kept.reshape(-1)], "write")
    memory.elements[places[kept]] = value[kept]
    return ()


def _load_matrix(run: ThreadBlock, op: simt.LoadMatrixOp, args: Args) -> tuple[Any]:
    memory, at = args
    count = op.count.value.data
    rows = np.broadcast_to(at, (len(run.threads), at.shape[1]))
    rows = rows.reshape(-1, SUBGROUP, rows.shape[1])[:, : 8 * count]
    if (rows % 8).any():
        raise run.error(op, "a row of a matrix does not begin at a multiple of 8 elements")
    row, column = np.divmod(np.arange(64), 8)
    # [subgroup, row or column, two of the other, load, matrix]
    places = rows.reshape(len(rows), count, 8, -1)[:, :, row] + column[None, None, :, None]
    places = places.reshape(len(rows), count, 8, 8, -1)
    if op.transposed is not None:
        places = places.transpose(0, 1, 3, 2, 4)
    pairs = places.reshape(len(rows), count, SUBGROUP, 2, -1).transpose(0, 2, 4, 1, 3)
    wanted = pairs.reshape(len(run.threads), -1)
    run.touch(op, memory, wanted.reshape(-1), threads_of(run, wanted.shape), "read")
    return (memory.elements[wanted],)


def _copy_async(run: ThreadBlock, op: simt.CopyAsyncOp, args: Args) -> tuple[()]:
    source, at, memory, to, *masks = args
    shape = (len(run.threads), *tile.shape_of(op.at.type))
    places, targets = np.broadcast_to(at, shape), np.broadcast_to(to, shape)
    kept = np.broadcast_to(masks[0] if masks else True, shape)
    for numbers in (places, targets):
        _check_runs(run, op, numbers, kept)
    threads = threads_of(run, shape)
    run.touch(op, source, places[kept], threads[kept.reshape(-1)], "read")
    run.touch(op, memory, targets.reshape(-1), threads, "write")
    value = np.zeros(shape, source.elements.dtype)
    value[kept] = source.elements[places[kept]]
    memory.elements[targets] = poison(tile.element_of(op.m.type), ())
    run.copies[-1].append((op, memory, targets, value.view(memory.elements.dtype)))
    return ()


def _commit(run: ThreadBlock, op: simt.CommitOp, args: Args) -> tuple[()]:
    run.copies.append([])
    return ()


def _wait(run: ThreadBlock, op: simt.WaitOp, args: Args) -> tuple[()]:
    left = op.pending.value.data + 1
    done, run.copies = run.copies[:-left], run.copies[-left:]
    for copy, memory, targets, value in (each for group in done for each in group):
        run.touch(copy, memory, targets.reshape(-1), threads_of(run, targets.shape), "write")
        memory.elements[targets] = value
    return ()


def _check_runs(
    run: ThreadBlock, op: simt.LoadOp | simt.StoreOp | simt.CopyAsyncOp, places: Array, kept: Array
) -> None:
    """Raise LaminaError if registers that are said to be neighbours in memory are not."""
    size = run.fact(op, _read_run)
    if size == 1:
        return
    places, kept = places.reshape(-1, size), kept.reshape(-1, size)
    first = places[:, :1]
    follow = (first % size == 0) & (places == first + np.arange(size))
    broken = ((kept != kept[:, :1]) | (kept & ~follow)).any(1)
    if broken.any():
        n = int(broken.argmax())
        raise run.error(op, f"places {places[n]} under the mask {kept[n]} are no run of {size}")


def _read_run(op: simt.LoadOp | simt.StoreOp | simt.CopyAsyncOp) -> int:
    return 1 if op.run is None else op.run.value.data


def _thread_id(run: ThreadBlock, op: simt.ThreadIdOp, args: Args) -> tuple[Any]:
    return (run.threads,)


def _error_word(run: ThreadBlock, op: simt.ErrorWordOp, args: Args) -> tuple[Any]:
    return (run.error_word,)


def _node(run: ThreadBlock, op: simt.NodeOp, args: Args) -> tuple[Any]:
    return (np.int32(run.nodes.number(op.node.data)),)


def _memory(run: ThreadBlock, op: simt.MemoryOp, args: Args) -> tuple[Any]:
    return (workgroup(cast("Any", op.y.type)),)


def _extent(run: ThreadBlock, op: simt.ExtentOp, args: Args) -> tuple[Any]:
    return (np.int64(args[0].shape[op.dim.value.data]),)


def _stride(run: ThreadBlock, op: simt.StrideOp, args: Args) -> tuple[Any]:
    return (np.int64(args[0].strides[op.dim.value.data]),)


def _barrier(run: ThreadBlock, op: simt.BarrierOp, args: Args) -> tuple[()]:
    run.interval += 1
    return ()


def _shuffle(run: ThreadBlock, op: simt.ShuffleOp, args: Args) -> tuple[Any]:
    (x,) = args
    return (x if _is_one(x) else x[run.threads ^ op.xor.value.data],)


def _reduce(run: ThreadBlock, op: simt.SubgroupReduceOp, args: Args) -> tuple[Any]:
    size, count = run.fact(op, _read_cluster), len(run.threads)
    held = np.broadcast_to(_columns(args[0]), (count, *_columns(args[0]).shape[1:]))
    clusters = held.reshape(count // size, size, -1)
    whole = REDUCTIONS[op.kind.data].reduce(clusters, axis=1, dtype=held.dtype)
    return (whole.repeat(size, axis=0).reshape(count, *tile.shape_of(op.y.type)),)


def _read_cluster(op: simt.SubgroupReduceOp) -> int:
    return op.size


def _is_one(x: Any) -> bool:
    """Tell whether a value is there once, for all threads."""
    return not np.ndim(x) or len(x) == 1


def _pick(run: ThreadBlock, op: simt.PickOp, args: Args) -> tuple[Any]:
    picked = args[0][:, list(run.fact(op, _read_picked))]
    if tile.shape_of(op.y.type):
        return (picked,)
    return (picked[0, 0] if _is_one(picked) else picked[:, 0],)


def _read_picked(op: simt.PickOp) -> tuple[int, ...]:
    return tile.values(op.at)


def _join(run: ThreadBlock, op: simt.JoinOp, args: Args) -> tuple[Any]:
    parts = [_columns(x) for x in args]
    rows = max(len(x) for x in parts)
    return (np.concatenate([np.broadcast_to(x, (rows, x.shape[1])) for x in parts], 1),)


def _columns(x: Any) -> Array:
    return x if np.ndim(x) > 1 else np.reshape(x, (-1, 1))


def _multiply(run: ThreadBlock, op: simt.MultiplyAccumulateOp, args: Args) -> tuple[Any]:
    how = Fragments.of(16, 8, op.depth, 64 // op.depth * 4, SUBGROUP)
    assert how is not None
    a, b, c = (np.broadcast_to(x, (len(run.threads), x.shape[1])) for x in args)
    no_sign = tile.values(op.unsigned) or (0, 0)
    a, b = (_multiplied(x, no_sign=bool(each)) for x, each in zip((a, b), no_sign, strict=True))
    left = _matrix(a, how.left(how.k, 1), (16, how.k))
    right = _matrix(b, how.right(8, 1), (how.k, 8))
    total = left @ right + _matrix(c, how.sums(), (16, 8))
    flat = total.reshape(len(total), -1)[:, how.sums().table(SUBGROUP)]
    return (flat.reshape(c.shape).astype(c.dtype),)


def _multiplied(x: Array, *, no_sign: bool) -> Array:
    """Return what a matrix unit takes of numbers: of f32, 10 bits of the fraction."""
    return numerics.tf32(x) if x.dtype == np.float32 else numerics.unsigned(x) if no_sign else x


def _matrix(x: Array, layout: Layout, shape: tuple[int, int]) -> Array:
    """Return the matrix of each subgroup from its threads' registers, exact enough to add in."""
    wide = np.int64 if x.dtype.kind in "iu" else np.float64
    matrix = np.zeros((len(x) // SUBGROUP, shape[0] * shape[1]), wide)
    matrix[:, layout.table(SUBGROUP)] = x.reshape(-1, SUBGROUP, x.shape[1]).astype(wide)
    return matrix.reshape(-1, *shape)


def _uniform(run: ThreadBlock, op: simt.UniformOp, args: Args) -> tuple[Any]:
    return (run.steady(op, args[0]),)


def _constant(run: ThreadBlock, op: Any, args: Args) -> tuple[Any]:
    (value,) = arith.MEANINGS[arith_ops.ConstantOp](run, op, args)
    return (value[None] if np.ndim(value) else value,)


def _splat(run: ThreadBlock, op: tile.SplatOp, args: Args) -> tuple[Any]:
    column = _columns(args[0])
    return (np.broadcast_to(column, (len(column), *tile.shape_of(op.y.type))),)


def _select(run: ThreadBlock, op: Any, args: Args) -> tuple[Any]:
    c, a, b = args
    return (numerics.choose(_columns(c) if np.ndim(a) > 1 else c, a, b),)


def _for(run: ThreadBlock, op: Any, args: Args) -> Sequence[Any]:
    bounds = tuple(run.steady(op, x) for x in args[:3])
    return scf.MEANINGS[scf_ops.ForOp](run, op, (*bounds, *args[3:]))


def _if(run: ThreadBlock, op: Any, args: Args) -> Sequence[Any]:
    return scf.MEANINGS[scf_ops.IfOp](run, op, (run.steady(op, args[0]),))


MEANINGS: dict[type[Operation], Meaning] = cast(
    "Any",
    {
        simt.ThreadIdOp: _thread_id,
        simt.MemoryOp: _memory,
        simt.ExtentOp: _extent,
        simt.StrideOp: _stride,
        simt.LoadOp: _load,
        simt.StoreOp: _store,
        simt.AtomicOp: atomic,
        simt.BarrierOp: _barrier,
        simt.CommitOp: _commit,
        simt.CopyAsyncOp: _copy_async,
        simt.LoadMatrixOp: _load_matrix,
        simt.MultiplyAccumulateOp: _multiply,
        simt.ErrorWordOp: _error_word,
        simt.NodeOp: _node,
        simt.WaitOp: _wait,
        **simt_mbarriers.MEANINGS,
        **simt_warpgroups.MEANINGS,
        simt.ShuffleOp: _shuffle,
        simt.SubgroupReduceOp: _reduce,
        simt.PickOp: _pick,
        simt.JoinOp: _join,
        simt.UniformOp: _uniform,
    },
)
"""What the operations of the dialect do; each is run by a `ThreadBlock`."""

ELEMENTWISE: tuple[type[Operation], ...] = (
    tile.ProgramIdOp,
    tile.CastOp,
    tile.CompareOp,
)
"""Operations of `tile` that mean the same to the threads of a block."""

IN_KERNELS: dict[type[Operation], Meaning] = cast(
    "Any",
    {
        **arith.MEANINGS,
        **math.MEANINGS,
        **{kind: tiles.MEANINGS[kind] for kind in ELEMENTWISE},
        arith_ops.ConstantOp: _constant,
        arith_ops.SelectOp: _select,
        tile.SplatOp: _splat,
        tile.SelectOp: _select,
        scf_ops.ForOp: _for,
        scf_ops.IfOp: _if,
        **MEANINGS,
    },
)
"""What every operation of a kernel means."""
