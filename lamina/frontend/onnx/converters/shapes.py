"""Operators that move elements: shapes, slices, rows and pads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from lamina.dialects import nn
from lamina.dialects.bounds import proves_at_most
from lamina.dialects.dims import Dim, product
from lamina.frontend.onnx.kinds import FLOAT, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.tensors import TensorReader
from lamina.frontend.onnx.values import Known, Tensor

_MOST_BACK: Final = -(1 << 31)


@converts("Reshape")
def reshape(node: Node) -> Tensor:
    """The same elements under another shape: -1 for what is left, 0 for what was there."""
    x = node.x()
    wanted = [Dim.of(n) for n in node.get_ints("shape")] if node.given("shape") else node.dims(1)
    if not node.get_int("allowzero", 0):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    left = [i for i, n in enumerate(wanted) if n == -1]
    if len(left) > 1:
        raise node.fault("more than one extent is -1")
    total = product(x.shape)
    if left:
        rest = product([n for n in wanted if n != -1])
        wanted[left[0]] = _quotient(node, total, rest)
    if product(wanted) == total:
        return node.reshape(x, wanted)
    node.assume(total, product(wanted))
    return node.add(nn.ReshapeOp(x.value, wanted, assumed=True), x.kind)


def _quotient(node: Node, total: Dim, rest: Dim) -> Dim:
    """Return total / rest: without a division where one of them is seen to be a factor."""
    if rest.constant == 0:
        return Dim.of(0)
    if rest.constant is not None or not rest.terms:
        return total // rest
    d, others = rest.terms[0]
    for c, atoms in total.terms:
        remaining = list(atoms)
        if c % d or any(atoms.count(atom) < others.count(atom) for atom in others):
            continue
        for atom in others:
            remaining.remove(atom)
        found = product([Dim.of(c // d), *(_dim_of(atom) for atom in remaining)])
        if found * rest == total:
            return found
    return total // rest


def _dim_of(atom: Any) -> Dim:
    if isinstance(atom, str):
        return Dim.symbol(atom)
    name, a, b = atom
    return Dim.of(f"{name}({a}, {b})")


@converts("Flatten")
def flatten(node: Node) -> Tensor:
    """Two dimensions: those before an axis, and the rest."""
    x = node.x()
    rank = len(x.shape)
    axis = node.get_int("axis", 1)
    axis = axis + rank if axis < 0 else axis
    return node.reshape(x, [product(x.shape[:axis]), product(x.shape[axis:])])


@converts("Squeeze")
def squeeze(node: Node) -> Tensor:
    """Without dimensions of one element."""
    x = node.x()
    axes = node.axes(1, len(x.shape))
    if axes is None:
        axes = [d for d, n in enumerate(x.shape) if n == 1]
        y = node.reshape(x, [n for n in x.shape if n != 1])
        unsure = tuple(d for d, n in enumerate(y.shape) if n.constant is None)
        node.graph.dropped |= {y.value: unsure} if unsure else {}
        return y
    for d in axes:
        node.assume(x.shape[d], Dim.of(1))
    shape = [n for d, n in enumerate(x.shape) if d not in axes]
    if product(shape) == product(x.shape):
        return node.reshape(x, shape)
    return node.add(nn.ReshapeOp(x.value, shape, assumed=True), x.kind)


@converts("Unsqueeze")
def unsqueeze(node: Node) -> Tensor:
    """With dimensions of one element."""
    x = node.x()
    count = len(node.get_ints("axes")) if node.given("axes") else node.known(1).size
    axes = node.axes(1, len(x.shape) + count) or []
    rest = iter(x.shape)
    rank = len(x.shape) + count
    return node.reshape(x, [Dim.of(1) if d in axes else next(rest) for d in range(rank)])


@converts("Transpose")
def transpose(node: Node) -> Tensor:
    """Dimensions in another order."""
    x = node.x()
    return node.transpose(x, node.get_ints("perm", range(len(x.shape))[::-1]))


@converts("Expand")
def expand(node: Node) -> Tensor:
    """Elements repeated to a shape, both ways."""
    x = node.x()
    return node.broadcast_to(x, node.common_shape([x.shape, tuple(node.dims(1))]))


@converts("Tile")
def tile(node: Node) -> Tensor:
    """A tensor beside itself."""
    return repeated(node, node.x(), node.dims(1))


def repeated(node: Node, x: Tensor, repeats: Sequence[Dim]) -> Tensor:
    """Return a tensor beside itself, so often along each dimension."""
    wide = [n for r, e in zip(repeats, x.shape, strict=True) for n in (r, e)]
    spread = node.along(x, range(1, 2 * len(x.shape), 2), wide)
    return node.reshape(spread, [r * e for r, e in zip(repeats, x.shape, strict=True)])


@converts("Concat")
def concat(node: Node) -> Tensor:
    """Tensors one after another."""
    xs = node.xs()
    return node.concat(xs, node.axis(node.get_int("axis", 1), len(xs[0].shape)))


@converts("Split", since=2)
def split(node: Node) -> list[Tensor]:
    """Parts of a tensor, of given sizes or all alike."""
    x = node.x()
    axis = node.axis(node.get_int("axis", 0), len(x.shape))
    count = len(node.proto.output)
    if node.given("split"):
        sizes = [Dim.of(n) for n in node.get_ints("split")]
    elif node.has(1):
        sizes = node.dims(1)
    else:
        if node.get_int("num_outputs", count) != count:
            raise node.fault(f"attribute num_outputs: expected the {count} that there are")
        size = x.shape[axis].ceildiv(count)
        sizes = [size] * (count - 1) + [x.shape[axis] - size * (count - 1)]
    return parts_of(node, x, axis, sizes)


def parts_of(node: Node, x: Tensor, axis: int, sizes: Sequence[Dim]) -> list[Tensor]:
    """Return parts along an axis, one after another."""
    parts, start = list[Tensor](), Dim.of(0)
    for size in sizes:
        parts.append(node.part(x, axis, start, size))
        start = start + size
    return parts


@converts("Slice", since=1)
def slice_fixed(node: Node) -> Tensor:
    """Ranges of indices that are attributes."""
    starts, ends = node.get_ints("starts"), node.get_ints("ends")
    axes = node.get_ints("axes", range(len(starts)))
    return _sliced(node, [Dim.of(n) for n in starts], [Dim.of(n) for n in ends], axes, None)


@converts("Slice", since=10)
def slice_given(node: Node) -> Tensor:
    """Ranges of indices that are inputs."""
    starts, ends = node.dims(1), node.dims(2)
    axes = node.integers(3) if node.has(3) else list(range(len(starts)))
    steps = node.integers(4) if node.has(4) else None
    return _sliced(node, starts, ends, axes, steps)


def _sliced(
    node: Node, starts: list[Dim], ends: list[Dim], axes: list[int], steps: list[int] | None
) -> Tensor:
    x = node.x()
    first: list[Dim | int] = [0] * len(x.shape)
    shape: list[Dim | int] = list(x.shape)
    stride = [1] * len(x.shape)
    for i, axis in enumerate(axes):
        d, step = node.axis(axis, len(x.shape)), steps[i] if steps else 1
        if step == 0:
            raise node.fault("a step is 0")
        first[d], shape[d] = _range(x.shape[d], starts[i], ends[i], step)
        stride[d] = step
    return node.slice(x, first, shape, stride if any(s != 1 for s in stride) else ())


def _range(n: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """Return the first index and the number of indices of a range of `n`."""
    if step > 0:
        low, high = _cut(start, n, 0), _cut(end, n, 0)
        return low, _at_least_none(high - low).ceildiv(step)
    high, low = _cut(start, n, -1), _cut(end, n, -1)
    return high, _at_least_none(high - low).ceildiv(-step)


def _cut(place: Dim, n: Dim, lowest: int) -> Dim:
    """Return a place counted from the start, cut to [lowest, n + lowest]."""
    constant = place.constant
    if constant is not None and constant < 0:
        if constant <= _MOST_BACK:
            return Dim.of(lowest)
        place = n + constant
    elif constant is None and is_negative(place):
        place = place + n
    elif constant is not None and constant >= -_MOST_BACK - 1:
        return n + lowest
    top = n + lowest
    if not proves_at_most(place, top):
        place = top if proves_at_most(top, place) else place.minimum(top)
    if not proves_at_most(Dim.of(lowest), place):
        place = Dim.of(lowest) if proves_at_most(place, Dim.of(lowest)) else place.maximum(lowest)
    return place


def is_negative(place: Dim) -> bool:
    """Whether a place is below 0, whatever symbols stand for."""
    return proves_at_most(place, Dim.of(-1))


def _at_least_none(n: Dim) -> Dim:
    if proves_at_most(Dim.of(0), n):
        return n
    return Dim.of(0) if proves_at_most(n, Dim.of(0)) else n.maximum(0)


@converts("Gather")
def gather(node: Node) -> Tensor:
    """Rows of a tensor along an axis."""
    x, indices = node.x(0), node.value(1)
    axis = node.axis(node.get_int("axis", 0), len(x.shape))
    if not indices.kind.is_integer:
        raise node.fault(f"indices of {indices.kind.name}")
    if isinstance(indices, Known) and indices.array.size == 1:
        index = Dim.of(indices.array.ravel().tolist()[0])
        return _one_row(node, x, axis, index, indices.array.ndim)
    return node.gather(x, node.tensor(indices), axis)


def _one_row(node: Node, x: Tensor, axis: int, index: Dim, rank: int) -> Tensor:
    n = x.shape[axis]
    index = index + n if is_negative(index) else index
    if (
        index.constant is not None
        and n.constant is not None
        and not 0 <= index.constant < n.constant
    ):
        raise node.fault(f"index {index} of an axis of {n}")
    row = node.part(x, axis, index, 1)
    return node.reshape(row, [*x.shape[:axis], *[1] * rank, *x.shape[axis + 1 :]])


def extent_like(node: Node, n: Dim, like: Tensor) -> Tensor:
    """Return an extent as integers like others."""
    if n.constant is not None:
        return node.like(n.constant, like)
    return node.broadcast_to(node.extents([n], like.kind), like.shape)


@converts("Range")
def count_up(node: Node) -> Tensor:
    """Numbers from a start on, by a step, below a limit."""
    kind = node.value(0).kind
    if kind.is_float:
        start, limit, delta = (float(node.number(i)) for i in range(3))
        count = Dim.of(max(0, int(np.ceil((limit - start) / delta))))
        places = node.cast(node.iota(0, [count]), kind)
        return node.scaled(nn.AddOp, node.scaled(nn.MulOp, places, delta), start)
    (start,), (limit,), delta = node.dims(0), node.dims(1), int(node.number(2))
    span = limit - start if delta > 0 else start - limit
    count = _at_least_none(span).ceildiv(abs(delta))
    places = node.iota(0, [count], kind)
    places = places if delta == 1 else node.scaled(nn.MulOp, places, delta)
    return places if start == 0 else node.binary(nn.AddOp, places, extent_like(node, start, places))


@converts("ConstantOfShape")
def constant_of_shape(node: Node) -> Tensor:
    """A tensor of one value."""
    shape = node.dims(0)
    if any(n.constant is not None and n.constant < 0 for n in shape):
        raise node.fault(f"a negative extent in [{', '.join(map(str, shape))}]")
    return filled(node, shape)


def filled(node: Node, shape: Sequence[Dim]) -> Tensor:
    """Return a tensor of the value that a node has, or of 0."""
    if not node.given("value"):
        return node.full(0.0, FLOAT, shape)
    proto = node.attribute("value").t
    reader = TensorReader(node.where, None)
    array, _ = reader.array(proto, "value")
    return node.full(array.ravel()[0], reader.kind(proto.data_type, "value"), shape)


@converts("EyeLike")
def eye_like(node: Node) -> Tensor:
    """Ones on a diagonal."""
    x = node.value(0)
    kind = node.get_kind("dtype", x.kind.number)
    rows, columns = node.iota(0, x.shape), node.iota(1, x.shape)
    moved = node.scaled(nn.AddOp, rows, node.get_int("k", 0))
    return node.cast(node.compare("eq", moved, columns), kind)


@converts("Trilu", since=14)
def triangle(node: Node) -> Tensor:
    """The part of matrices on one side of a diagonal."""
    x = node.x()
    k = int(node.number(1, 0))
    return one_side(node, x, lambda rows: node.scaled(nn.AddOp, rows, k))


def one_side(node: Node, x: Tensor, moved: Callable[[Tensor], Tensor]) -> Tensor:
    """Return matrices with 0 on one side of a diagonal, which is at `moved` of a row's index."""
    rank = len(x.shape)
    rows, columns = node.iota(rank - 2, x.shape), node.iota(rank - 1, x.shape)
    kept = node.compare("ge" if node.get_int("upper", 1) else "le", columns, moved(rows))
    return node.select(kept, x, node.like(0, x))


