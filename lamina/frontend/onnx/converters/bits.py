"""Operators on the bits of elements."""

from __future__ import annotations

from lamina.dialects import nn
from lamina.frontend.onnx.kinds import BOOL, BY_NAME, POWERS, Kind
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor


@converts("BitShift")
def bit_shift(node: Node) -> Tensor:
    """Bits moved left or right; a number below 0 stays so on its way to the right."""
    x, by = node.broadcast(node.x(0), node.x(1))
    if node.choice("direction", "LEFT", ("LEFT", "RIGHT")) == "LEFT":
        return node.binary(nn.ShlOp, x, by)
    if x.kind.is_unsigned:
        return node.binary(nn.ShrOp, x, by)
    ones = node.like(-1, x)
    turned = node.binary(nn.XorOp, x, ones)
    below = node.binary(nn.XorOp, node.binary(nn.ShrOp, turned, by), ones)
    return node.select(node.compare("lt", x, node.like(0, x)), below, node.binary(nn.ShrOp, x, by))


@converts("BitCast")
def bit_cast(node: Node) -> Tensor:
    """Elements of another type that have the same bits; a truth value has those of 0 or 1."""
    x, kind = node.x(), node.get_kind("to")
    if kind == x.kind:
        return x
    if not kind.bits or _width(kind) != _width(x.kind):
        raise node.refuse(f"a bit cast from {x.kind.name} to {kind.name}")
    bits = _bits(node, x)
    if kind == BOOL or (kind.is_integer and kind.bits < 8):
        return node.cast(bits, kind)
    if _is_code(kind) or kind == bits.kind:
        return Tensor(bits.value, kind)
    assert kind.element is not None
    return node.add(nn.BitcastOp(bits.value, kind.element), kind)


def _width(kind: Kind) -> int:
    return 8 if kind == BOOL else kind.bits


def _is_code(kind: Kind) -> bool:
    return kind.code is not None or kind == POWERS


def _bits(node: Node, x: Tensor) -> Tensor:
    """Return the bits of elements as unsigned integers."""
    unsigned = BY_NAME[f"uint{_width(x.kind)}"]
    if x.kind == BOOL or (x.kind.is_integer and x.kind.bits < 8):
        return node.cast(x, unsigned)
    if _is_code(x.kind) or x.kind == unsigned:
        return Tensor(x.value, unsigned)
    assert unsigned.element is not None
    return node.add(nn.BitcastOp(x.value, unsigned.element), unsigned)
