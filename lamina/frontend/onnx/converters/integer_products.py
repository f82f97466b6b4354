"""Products of quantised numbers: exact sums in i32, then moved, scaled and quantised again."""

from __future__ import annotations

import warnings
from typing import Final

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.converters.products import dot_of_matrices
from lamina.frontend.onnx.converters.quantised import dequantised, dynamic, repeated, rounded
from lamina.frontend.onnx.converters.windows import channels_first, convolved
from lamina.frontend.onnx.kinds import BY_NAME, FLOAT, INT32
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Known, Tensor

_LARGE: Final = 1 << 26
"""Bytes of a weight as f32 from which on it is said that there are so many."""


def zero_of(node: Node, index: int) -> Tensor | None:
    """Return the zero of quantised numbers, an input; None for one that is 0."""
    if not node.has(index):
        return None
    found = node.value(index)
    if isinstance(found, Known) and found.is_plain and not found.array.any():
        return None
    return node.tensor(found)


# Matrices


@converts("MatMulInteger")
def matmul_integer(node: Node) -> Tensor:
    """A product of matrices of 8-bit integers in i32."""
    return integer_matrices(node, node.x(0), node.x(1), zero_of(node, 2), zero_of(node, 3))


def integer_matrices(
    node: Node, a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None
) -> Tensor:
    """Return `(a - a_zero) (b - b_zero)` in i32; zeros are one number, or one a row or column.

    The product is that of the bytes; what the zeros add to it are sums of rows and columns.
    """
    if len(a.shape) == 1:
        y = integer_matrices(node, node.reshape(a, [1, *a.shape]), b, a_zero, b_zero)
        return node.reshape(y, [*y.shape[:-2], *y.shape[-1:]])
    if len(b.shape) == 1:
        y = integer_matrices(node, a, node.reshape(b, [*b.shape, 1]), a_zero, b_zero)
        return node.reshape(y, y.shape[:-1])
    y = dot_of_matrices(node, a, b)
    rows = node.cast(a, INT32)
    if a_zero is not None:
        zero = node.cast(_of_rows(node, a_zero), INT32)
        rows = node.binary(nn.SubOp, rows, zero)
        columns = node.reduce("add", node.cast(b, INT32), [len(b.shape) - 2], keep=True)
        y = node.binary(nn.SubOp, y, node.binary(nn.MulOp, zero, columns))
    if b_zero is not None:
        sums = node.reduce("add", rows, [len(a.shape) - 1], keep=True)
        product = node.binary(nn.MulOp, sums, node.cast(b_zero, INT32))
        y = node.binary(nn.SubOp, y, product)
    return y


def _of_rows(node: Node, s: Tensor) -> Tensor:
    """Return one number, or one a row, so that it is repeated along rows."""
    return node.reshape(s, [*s.shape, 1]) if len(s.shape) == 1 and s.shape[0] != 1 else s


@converts("QLinearMatMul")
def qlinear_matmul(node: Node) -> Tensor:
    """A product of quantised matrices, quantised."""
    a_scale, b_scale, y_scale = (node.cast(node.x(i), FLOAT) for i in (1, 4, 6))
    y = integer_matrices(node, node.x(0), node.x(3), zero_of(node, 2), zero_of(node, 5))
    scale = node.binary(nn.MulOp, _of_rows(node, a_scale), b_scale)
    scale = node.binary(nn.DivOp, scale, y_scale)
    q = node.binary(nn.MulOp, node.cast(y, FLOAT), scale)
    return rounded(node, q, zero_of(node, 7), node.value(7).kind)


