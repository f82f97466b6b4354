"""Forms of operators whose inputs say, while the model runs, what shape there will be.

Small vectors of integers are computed in the graph, and bound to symbols (`nn.bind`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from lamina.dialects import nn
from lamina.dialects.dims import Dim, product
from lamina.frontend.onnx.converters.affine import moved_grid
from lamina.frontend.onnx.converters.padding import within
from lamina.frontend.onnx.converters.reductions import SUMS, first_of
from lamina.frontend.onnx.converters.shapes import (
    filled,
    on_at_one,
    one_side,
    parts_of,
    repeated,
)
from lamina.frontend.onnx.kinds import FLOAT, INT64, Kind
from lamina.frontend.onnx.node import NeedsValueError, Node
from lamina.frontend.onnx.registry import Converter
from lamina.frontend.onnx.told import told
from lamina.frontend.onnx.values import Tensor

BY_VALUE: Final[dict[str, Converter]] = {}
"""What takes a node that its usual converter needs values for, by operator."""


def _takes(*names: str) -> Callable[[Converter], Converter]:
    def register(function: Converter) -> Converter:
        BY_VALUE.update(dict.fromkeys(names, function))
        return function

    return register


def _integers(node: Node, index: int) -> Tensor:
    """Return an input as a vector of i64."""
    x = node.cast(node.x(index), INT64)
    return node.reshape(x, [product(x.shape)])


def _count(x: Tensor, node: Node) -> int:
    """Return how many elements a vector has, which must be a number."""
    count = x.shape[0].constant
    if count is None:
        raise NeedsValueError(f"{node.where}: even the rank of the result is not known", 0)
    return count


def _element(node: Node, x: Tensor, index: int) -> Tensor:
    """Return an element of a vector as a scalar."""
    return node.reshape(node.part(x, 0, index, 1), [])


def _from_start(node: Node, axes: Tensor, rank: int) -> Tensor:
    negative = node.compare("lt", axes, node.like(0, axes))
    return node.select(negative, node.scaled(nn.AddOp, axes, rank), axes)


def _where_axes(node: Node, axes: Tensor, rank: int) -> Tensor:
    """Return i64[rank, axes], 1 where axis j is dimension d."""
    shape = [Dim.of(rank), axes.shape[0]]
    hit = node.compare("eq", node.iota(0, shape), node.along(axes, [1], shape))
    return node.cast(hit, INT64)


def _spread(node: Node, hits: Tensor, values: Tensor, usual: Tensor) -> Tensor:
    """Return what each dimension is given: the value of its axis, or the usual one."""
    given = node.reduce("max", hits, [1])
    found = node.reduce("add", node.binary(nn.MulOp, hits, values), [1])
    return node.select(node.compare("gt", given, node.like(0, given)), found, usual)


# Shapes


@_takes("Reshape")
def reshape(node: Node) -> Tensor:
    """The same elements under a shape that is an input."""
    x, wanted = node.x(), _integers(node, 1)
    rank, known = _count(wanted, node), told(wanted)
    if not node.get_int("allowzero", 0):
        own = [*x.shape[:rank], *[Dim.of(0)] * (rank - len(x.shape))]
        zero = node.compare("eq", wanted, node.like(0, wanted))
        wanted = node.select(zero, node.extents(own), wanted) if rank else wanted
    left = node.compare("eq", wanted, node.like(-1, wanted))
    ones = node.select(left, node.like(1, wanted), wanted)
    rest = node.reduce("mul", ones, [0])
    total = product(x.shape)
    inferred = node.binary(nn.DivOp, node.reshape(node.extents([total]), []), rest)
    wanted = node.select(left, node.broadcast_to(inferred, wanted.shape), wanted)
    return _reshaped(node, x, wanted, known)


def _reshaped(node: Node, x: Tensor, shape: Tensor, known: Sequence[Dim | None] = ()) -> Tensor:
    """Return the elements of x under a shape that is a vector, of which some may be told."""
    names = node.symbols(_count(shape, node))
    node.bind(shape, names, [(product(names), product(x.shape))])
    wanted = _named(names, [n if n and (n.constant or 0) > 0 else None for n in known])
    return node.add(nn.ReshapeOp(x.value, wanted, assumed=True), x.kind)


def _named(names: Sequence[Dim], known: Sequence[Dim | None]) -> list[Dim]:
    """Return extents: those that are known, or their names."""
    return [name if n is None else n for n, name in zip_longest(known, names)]


@_takes("Squeeze", "Unsqueeze")
def squeeze(node: Node) -> Tensor:
    """The same elements with dimensions of one element less or more."""
    x, axes = node.x(), _integers(node, 1)
    rank, count = len(x.shape), _count(axes, node)
    sizes = node.extents(list(x.shape))
    if node.op == "Squeeze":
        hits = _where_axes(node, _from_start(node, axes, rank), rank)
        kept = node.binary(nn.SubOp, node.like(1, sizes), node.reduce("max", hits, [1]))
        return _reshaped(node, x, _compacted(node, sizes, kept, rank - count))
    total = rank + count
    hits = _where_axes(node, _from_start(node, axes, total), total)
    kept = node.reduce("max", hits, [1])
    kept = node.binary(nn.SubOp, node.like(1, kept), kept)
    place = node.scaled(nn.SubOp, _running(node, kept), 1)
    grid = [Dim.of(total), Dim.of(rank)]
    same = node.compare("eq", node.along(place, [0], grid), node.iota(1, grid))
    chosen = node.binary(nn.MulOp, node.cast(same, INT64), node.along(sizes, [1], grid))
    found = node.reduce("add", chosen, [1])
    one = node.like(1, found)
    return _reshaped(node, x, node.select(node.compare("gt", kept, node.like(0, kept)), found, one))


def _running(node: Node, x: Tensor) -> Tensor:
    return node.add(nn.ScanOp(x.value, "add", 0), x.kind)


def _compacted(node: Node, values: Tensor, kept: Tensor, count: int) -> Tensor:
    """Return the values of those dimensions that are kept, in order."""
    place = node.scaled(nn.SubOp, _running(node, kept), 1)
    grid = [Dim.of(count), values.shape[0]]
    same = node.compare("eq", node.iota(0, grid), node.along(place, [1], grid))
    chosen = node.binary(nn.MulOp, node.cast(same, INT64), node.along(kept, [1], grid))
    return node.reduce("add", node.binary(nn.MulOp, chosen, node.along(values, [1], grid)), [1])


@_takes("Expand")
def expand(node: Node) -> Tensor:
    """Elements repeated to a shape that is an input."""
    x, wanted = node.x(), _integers(node, 1)
    rank = max(_count(wanted, node), len(x.shape))
    own = [*[Dim.of(1)] * (rank - len(x.shape)), *x.shape]
    missing = rank - _count(wanted, node)
    known = [None] * missing + told(wanted)
    if missing:
        wanted = node.concat([node.full(1, INT64, [missing]), wanted], 0)
    sizes = node.extents(own)
    shape = node.select(node.compare("eq", sizes, node.like(1, sizes)), wanted, sizes)
    names = node.symbols(rank)
    equal = [(n, size) for n, size in zip(names, own, strict=True) if size != 1]
    node.bind(shape, names, equal)
    known = [n if size == 1 else None for n, size in zip(known, own, strict=True)]
    known = [
        size if size.constant not in (None, 1) else n for n, size in zip(known, own, strict=True)
    ]
    return node.broadcast_to(x, _named(names, known))


@_takes("Tile")
def tile(node: Node) -> Tensor:
    """A tensor beside itself, as often as an input says."""
    x = node.x()
    names = node.symbols(len(x.shape))
    node.bind(_integers(node, 1), names)
    return repeated(node, x, names)


@_takes("ConstantOfShape")
def constant_of_shape(node: Node) -> Tensor:
    """A tensor of one value, of a shape that is an input."""
    shape = _integers(node, 0)
    names = node.symbols(_count(shape, node))
    node.bind(shape, names)
    return filled(node, _named(names, told(shape)))


@_takes("Range")
def count_up(node: Node) -> Tensor:
    """Numbers from a start on, by a step, below a limit; all are inputs."""
    start, limit, delta = (node.reshape(node.x(i), [1]) for i in range(3))
    kind = start.kind
    span = node.binary(nn.SubOp, limit, start)
    if kind.is_float:
        steps = node.unary(nn.CeilOp, node.binary(nn.DivOp, span, delta))
        count = node.cast(steps, INT64)
    else:
        positive = node.compare("gt", delta, node.like(0, delta))
        sign = node.select(positive, node.like(1, delta), node.like(-1, delta))
        reach = node.binary(nn.SubOp, node.binary(nn.AddOp, span, delta), sign)
        count = node.cast(node.binary(nn.DivOp, reach, delta), INT64)
    count = node.scaled(nn.MaxOp, count, 0)
    (n,) = names = node.symbols(1)
    node.bind(count, names)
    places = node.cast(node.iota(0, [n]), kind)
    return node.binary(nn.AddOp, node.binary(nn.MulOp, places, delta), start)


# Parts


@_takes("Slice")
def slice_given(node: Node) -> Tensor:
    """Ranges of indices that are inputs, of axes that may be inputs too."""
    x = node.x()
    rank = len(x.shape)
    starts, ends = _integers(node, 1), _integers(node, 2)
    count = _count(starts, node)
    axes = _integers(node, 3) if node.has(3) else node.iota(0, [count])
    steps = _integers(node, 4) if node.has(4) else node.full(1, INT64, [count])
    hits = _where_axes(node, _from_start(node, axes, rank), rank)
    sizes = node.extents(list(x.shape))
    step = _spread(node, hits, steps, node.like(1, sizes))
    forward = node.compare("gt", step, node.like(0, step))
    # Going back, places are cut to [-1, n - 1], and the usual range is not asked for.
    low = node.select(forward, node.like(0, sizes), node.like(-1, sizes))
    high = node.binary(nn.AddOp, sizes, low)
    first = _cut(node, _spread(node, hits, starts, low), sizes, low, high)
    last = _cut(node, _spread(node, hits, ends, high), sizes, low, high)
    span = node.binary(nn.SubOp, last, first)
    sign = node.select(forward, node.like(1, step), node.like(-1, step))
    reach = node.binary(nn.SubOp, node.binary(nn.AddOp, span, step), sign)
    length = node.scaled(nn.MaxOp, node.binary(nn.DivOp, reach, step), 0)
    names = node.symbols(rank)
    node.bind(length, names)
    for d in range(rank):
        places = node.iota(0, [names[d]])
        stride, offset = _element(node, step, d), _element(node, first, d)
        places = node.binary(nn.AddOp, node.binary(nn.MulOp, places, stride), offset)
        x = node.add(nn.GatherOp(x.value, places.value, d), x.kind)
    return x


def _cut(node: Node, place: Tensor, sizes: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return places counted from the start, cut to [low, high]."""
    negative = node.compare("lt", place, node.like(0, place))
    # What is far below would wrap around.
    near = node.scaled(nn.MaxOp, place, -(1 << 62))
    moved = node.select(negative, node.binary(nn.AddOp, near, sizes), place)
    return node.binary(nn.MinOp, node.binary(nn.MaxOp, moved, low), high)


