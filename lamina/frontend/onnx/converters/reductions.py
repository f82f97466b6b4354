"""Operators that reduce, scan, sort, and norms made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.kinds import FLOAT, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Tensor

_Sum = Callable[[Node, Tensor, list[int]], Tensor]


def _plain(kind: str) -> _Sum:
    return lambda node, x, axes: node.reduce(kind, x, axes, keep=True)


def _of(kind: str, before: Callable[[Node, Tensor], Tensor]) -> _Sum:
    return lambda node, x, axes: node.reduce(kind, before(node, x), axes, keep=True)


def _square(node: Node, x: Tensor) -> Tensor:
    return node.binary(nn.MulOp, x, x)


def _absolute(node: Node, x: Tensor) -> Tensor:
    return node.unary(nn.AbsOp, x)


def _root(node: Node, x: Tensor, axes: list[int]) -> Tensor:
    total = node.reduce("add", _square(node, x), axes, keep=True)
    if x.kind.is_float:
        return node.unary(nn.SqrtOp, total)
    return node.cast(node.unary(nn.SqrtOp, node.cast(total, FLOAT)), x.kind)


def _log_sum(node: Node, x: Tensor, axes: list[int]) -> Tensor:
    total = node.reduce("add", x, axes, keep=True)
    return node.unary(nn.LogOp, total if x.kind.is_float else node.cast(total, FLOAT))


def _log_sum_exp(node: Node, x: Tensor, axes: list[int]) -> Tensor:
    x = x if x.kind.is_float else node.cast(x, FLOAT)
    highest = node.reduce("max", x, axes, keep=True)
    # The largest of nothing, or of infinities, is no number to subtract.
    finite = node.compare("lt", node.unary(nn.AbsOp, highest), node.like(np.inf, highest))
    highest = node.select(finite, highest, node.like(0, highest))
    total = node.reduce(
        "add", node.unary(nn.ExpOp, node.binary(nn.SubOp, x, highest)), axes, keep=True
    )
    return node.binary(nn.AddOp, node.unary(nn.LogOp, total), highest)


SUMS: Final[dict[str, _Sum]] = {
    "ReduceL1": _of("add", _absolute),
    "ReduceL2": _root,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _plain("max"),
    "ReduceMean": lambda node, x, axes: node.mean(x, axes, keep=True),
    "ReduceMin": _plain("min"),
    "ReduceProd": _plain("mul"),
    "ReduceSum": _plain("add"),
    "ReduceSumSquare": _of("add", _square),
}
"""How each reduction is made of sums, largest elements and so on over some axes."""


@converts(*SUMS)
def reduced(node: Node) -> Tensor:
    """A reduction over some axes, or all."""
    x = node.x()
    rank = len(x.shape)
    none = node.has(1) and node.value(1).shape == (Dim.of(0),)
    axes = None if none else node.axes(1, rank)
    if not axes:
        if node.get_int("noop_with_empty_axes", 0):
            return _alone(node, x)
        axes = list(range(rank))
    boolean = x.kind.bits == 1
    narrow = x.kind.bits == 16 and x.kind.is_float
    wide = node.cast(x, FLOAT) if narrow else x
    if boolean:
        wide = x
    y = SUMS[node.op](node, wide, axes)
    y = node.cast(y, x.kind)
    return _kept(node, y, axes)


def _alone(node: Node, x: Tensor) -> Tensor:
    """Return the reduction of each element by itself."""
    return node.cast(SUMS[node.op](node, x, []), x.kind)


def _kept(node: Node, y: Tensor, axes: list[int]) -> Tensor:
    if node.get_int("keepdims", 1):
        return y
    return node.reshape(y, [n for d, n in enumerate(y.shape) if d not in axes])


@converts("ArgMax", "ArgMin")
def position(node: Node) -> Tensor:
    """Where the largest or smallest element is: the first, or the last one on request."""
    x = node.x()
    axis = node.axis(node.get_int("axis", 0), len(x.shape))
    kind = "argmax" if node.op == "ArgMax" else "argmin"
    last = bool(node.get_int("select_last_index", 0))
    found = node.reduce(kind, _reversed(node, x, axis) if last else x, [axis], keep=True)
    found = node.cast(found, INT64)
    if last:
        end = node.count(x, [axis], found)
        found = node.scaled(nn.SubOp, node.binary(nn.SubOp, end, found), 1)
    return _kept(node, found, [axis])


def _reversed(node: Node, x: Tensor, axis: int) -> Tensor:
    starts: list[Dim | int] = [0] * len(x.shape)
    starts[axis] = x.shape[axis] - 1
    steps = [-1 if d == axis else 1 for d in range(len(x.shape))]
    return node.add(nn.SliceOp(x.value, starts, x.shape, steps), x.kind)


@converts("Softmax", "LogSoftmax", "Hardmax", since=1)
def softmax_flat(node: Node) -> Tensor:
    """A softmax over all dimensions from an axis on."""
    x = node.x()
    axis, rank = node.get_int("axis", 1), len(x.shape)
    # Behind the last dimension is a place too, and a negative number counts from the last.
    axis = rank if axis == rank else node.axis(axis, rank)
    rows, row = Dim.of(1), Dim.of(1)
    for d, n in enumerate(x.shape):
        rows, row = (rows * n, row) if d < axis else (rows, row * n)
    flat = node.reshape(x, [rows, row])
    return node.reshape(_softmax(node, flat, 1), x.shape)


@converts("Softmax", "LogSoftmax", "Hardmax", since=13)
def softmax(node: Node) -> Tensor:
    """A softmax along one axis."""
    x = node.x()
    return _softmax(node, x, node.axis(node.get_int("axis", -1), len(x.shape)))


def _softmax(node: Node, x: Tensor, axis: int) -> Tensor:
    if not x.shape:
        x = node.reshape(x, [1])
        return node.reshape(_softmax(node, x, 0), [])
    if node.op == "Softmax":
        wide = node.cast(x, FLOAT) if x.kind.bits == 16 else x
        return node.cast(node.add(nn.SoftmaxOp(wide.value, axis), wide.kind), x.kind)
    if node.op == "LogSoftmax":
        wide = node.cast(x, FLOAT) if x.kind.bits == 16 else x
        moved = node.binary(nn.SubOp, wide, node.reduce("max", wide, [axis], keep=True))
        total = node.reduce("add", node.unary(nn.ExpOp, moved), [axis], keep=True)
        return node.cast(node.binary(nn.SubOp, moved, node.unary(nn.LogOp, total)), x.kind)
    first = node.reduce("argmax", x, [axis], keep=True)
    places = node.iota(axis, x.shape, first.kind)
    return node.cast(node.compare("eq", places, first), x.kind)


@converts("LayerNormalization", since=17)
def layer_norm(node: Node) -> list[Tensor | None]:
    """A norm over the dimensions from an axis on, with its mean and inverse deviation."""
    x = node.x()
    rank = len(x.shape)
    axis = node.axis(node.get_int("axis", -1), rank)
    return _layer_norm(node, x, list(range(axis, rank)), node.get_float("epsilon", 1e-5))


def _layer_norm(node: Node, x: Tensor, axes: list[int], eps: float) -> list[Tensor | None]:
    outputs = [name for name in node.proto.output if name]
    last = len(x.shape) - 1
    if (
        axes == [last]
        and len(outputs) == 1
        and x.kind == FLOAT
        and node.x(1).shape == x.shape[last:]
    ):
        w = node.x(1)
        b = node.x(2) if node.has(2) else node.like(0, w)
        if b.shape == w.shape:
            return [node.add(nn.LayerNormOp(x.value, w.value, b.value, eps), x.kind)]
    wide = node.cast(x, FLOAT) if x.kind.bits == 16 else x
    mean = node.mean(wide, axes, keep=True)
    moved = node.binary(nn.SubOp, wide, mean)
    variance = node.mean(node.binary(nn.MulOp, moved, moved), axes, keep=True)
    deviation = node.unary(nn.SqrtOp, node.scaled(nn.AddOp, variance, eps))
    inverse = node.binary(nn.DivOp, node.like(1, deviation), deviation)
    y = node.cast(node.binary(nn.MulOp, moved, inverse), x.kind)
    y = node.binary(nn.MulOp, y, node.x(1))
    if node.has(2):
        y = node.binary(nn.AddOp, y, node.x(2))
    return [y, mean, inverse]


@converts("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(node: Node) -> list[Tensor | None]:
    """A sum with a skipped value (and a bias), normed; the sum is the fourth output."""
    total = node.binary(nn.AddOp, node.x(0), node.x(1))
    if node.has(4):
        total = node.binary(nn.AddOp, total, node.x(4))
    gamma, beta = node.inputs[2], node.inputs[3] if node.has(3) else None
    eps = node.get_float("epsilon", 1e-12)
    axes = [len(total.shape) - 1]
    node.inputs = [total, gamma, beta]
    outputs = [*_layer_norm(node, total, axes, eps), None, None]
    return [*outputs[:3], total]


@converts("RMSNormalization", since=23)
def rms_norm(node: Node) -> Tensor:
    """A norm by the root of the mean square over the dimensions from an axis on."""
    x = node.x()
    rank = len(x.shape)
    axis = node.axis(node.get_int("axis", -1), rank)
    axes = list(range(axis, rank))
    eps = node.get_float("epsilon", 1e-5)
    if axes == [rank - 1] and x.kind == FLOAT and node.x(1).shape == x.shape[-1:]:
        return node.add(nn.RmsNormOp(x.value, node.x(1).value, eps), x.kind)
    wide = node.cast(x, FLOAT) if x.kind.bits == 16 else x
    square = node.mean(node.binary(nn.MulOp, wide, wide), axes, keep=True)
    root = node.unary(nn.SqrtOp, node.scaled(nn.AddOp, square, eps))
    y = node.cast(node.binary(nn.DivOp, wide, root), x.kind)
    return node.binary(nn.MulOp, y, node.x(1))


@converts("BatchNormalization", since=6)
def batch_norm(node: Node) -> Tensor:
    """Elements of channels moved and scaled by statistics that are given."""
    if node.get_int("training_mode", 0):
        raise node.refuse("training_mode")
    x = node.x()
    scale, bias, mean, variance = (node.x(i) for i in range(1, 5))
    deviation = node.unary(
        nn.SqrtOp, node.scaled(nn.AddOp, variance, node.get_float("epsilon", 1e-5))
    )
    scale = node.cast(scale, deviation.kind)
    factor = node.binary(nn.DivOp, scale, deviation)
    offset = node.binary(
        nn.SubOp, node.cast(bias, factor.kind), node.binary(nn.MulOp, mean, factor)
    )
    dims = [1] if len(x.shape) > 1 else [0]
    factor, offset = (
        node.along(node.cast(each, x.kind), dims, x.shape) for each in (factor, offset)
    )
    return node.binary(nn.AddOp, node.binary(nn.MulOp, x, factor), offset)


@converts("InstanceNormalization")
def instance_norm(node: Node) -> Tensor:
    """Each channel of each element of the batch, normed."""
    x = node.x()
    axes = list(range(2, len(x.shape)))
    return _spread_norm(node, x, axes, node.get_float("epsilon", 1e-5), [1])


def _spread_norm(node: Node, x: Tensor, axes: list[int], eps: float, dims: list[int]) -> Tensor:
    mean = node.mean(x, axes, keep=True)
    moved = node.binary(nn.SubOp, x, mean)
    variance = node.mean(node.binary(nn.MulOp, moved, moved), axes, keep=True)
    deviation = node.unary(nn.SqrtOp, node.scaled(nn.AddOp, variance, eps))
    y = node.binary(nn.DivOp, moved, deviation)
    y = node.binary(nn.MulOp, y, node.along(node.x(1), dims, x.shape))
    return node.binary(nn.AddOp, y, node.along(node.x(2), dims, x.shape))


@converts("LpNormalization")
def lp_normalization(node: Node) -> Tensor:
    """Elements divided by a norm along an axis; zeros where that is 0."""
    x, p = node.x(), node.get_int("p", 2)
    axis = node.axis(node.get_int("axis", -1), len(x.shape))
    size = node.unary(nn.AbsOp, x) if p == 1 else node.binary(nn.MulOp, x, x)
    total = node.reduce("add", size, [axis], keep=True)
    norm = node.broadcast_to(total if p == 1 else node.unary(nn.SqrtOp, total), x.shape)
    zero = node.like(0, x)
    return node.select(node.compare("eq", norm, zero), zero, node.binary(nn.DivOp, x, norm))


@converts("CumSum", "CumProd")
def scanned(node: Node) -> Tensor:
    """Sums or products of all elements up to each."""
    x = node.x()
    axis = node.axis(int(node.number(1)), len(x.shape))
    kind = "add" if node.op == "CumSum" else "mul"
    op = nn.ScanOp(
        x.value,
        kind,
        axis,
        exclusive=bool(node.get_int("exclusive", 0)),
        reverse=bool(node.get_int("reverse", 0)),
    )
    return node.add(op, x.kind)


@converts("TopK", since=1)
def top_k(node: Node) -> list[Tensor]:
    """The k largest or smallest elements along an axis, in order, and where they are."""
    return first_of(node, Dim.of(node.get_int("k")) if node.version < 10 else node.dims(1)[0])


def first_of(node: Node, k: Dim) -> list[Tensor]:
    """Return the first k elements in the order that a TopK asks for, and where they are."""
    x = node.x()
    axis = node.axis(node.get_int("axis", -1), len(x.shape))
    op = nn.SortOp(x.value, axis, k, descending=bool(node.get_int("largest", 1)))
    values = node.add(op, x.kind)
    return [values, node.cast(node.second(op), INT64)]
