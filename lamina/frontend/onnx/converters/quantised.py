"""Operators that quantise numbers and dequantise them, and such that work on quantised ones."""

from __future__ import annotations

from typing import Final

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.kinds import BY_NAME, FLOAT, INT32, KINDS, Kind
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Tensor

UINT8: Final = BY_NAME["uint8"]


@converts("QuantizeLinear")
@converts("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(node: Node) -> Tensor:
    """`saturate(round(x / scale) + zero)`: by one scale, one for an index of an axis, or blocks."""
    x = node.x(0)
    kind = node.value(2).kind if node.has(2) else node.get_kind("output_dtype", UINT8.number)
    precision = node.get_int("precision", 0)
    scale = _spread(node, node.x(1), x)
    scale = node.cast(scale, KINDS[precision]) if precision in KINDS else scale
    zero = _spread(node, node.x(2), x) if node.has(2) else None
    saturate = bool(node.get_int("saturate", 1))
    return quantised(node, x, scale, zero, kind, saturate=saturate)


@converts("DequantizeLinear")
@converts("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(node: Node) -> Tensor:
    """`(x - zero) * scale`: by one scale, one for an index of an axis, or blocks."""
    x, scale = node.x(0), node.x(1)
    kind = KINDS.get(node.get_int("output_dtype", 0), scale.kind)
    zero = _spread(node, node.x(2), x) if node.has(2) else None
    return node.cast(dequantised(node, x, _spread(node, scale, x), zero), kind)


def _spread(node: Node, s: Tensor, x: Tensor) -> Tensor:
    """Return scales or zeros for every element of `x`."""
    rank, block = len(x.shape), node.get_int("block_size", 0)
    if block < 0:
        raise node.fault(f"block_size is {block}")
    if block == 0 and all(n == 1 for n in s.shape):
        return node.broadcast_to(node.reshape(s, []), x.shape)
    axis = node.axis(node.get_int("axis", 1), rank)
    if block == 0:
        if len(s.shape) != 1:
            raise node.fault(f"scales of rank {len(s.shape)} without block_size")
        return node.along(s, [axis], x.shape)
    if len(s.shape) != rank:
        raise node.fault(f"scales of rank {len(s.shape)} for blocks of rank {rank}")
    return node.broadcast_to(repeated(node, s, axis, block, x.shape[axis]), x.shape)


def repeated(node: Node, s: Tensor, axis: int, block: int, count: Dim) -> Tensor:
    """Return `count` indices of an axis, each of `s` taken `block` times in turn."""
    before, after = s.shape[:axis], s.shape[axis + 1 :]
    blocks = s.shape[axis]
    node.assume(count.ceildiv(block), blocks)
    dims = [d if d <= axis else d + 1 for d in range(len(s.shape))]
    wide = node.along(s, dims, [*before, blocks, Dim.of(block), *after])
    flat = node.reshape(wide, [*before, blocks * block, *after])
    return node.part(flat, axis, 0, count)


def quantised(
    node: Node,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    kind: Kind,
    *,
    saturate: bool = True,
) -> Tensor:
    """Return x divided by `scale` in the type of that, as elements of `kind`."""
    q = node.binary(nn.DivOp, node.cast(x, scale.kind), scale)
    return rounded(node, node.cast(q, FLOAT), zero, kind, saturate=saturate)


def rounded(
    node: Node, q: Tensor, zero: Tensor | None, kind: Kind, *, saturate: bool = True
) -> Tensor:
    """Return f32 numbers plus `zero` as elements of `kind`: halves to even, saturated."""
    if not kind.is_float:
        q = node.unary(nn.RoundOp, q)
    if zero is not None:
        q = node.binary(nn.AddOp, q, node.cast(zero, FLOAT))
    if kind.is_integer and kind.bits < 8:
        low = 0 if kind.is_unsigned else -(1 << kind.bits - 1)
        q = node.scaled(nn.MaxOp, q, low)
        q = node.scaled(nn.MinOp, q, low + (1 << kind.bits) - 1)
        stored = UINT8 if kind.is_unsigned else BY_NAME["int8"]
        return Tensor(node.cast(q, stored).value, kind)
    return node.cast(q, kind, saturate=saturate)


def dequantised(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Return `(x - zero) * scale` in f32."""
    number = FLOAT if x.kind.is_float else INT32
    moved = node.cast(x, number)
    if zero is not None:
        moved = node.binary(nn.SubOp, moved, node.cast(zero, number))
    return node.binary(nn.MulOp, node.cast(moved, FLOAT), node.cast(scale, FLOAT))


@converts("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> list[Tensor]:
    """Elements as u8 by the range that they have, with its scale and zero."""
    return list(dynamic(node, node.x(0)))


def dynamic(node: Node, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x as u8, with the scale and the zero that its range, 0 included, gives."""
    axes = list(range(len(x.shape)))
    low = node.scaled(nn.MinOp, node.reduce("min", x, axes), 0)
    high = node.scaled(nn.MaxOp, node.reduce("max", x, axes), 0)
    scale = node.scaled(nn.DivOp, node.binary(nn.SubOp, high, low), 255)
    zero = node.binary(nn.DivOp, node.unary(nn.NegOp, low), scale)
    zero = rounded(node, zero, None, UINT8)
    return quantised(node, x, scale, zero, UINT8), scale, zero


# Operators that dequantise, do what they do, and quantise again


def _real(node: Node, index: int) -> Tensor:
    """Return f32 numbers: an input with its scale and zero, the two inputs after it."""
    zero = node.x(index + 2) if node.has(index + 2) else None
    return dequantised(node, node.x(index), node.x(index + 1), zero)


def _again(node: Node, y: Tensor, index: int, kind: Kind) -> Tensor:
    """Return numbers quantised by the scale at `index` and the zero after it."""
    zero = node.x(index + 1) if node.has(index + 1) else None
    return quantised(node, y, node.x(index), zero, kind)


@converts("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_pair(node: Node) -> Tensor:
    """A sum or product of quantised numbers."""
    make = nn.AddOp if node.op == "QLinearAdd" else nn.MulOp
    y = node.binary(make, _real(node, 0), _real(node, 3))
    return _again(node, y, 6, node.value(0).kind)


@converts("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_activation(node: Node) -> Tensor:
    """An activation of quantised numbers."""
    x = _real(node, 0)
    if node.op == "QLinearSigmoid":
        y = node.unary(nn.SigmoidOp, x)
    else:
        below = node.scaled(nn.MulOp, x, node.get_float("alpha", 0.01))
        y = node.select(node.compare("lt", x, node.like(0, x)), below, x)
    return _again(node, y, 3, node.value(0).kind)


@converts("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(node: Node) -> Tensor:
    """A softmax of quantised numbers along one axis."""
    x = _real(node, 0)
    axis = node.axis(node.get_int("axis", -1), len(x.shape))
    if node.get_int("opset") < 13 and axis != len(x.shape) - 1:
        raise node.refuse("a softmax over more axes than the last")
    y = node.add(nn.SoftmaxOp(x.value, axis), FLOAT)
    return _again(node, y, 3, node.value(0).kind)


@converts("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(node: Node) -> Tensor:
    """The mean of quantised numbers over all spatial dimensions."""
    x = _real(node, 0)
    first = 1 if node.get_int("channels_last", 0) else 2
    axes = [first + i for i in range(len(x.shape) - 2)]
    return _again(node, node.mean(x, axes, keep=True), 3, node.value(0).kind)


@converts("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: Node) -> Tensor:
    """Quantised numbers one after another, by a common scale."""
    xs = [_real(node, i) for i in range(2, len(node.inputs), 3)]
    axis = node.axis(node.get_int("axis"), len(xs[0].shape))
    return _again(node, node.concat(xs, axis), 0, node.value(1).kind)


@converts("QLinearWhere", domain=MICROSOFT)
def qlinear_where(node: Node) -> Tensor:
    """One of two quantised numbers, by a mask."""
    y = node.select(node.x(0), _real(node, 1), _real(node, 4))
    return _again(node, y, 7, node.value(1).kind)