@converts("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(node: Node) -> Tensor:
    """A product of f32 rows, quantised by their range, and quantised columns; in f32."""
    a, a_scale, a_zero = dynamic(node, node.x(0))
    y = integer_matrices(node, a, node.x(1), a_zero, zero_of(node, 3))
    return _in_float(node, y, a_scale, node.x(2), 4)


@converts("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(node: Node) -> Tensor:
    """A product of quantised matrices in f32."""
    y = integer_matrices(node, node.x(0), node.x(1), zero_of(node, 4), zero_of(node, 5))
    return _in_float(node, y, node.x(2), node.x(3), 6)


def _in_float(node: Node, y: Tensor, a_scale: Tensor, b_scale: Tensor, bias: int) -> Tensor:
    scale = node.binary(nn.MulOp, _of_rows(node, a_scale), b_scale)
    y = node.binary(nn.MulOp, node.cast(y, scale.kind), scale)
    return node.binary(nn.AddOp, y, node.x(bias)) if node.has(bias) else y


# Convolutions


@converts("ConvInteger")
def conv_integer(node: Node) -> Tensor:
    """A convolution of 8-bit integers in i32."""
    return channels_first(node, _convolution(node, node.x(0), node.x(1), 2, 3))


def _convolution(node: Node, x: Tensor, w: Tensor, x_zero: int, w_zero: int) -> Tensor:
    """Return a convolution in i32, channels last; padding is of what stands for 0."""
    moved = zero_of(node, x_zero), zero_of(node, w_zero)
    if moved != (None, None):
        x, w = node.cast(x, INT32), node.cast(w, INT32)
    if moved[0] is not None:
        x = node.binary(nn.SubOp, x, node.reshape(node.cast(moved[0], INT32), []))
    if moved[1] is not None:
        w = node.binary(nn.SubOp, w, _of_outputs(node, node.cast(moved[1], INT32), w))
    return convolved(node, x, w)


def _of_outputs(node: Node, s: Tensor, w: Tensor) -> Tensor:
    """Return one number, or one an output channel, for every element of a window."""
    if all(n == 1 for n in s.shape):
        return node.reshape(s, [])
    return node.along(s, [0], w.shape)


@converts("QLinearConv")
def qlinear_conv(node: Node) -> Tensor:
    """A convolution of quantised numbers, quantised."""
    y = _convolution(node, node.x(0), node.x(3), 2, 5)
    if node.has(8):
        y = node.binary(nn.AddOp, y, node.x(8))
    w_scale = node.x(4)
    w_scale = node.reshape(w_scale, []) if all(n == 1 for n in w_scale.shape) else w_scale
    scale = node.binary(nn.MulOp, node.reshape(node.x(1), []), w_scale)
    scale = node.binary(nn.DivOp, scale, node.reshape(node.x(6), []))
    q = node.binary(nn.MulOp, node.cast(y, FLOAT), scale)
    return channels_first(node, rounded(node, q, zero_of(node, 7), node.value(7).kind))


# Weights of a few bits


@converts("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(node: Node) -> Tensor:
    """A product with a weight of 2, 4 or 8 bits: `b[N, blocks, bytes]`, a scale a block."""
    if node.has(4):
        raise node.refuse("g_idx")
    a = node.x(0)
    w = _weight(node)
    y = node.dot(node.cast(a, FLOAT), w, [(len(a.shape) - 1, 1)])
    y = node.cast(y, a.kind)
    return node.binary(nn.AddOp, y, node.x(5)) if node.has(5) else y


def _weight(node: Node) -> Tensor:
    """Return the numbers of a weight in blocks along its rows, [N, K] f32."""
    columns, rows = node.get_int("K"), node.get_int("N")
    bits, block = node.get_int("bits", 4), node.get_int("block_size")
    if bits not in (2, 4, 8):
        raise node.refuse(f"a weight of {bits} bits")
    if block < 1 or block * bits % 8 or columns < 1 or rows < 1:
        raise node.fault(f"blocks of {block} in a weight [{rows}, {columns}]")
    if rows * columns * 4 >= _LARGE:
        warnings.warn(
            f"{node.where}: its weight of {bits} bits takes {rows * columns * 4 >> 20} MiB as f32",
            stacklevel=2,
        )
    blocks = -(-columns // block)
    packed = node.reshape(node.x(1), [rows, blocks * block * bits // 8])
    quants = unpacked(node, packed, bits, blocks * block)
    scales = node.cast(node.reshape(node.x(2), [rows, blocks]), FLOAT)
    wide = [rows, blocks * block]
    zeros = node.full(float(1 << bits - 1), FLOAT, wide)
    if node.has(3):
        given = node.x(3)
        if given.kind.is_integer:
            row = -(-blocks * bits // 8)
            given = unpacked(node, node.reshape(given, [rows, row]), bits, blocks)
        zeros = node.reshape(node.cast(given, FLOAT), [rows, blocks])
        zeros = repeated(node, zeros, 1, block, Dim.of(blocks * block))
    scales = repeated(node, scales, 1, block, Dim.of(blocks * block))
    numbers = dequantised(node, node.cast(quants, FLOAT), scales, zeros)
    return node.part(numbers, 1, 0, columns)


def unpacked(node: Node, packed: Tensor, bits: int, count: int) -> Tensor:
    """Return `count` integers a row of bytes, the lowest bits of a byte first, as u8."""
    uint8 = BY_NAME["uint8"]
    packed = Tensor(packed.value, uint8)
    if bits == 8:
        return node.part(packed, 1, 0, count)
    parts: list[Tensor] = []
    for shift in range(0, 8, bits):
        part = node.scaled(nn.ShrOp, packed, shift) if shift else packed
        part = node.scaled(nn.AndOp, part, (1 << bits) - 1)
        parts.append(node.reshape(part, [*part.shape, 1]))
    rows, row = packed.shape
    flat = node.reshape(node.concat(parts, 2), [rows, row * (8 // bits)])
    return node.part(flat, 1, 0, count)