@converts("DepthToSpace")
def depth_to_space(node: Node) -> Tensor:
    """Channels moved into blocks of positions."""
    x = node.x()
    n, c, h, w = x.shape
    b = node.get_int("blocksize")
    mode = node.choice("mode", "DCR", ("DCR", "CRD"))
    deep = c // (b * b)
    if mode == "DCR":
        parts = node.transpose(node.reshape(x, [n, b, b, deep, h, w]), [0, 3, 4, 1, 5, 2])
    else:
        parts = node.transpose(node.reshape(x, [n, deep, b, b, h, w]), [0, 1, 4, 2, 5, 3])
    return node.reshape(parts, [n, deep, h * b, w * b])


@converts("SpaceToDepth")
def space_to_depth(node: Node) -> Tensor:
    """Blocks of positions moved into channels."""
    x = node.x()
    n, c, h, w = x.shape
    b = node.get_int("blocksize")
    parts = node.reshape(x, [n, c, h // b, b, w // b, b])
    columns_first = node.choice("mode", "DCR", ("DCR", "CRD")) == "CRD"
    order = [0, 1, 3, 5, 2, 4] if columns_first else [0, 3, 5, 1, 2, 4]
    return node.reshape(node.transpose(parts, order), [n, c * (b * b), h // b, w // b])


@converts("OneHot")
def one_hot(node: Node) -> Tensor:
    """A dimension that is on at one index and off elsewhere."""
    return on_at_one(node, node.dims(1)[0])


def on_at_one(node: Node, depth: Dim) -> Tensor:
    """Return a dimension of `depth`, on at one index and off elsewhere, as a OneHot has it."""
    indices, values = node.x(0), node.x(2)
    rank = len(indices.shape) + 1
    axis = node.axis(node.get_int("axis", -1), rank)
    whole = node.from_start(node.cast(indices, INT64), depth)
    shape = [*indices.shape[:axis], depth, *indices.shape[axis:]]
    spread = node.along(whole, [d for d in range(rank) if d != axis], shape)
    on = node.compare("eq", spread, node.iota(axis, shape))
    off, high = (node.broadcast_to(node.part(values, 0, i, 1), shape) for i in (0, 1))
    return node.select(on, high, off)