@_takes("Split")
def split(node: Node) -> list[Tensor]:
    """Parts of a tensor, of sizes that are an input."""
    x = node.x()
    axis = node.axis(node.get_int("axis", 0), len(x.shape))
    sizes = _integers(node, 1)
    names = node.symbols(_count(sizes, node))
    total = Dim.of(0)
    for n in names:
        total = total + n
    node.bind(sizes, names, [(total, x.shape[axis])])
    return parts_of(node, x, axis, names)


@_takes("Pad")
def pad(node: Node) -> Tensor:
    """Elements around a tensor, as many as an input says."""
    x = node.x()
    rank = len(x.shape)
    pads = _integers(node, 1)
    half = _count(pads, node) // 2
    axes = _integers(node, 3) if node.has(3) else node.iota(0, [half])
    hits = _where_axes(node, _from_start(node, axes, rank), rank)
    zero = node.full(0, INT64, [rank])
    low = _spread(node, hits, node.part(pads, 0, 0, half), zero)
    high = _spread(node, hits, node.part(pads, 0, half, half), zero)
    sizes = node.extents(list(x.shape))
    names = node.symbols(rank)
    node.bind(node.binary(nn.AddOp, node.binary(nn.AddOp, low, sizes), high), names)
    value = node.reshape(node.x(2), []) if node.has(2) else node.full(0, x.kind, [])
    mode = node.choice("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    for d in range(rank):
        places = node.iota(0, [names[d]])
        places = node.binary(nn.SubOp, places, _element(node, low, d))
        size = node.broadcast_to(_element(node, sizes, d), places.shape)
        x = _around(node, x, d, places, size, mode, value)
    return x


def _around(
    node: Node, x: Tensor, d: int, places: Tensor, size: Tensor, mode: str, value: Tensor
) -> Tensor:
    """Return elements of one dimension at places, some of which are outside of it."""
    last = node.scaled(nn.SubOp, size, 1)
    cut = within(node, places, size, last, "edge" if mode == "constant" else mode)
    y = node.add(nn.GatherOp(x.value, cut.value, d), x.kind)
    if mode != "constant":
        return y
    first = node.compare("ge", places, node.like(0, places))
    inside = node.binary(nn.AndOp, first, node.compare("le", places, last))
    return node.select(node.along(inside, [d], y.shape), y, value)


@_takes("TopK")
def top_k(node: Node) -> list[Tensor]:
    """The k largest or smallest elements along an axis, k being an input."""
    (k,) = names = node.symbols(1)
    node.bind(_integers(node, 1), names)
    return first_of(node, k)


@_takes("OneHot")
def one_hot(node: Node) -> Tensor:
    """A dimension that is on at one index and off elsewhere, as long as an input says."""
    (depth,) = names = node.symbols(1)
    node.bind(_integers(node, 1), names)
    return on_at_one(node, depth)


@_takes("Trilu")
def triangle(node: Node) -> Tensor:
    """The part of matrices on one side of a diagonal that is an input."""
    x, k = node.x(), node.reshape(node.cast(node.x(1), INT64), [])
    return one_side(node, x, lambda rows: node.binary(nn.AddOp, rows, k))


# Reductions over axes that are an input: each element goes to its place of the result.


@_takes(*SUMS)
def reduced(node: Node) -> Tensor:
    """A reduction over axes that are an input."""
    x, axes = node.x(), _integers(node, 1)
    rank, count = len(x.shape), _count(axes, node)
    narrow = x.kind.bits == 16 and x.kind.is_float
    plan = _Scattered(node, x.shape, _from_start(node, axes, rank))
    wide = node.cast(x, FLOAT) if narrow else x
    y = node.cast(SUMS[node.op](plan, wide, []), x.kind)
    if node.get_int("keepdims", 1):
        return y
    shape = _compacted(node, node.extents(list(x.shape)), plan.kept, rank - count)
    return _reshaped(node, y, shape)


class _Scattered(Node):
    """A node whose reductions, always of all that is asked for, go over axes found as it runs."""

    def __init__(self, node: Node, shape: Sequence[Dim], axes: Tensor) -> None:
        """Bind the extents of a result that keeps its dimensions."""
        self.__dict__.update(node.__dict__)
        self._shape, rank = tuple(shape), len(shape)
        hits = _where_axes(node, axes, rank)
        gone = node.reduce("max", hits, [1])
        self.kept = node.binary(nn.SubOp, node.like(1, gone), gone)
        sizes = node.extents(list(shape))
        keep = node.compare("gt", self.kept, node.like(0, gone))
        self._sizes = node.select(keep, sizes, node.like(1, sizes))
        self._names = node.symbols(rank)
        node.bind(self._sizes, self._names)
        scan = nn.ScanOp(self._sizes.value, "mul", 0, exclusive=True, reverse=True)
        weights = node.binary(nn.MulOp, node.add(scan, INT64), self.kept)
        place = node.full(0, INT64, shape)
        for d in range(rank):
            moved = node.binary(nn.MulOp, node.iota(d, shape), _element(node, weights, d))
            place = node.binary(nn.AddOp, place, moved)
        self._place = node.reshape(place, [product(shape), 1])

    def reduce(self, kind: str, x: Tensor, axes: Sequence[int], *, keep: bool = False) -> Tensor:
        """Return `kind` over the axes of the node, which stay as dimensions of one element."""
        total = product(self._names)
        flat = self.reshape(x, [product(self._shape)])
        target = self.full(_neutral(kind, x.kind), x.kind, [total])
        op = nn.ScatterNdOp(target.value, self._place.value, flat.value, kind)
        return self.reshape(self.add(op, x.kind), self._names)

    def broadcast_to(self, x: Tensor, shape: Sequence[Dim]) -> Tensor:
        """Return a result repeated to what was reduced: each element from its place."""
        if x.shape == tuple(self._names) and tuple(shape) == self._shape:
            flat = self.reshape(x, [product(self._names)])
            places = self.reshape(self._place, [product(self._shape)])
            found = self.add(nn.GatherOp(flat.value, places.value, 0), x.kind)
            return self.reshape(found, self._shape)
        return super().broadcast_to(x, shape)

    def common_shape(self, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """Return the shape of what was reduced, where a result meets it."""
        names = tuple(self._names)
        if names in shapes and self._shape in shapes:
            return self._shape
        return super().common_shape(shapes)

    def mean(self, x: Tensor, axes: Sequence[int], *, keep: bool = False) -> Tensor:
        """Return the sum divided by how many elements went into it."""
        ones = self.like(1, x)
        return self.binary(nn.DivOp, self.reduce("add", x, axes), self.reduce("add", ones, axes))


def _neutral(kind: str, element: Kind) -> Any:
    if kind in ("add", "mul"):
        return 0 if kind == "add" else 1
    if element.is_float:
        return -np.inf if kind == "max" else np.inf
    if element.bits == 1:
        return 0 if kind == "max" else 1
    info = np.iinfo(element.dtype)
    return info.min if kind == "max" else info.max


@_takes("AffineGrid")
def affine_grid(node: Node) -> Tensor:
    """Points of images whose size is an input."""
    size = _integers(node, 1)
    names = node.symbols(_count(size, node))
    node.bind(size, names)
    return moved_grid(node, names)
