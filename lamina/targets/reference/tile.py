"""What `tile` computes: vectors are arrays, memrefs are arrays that programs read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute, Operation

from lamina.dialects import simt, tile
from lamina.errors import LaminaError
from lamina.targets.reference import numerics
from lamina.targets.reference.comparisons import COMPARISONS
from lamina.targets.reference.dtypes import Array, constant, dtype_of, is_float, unsigned
from lamina.targets.reference.interpreter import Interpreter, Meaning

Args = tuple[Any, ...]
_BF16 = np.dtype(ml_dtypes.bfloat16)


class _Place(NamedTuple):
    """What the text of a load or store says about the place of its tile."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    zipped: tuple[int, ...]
    limited: tuple[int, ...]
    in_bounds: tuple[int, ...]


def _read_place(op: tile.LoadOp | tile.StoreOp) -> _Place:
    return _Place(
        op.tile_shape,
        op.steps,
        tile.values(op.zip),
        tuple(op.limits),
        tile.values(op.in_bounds),
    )


def _limits(place: _Place, x: Array, limit: Args) -> list[int]:
    limits = list(x.shape)
    for d, bound in zip(place.limited, limit, strict=True):
        limits[d] = min(limits[d], int(bound))
    return limits


def _window(place: _Place, x: Array, at: Args, limits: list[int]) -> tuple[slice, ...] | None:
    """Return slices for a tile of scalar subscripts that lies wholly inside, else None."""
    slices: list[slice] = []
    for start, size, step, limit in zip(at, place.shape, place.steps, limits, strict=True):
        if isinstance(start, np.ndarray) or step < 1 or size == 0:
            return None
        end = int(start) + (size - 1) * step + 1
        if start < 0 or end > limit:
            return None
        slices.append(slice(int(start), end, step))
    return tuple(slices)


def _gather(
    op: Operation, place: _Place, x: Array, at: Args, limits: list[int]
) -> tuple[tuple[Array, ...], Array]:
    """Return a subscript array for each dimension of `x`, and where they are all inside."""
    inside = np.ones(place.shape, np.bool_)
    indices: list[Array] = []
    for d, start in enumerate(at):
        axis = place.zipped[0] if d in place.zipped else d
        index: Array = (
            start if np.ndim(start) else int(start) + np.arange(place.shape[d]) * place.steps[d]
        )
        kept = (index >= 0) & (index < limits[d])
        if d in place.in_bounds and not kept.all():
            raise LaminaError(
                f"{op.name} {tuple(place.shape)}: dimension {d} is said to be in bounds, but "
                f"{index[~kept][0]} is outside of [0, {limits[d]})"
            )
        along = [1] * x.ndim
        along[axis] = len(index)
        inside &= kept.reshape(along)
        indices.append(np.where(kept, index, 0).reshape(along))
    return tuple(indices), inside


