"""Operators of ONNX Runtime that are several of the standard's in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lamina.dialects import nn
from lamina.dialects.dims import Dim, product
from lamina.frontend.onnx.converters.integer_products import unpacked
from lamina.frontend.onnx.converters.quantised import dequantised, repeated
from lamina.frontend.onnx.converters.windows import channels_first, channels_last, convolved
from lamina.frontend.onnx.kinds import FLOAT
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Tensor

Activation = Callable[[Node, Tensor, list[float]], Tensor]


def _leaky(node: Node, x: Tensor, parameters: list[float]) -> Tensor:
    below = node.scaled(nn.MulOp, x, parameters[0])
    return node.select(node.compare("lt", x, node.like(0, x)), below, x)


def _clip(node: Node, x: Tensor, parameters: list[float]) -> Tensor:
    low, high = parameters
    return node.scaled(nn.MinOp, node.scaled(nn.MaxOp, x, low), high)


def _line(node: Node, x: Tensor, parameters: list[float]) -> Tensor:
    alpha, beta = parameters
    x = node.scaled(nn.AddOp, node.scaled(nn.MulOp, x, alpha), beta)
    return _clip(node, x, [0.0, 1.0])


_ACTIVATIONS: Final[dict[str, Activation]] = {
    "": lambda node, x, _: x,
    "Clip": _clip,
    "HardSigmoid": _line,
    "LeakyRelu": _leaky,
    "Relu": lambda node, x, _: node.unary(nn.ReluOp, x),
    "Sigmoid": lambda node, x, _: node.unary(nn.SigmoidOp, x),
    "Tanh": lambda node, x, _: node.unary(nn.TanhOp, x),
}


@converts("FusedConv", domain=MICROSOFT)
def fused_conv(node: Node) -> Tensor:
    """A convolution, something added to it, and an activation."""
    y = convolved(node, node.x(0), node.x(1))
    if node.has(2):
        y = node.binary(nn.AddOp, y, node.x(2))
    if node.has(3):
        y = node.binary(nn.AddOp, y, channels_last(node, node.x(3)))
    name = node.choice("activation", "", tuple(_ACTIVATIONS))
    y = _ACTIVATIONS[name](node, y, node.get_floats("activation_params", []))
    return channels_first(node, y)


@converts("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: Node) -> Tensor:
    """A norm by the root of the mean square of the last dimension."""
    x = node.x(0)
    if node.axis(node.get_int("axis", -1), len(x.shape)) != len(x.shape) - 1:
        raise node.refuse("an axis that is not the last one")
    if len([name for name in node.proto.output if name]) > 1:
        raise node.refuse("the inverse deviation as an output")
    return _rms_norm(node, x, node.x(1), node.get_float("epsilon", 1e-5))


@converts("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(node: Node) -> list[Tensor | None]:
    """The same of a sum with a skipped value (and a bias); the sum is the fourth output."""
    total = node.binary(nn.AddOp, node.x(0), node.x(1))
    if node.has(3):
        total = node.binary(nn.AddOp, total, node.x(3))
    y = _rms_norm(node, total, node.x(2), node.get_float("epsilon", 1e-12))
    return [y, None, None, total]


def _rms_norm(node: Node, x: Tensor, w: Tensor, eps: float) -> Tensor:
    wide = node.cast(x, FLOAT)
    op = nn.RmsNormOp(wide.value, node.cast(w, FLOAT).value, eps)
    return node.cast(node.add(op, FLOAT), x.kind)


@converts("BiasGelu", domain=MICROSOFT)
def bias_gelu(node: Node) -> Tensor:
    """Gaussian error linear units of a sum."""
    x = node.binary(nn.AddOp, node.x(0), node.x(1))
    return node.add(nn.GeluOp(x.value), x.kind)


@converts("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node) -> Tensor:
    """`x sigmoid(alpha x)`."""
    x = node.x(0)
    gate = node.unary(nn.SigmoidOp, node.scaled(nn.MulOp, x, node.get_float("alpha", 1.702)))
    return node.binary(nn.MulOp, x, gate)


@converts("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(node: Node) -> Tensor:
    """Rows of a matrix of few bits, dequantised by blocks of their columns."""
    data, indices, scales = node.value(0), node.x(1), node.x(2)
    rank = len(data.shape)
    last = node.axis(node.get_int("quantize_axis", 1), rank)
    if rank != 2 or last != 1 or node.axis(node.get_int("gather_axis", 0), rank) != 0:
        raise node.refuse("anything but rows of a matrix whose columns have blocks")
    bits, block = node.get_int("bits", 4), node.get_int("block_size", 128)
    apart = data.kind.bits < 8 or bits == 8
    columns = data.shape[1] if apart else data.shape[1] * (8 // bits)
    rows = product(indices.shape)

    def picked(index: int, count: Dim, packed: bool) -> Tensor:
        x = node.gather(node.x(index), node.reshape(indices, [rows]), 0)
        return unpacked(node, x, bits, count.evaluate({})) if packed else x

    quants = picked(0, columns, not apart)
    zero = node.full(0 if data.kind.name.startswith("int") else 1 << bits - 1, FLOAT, [])
    scale = repeated(node, picked(2, scales.shape[1], False), 1, block, columns)
    if node.has(3):
        given = node.cast(picked(3, scales.shape[1], not apart), FLOAT)
        zero = repeated(node, given, 1, block, columns)
    y = dequantised(node, node.cast(quants, FLOAT), scale, zero)
    return node.cast(node.reshape(y, [*indices.shape, columns]), scales.kind)