def _load(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    place, rank = run.fact(op, _read_place), args[0].ndim
    x, at, limit = args[0], args[1 : 1 + rank], args[1 + rank :]
    shape, pad = run.fact(op, _read_result)
    limits = _limits(place, x, limit)
    window = _window(place, x, at, limits)
    if window is not None:
        return (np.array(x[window]).reshape(shape)[()],)
    indices, inside = _gather(op, place, x, at, limits)
    if not inside.any():
        return (np.full(shape, pad)[()],)
    return (numerics.choose(inside, x[indices], pad).reshape(shape)[()],)


def _read_result(op: tile.LoadOp) -> tuple[tuple[int, ...], Any]:
    return tile.shape_of(op.y.type), pad_of(op)


def pad_of(op: tile.LoadOp | simt.LoadOp) -> Any:
    """Return what a load gives for an element that it may not read."""
    return dtype_of(op.y.type).type(0) if op.pad is None else constant(op.pad, op.y.type)


def _store(run: Interpreter, op: Any, args: Args) -> tuple[()]:
    place = run.fact(op, _read_place)
    x, rank = args[1], args[1].ndim
    at, limit = args[2 : 2 + rank], args[2 + rank :]
    value = np.asarray(args[0]).reshape(place.shape)
    if not x.flags.writeable:
        raise LaminaError("tile.store writes a memref whose access is read")
    limits = _limits(place, x, limit)
    window = _window(place, x, at, limits)
    if window is not None:
        x[window] = value
        return ()
    indices, inside = _gather(op, place, x, at, limits)
    targets = tuple(index[inside] for index in np.broadcast_arrays(*indices))
    if run.fact(op, _read_unique):
        _check_unique(x, targets)
    x[targets] = value[inside]
    return ()


def _read_unique(op: tile.StoreOp) -> bool:
    return op.unique is not None


def _check_unique(x: Array, targets: tuple[Array, ...]) -> None:
    flat = np.ravel_multi_index(targets, x.shape) if targets[0].size else targets[0]
    if np.unique(flat).size != flat.size:
        raise LaminaError("tile.store is said to be unique, but stores one element twice")


class _Contraction(NamedTuple):
    """How a dot's operands become `[batch, m, k]` and `[batch, k, n]`."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    m: int
    k: int
    n: int
    batch: int
    unsigned: tuple[int, ...]


def _read_dot(op: tile.DotOp) -> _Contraction:
    a, b = tile.shape_of(op.a.type), tile.shape_of(op.b.type)
    contract, batch = tile.pairs(op.contract), tile.pairs(op.batch)
    used = (*batch, *contract)
    left = [d for d in range(len(a)) if d not in {i for i, _ in used}]
    right = [d for d in range(len(b)) if d not in {j for _, j in used}]
    return _Contraction(
        a=(*(i for i, _ in batch), *left, *(i for i, _ in contract)),
        b=(*(j for _, j in batch), *(j for _, j in contract), *right),
        m=int(np.prod([a[d] for d in left])),
        k=int(np.prod([a[i] for i, _ in contract])),
        n=int(np.prod([b[d] for d in right])),
        batch=int(np.prod([a[i] for i, _ in batch])),
        unsigned=tile.values(op.unsigned) or (0, 0),
    )


def _dot(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    how = run.fact(op, _read_dot)
    a, b, acc = args
    shape = acc.shape
    total = acc.reshape(how.batch, how.m, how.n)
    exact = is_float(a.dtype)
    a = a if exact or not how.unsigned[0] else unsigned(a)
    b = b if exact or not how.unsigned[1] else unsigned(b)
    a = a.transpose(how.a).reshape(how.batch, how.m, how.k).astype(np.float64)
    b = b.transpose(how.b).reshape(how.batch, how.k, how.n).astype(np.float64)
    if not exact:
        sums = np.matmul(a, b).astype(np.int64)
        return ((total + sums).astype(np.int32).reshape(shape),)
    for k in range(how.k):
        total = numerics.fma_step(a[:, :, k, None], b[:, k, None, :], total)
    return (total.reshape(shape),)


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add.reduce,
    "mul": np.multiply.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
}


def _reduce(run: Interpreter, op: Any, args: Args) -> tuple[Any, ...]:
    kind, dims = run.fact(op, _read_reduce)
    (x,) = args
    if kind not in ("argmax", "argmin"):
        return (_REDUCTIONS[kind](x, dims, dtype=x.dtype),)
    number = x.astype(np.float32) if x.dtype == _BF16 else x
    position = (np.argmax if kind == "argmax" else np.argmin)(number, dims[0])
    best = np.take_along_axis(x, np.expand_dims(position, dims[0]), dims[0]).squeeze(dims[0])
    return best[()], position.astype(np.int32)[()]


def _read_reduce(op: tile.ReduceOp) -> tuple[str, tuple[int, ...]]:
    return op.kind.data, tile.values(op.dims)


_SCANS: dict[str, Callable[..., Any]] = {
    "add": np.add.accumulate,
    "mul": np.multiply.accumulate,
    "max": np.maximum.accumulate,
    "min": np.minimum.accumulate,
}


def _scan(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    kind, dim = run.fact(op, _read_scan)
    (x,) = args
    return (_SCANS[kind](x, dim, dtype=x.dtype),)


def _read_scan(op: tile.ScanOp) -> tuple[str, int]:
    return op.kind.data, op.dim.value.data


def _cast(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    dtype, no_sign = run.fact(op, _read_cast)
    return (numerics.cast(args[0], dtype, no_sign=no_sign),)


def _read_cast(op: tile.CastOp) -> tuple[np.dtype[Any], bool]:
    return dtype_of(op.y.type), op.unsigned is not None


def _compare(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    kind, no_sign = run.fact(op, _read_compare)
    a, b = (unsigned(x) for x in args) if no_sign else args
    return (COMPARISONS[kind](a, b),)


def _read_compare(op: tile.CompareOp) -> tuple[str, bool]:
    return op.kind.data, op.unsigned is not None


def _select(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    c, a, b = args
    return (numerics.choose(c, a, b),) if np.ndim(c) else (a if c else b,)


def _broadcast(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    aligned, shape = run.fact(op, _read_broadcast)
    return (np.broadcast_to(args[0].reshape(aligned), shape),)


def _read_broadcast(op: tile.BroadcastOp) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = tile.shape_of(op.y.type)
    sizes = dict(zip(tile.values(op.dims), tile.shape_of(op.x.type), strict=True))
    return tuple(sizes.get(d, 1) for d in range(len(shape))), shape


def _transpose(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    return (args[0].transpose(run.fact(op, _read_perm)),)


def _read_perm(op: tile.TransposeOp) -> tuple[int, ...]:
    return tile.values(op.perm)


def _reshape(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    return (np.reshape(args[0], run.fact(op, _read_shape))[()],)


def _splat(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    return (np.full(run.fact(op, _read_shape), args[0]),)


def _read_shape(op: Operation) -> tuple[int, ...]:
    return tile.shape_of(op.results[0].type)


def _slice(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    return (args[0][run.fact(op, _read_slices)],)


def _read_slices(op: tile.SliceOp) -> tuple[slice, ...]:
    bounds = zip(tile.values(op.start), tile.shape_of(op.y.type), strict=True)
    return tuple(slice(start, start + size) for start, size in bounds)


def _join(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    return (np.concatenate(args, run.fact(op, _read_dim)),)


def _program_id(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    return (np.int64(run.place[run.fact(op, _read_dim)]),)


def _read_dim(op: tile.JoinOp | tile.ProgramIdOp) -> int:
    return op.dim.value.data


def _iota(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    return (run.fact(op, _read_iota),)


def _read_iota(op: tile.IotaOp) -> Array:
    return np.arange(tile.shape_of(op.y.type)[0]).astype(dtype_of(op.y.type))


def poison(type: Attribute, shape: tuple[int, ...]) -> Array:
    """Return memory that nobody has written: NaN, 0x7f in every byte of an integer, or true."""
    dtype = dtype_of(type)
    if is_float(dtype):
        return np.full(shape, np.nan).astype(dtype)
    if dtype == np.bool_:
        return np.ones(shape, np.bool_)
    return np.full((*shape, dtype.itemsize), 0x7F, np.uint8).view(dtype).reshape(shape)


def _scratch(run: Interpreter, op: tile.ScratchOp, args: Args) -> tuple[Any]:
    return (poison(op.y.type, op.y.type.get_shape()),)


def _prefetch(run: Interpreter, op: tile.PrefetchOp, args: Args) -> tuple[()]:
    return ()


def _check(run: Interpreter, op: tile.CheckOp, args: Args) -> tuple[()]:
    if run.failed is None and not np.all(args[0]):
        run.failed = op.node.data
    return ()


MEANINGS: dict[type[Operation], Meaning] = {
    tile.ProgramIdOp: _program_id,
    tile.LoadOp: _load,
    tile.PrefetchOp: _prefetch,
    tile.StoreOp: _store,
    tile.DotOp: _dot,
    tile.ReduceOp: _reduce,
    tile.ScanOp: _scan,
    tile.CastOp: _cast,
    tile.CompareOp: _compare,
    tile.SelectOp: _select,
    tile.BroadcastOp: _broadcast,
    tile.TransposeOp: _transpose,
    tile.ReshapeOp: _reshape,
    tile.SplatOp: _splat,
    tile.SliceOp: _slice,
    tile.JoinOp: _join,
    tile.IotaOp: _iota,
    tile.ScratchOp: _scratch,
    tile.CheckOp: _check,
}
