"""Operators that put elements around a tensor, or take some away."""

from __future__ import annotations

from typing import Any

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.converters.shapes import extent_like, is_negative
from lamina.frontend.onnx.kinds import BOOL
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor


@converts("Pad", since=2)
def pad_fixed(node: Node) -> Tensor:
    """Elements around a tensor, their numbers being attributes."""
    pads = [Dim.of(n) for n in node.get_ints("pads")]
    axes = list(range(len(node.x().shape)))
    return _padded(node, node.x(), pads, axes, node.get_float("value", 0.0))


@converts("Pad", since=11)
def pad_given(node: Node) -> Tensor:
    """Elements around a tensor, their numbers being inputs."""
    rank = len(node.x().shape)
    axes = [node.axis(a, rank) for a in node.integers(3)] if node.has(3) else list(range(rank))
    pads = node.dims(1)
    if not node.has(2) or node.value(2).shape not in ((), (Dim.of(1),)):
        return _padded(node, node.x(), pads, axes, 0)
    if not isinstance(node.value(2), Tensor) or node.get_text("mode", "constant") != "constant":
        return _padded(node, node.x(), pads, axes, node.number(2))
    y = _padded(node, node.x(), pads, axes, 0)
    inside = _padded(node, node.full(1, BOOL, node.x().shape), pads, axes, 0)
    return node.select(inside, y, node.reshape(node.x(2), []))


def _padded(node: Node, x: Tensor, pads: list[Dim], axes: list[int], value: Any) -> Tensor:
    mode = node.choice("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    low, high = [Dim.of(0)] * len(x.shape), [Dim.of(0)] * len(x.shape)
    for i, d in enumerate(axes):
        low[d], high[d] = pads[i], pads[i + len(axes)]
    for d in range(len(x.shape)):
        x, low[d], high[d] = _cropped(node, x, d, low[d], high[d])
    if mode == "constant":
        return node.pad(x, low, high, value)
    for d in range(len(x.shape)):
        if low[d] != 0 or high[d] != 0:
            x = _mirrored(node, x, d, low[d], high[d], mode)
    return x


def _cropped(node: Node, x: Tensor, d: int, low: Dim, high: Dim) -> tuple[Tensor, Dim, Dim]:
    """Return `x` without what negative pads take away, and the pads that are left."""
    first = -low if is_negative(low) else Dim.of(0)
    last = -high if is_negative(high) else Dim.of(0)
    if first != 0 or last != 0:
        x = node.part(x, d, first, x.shape[d] - first - last)
    return x, Dim.of(0) if first != 0 else low, Dim.of(0) if last != 0 else high


def _mirrored(node: Node, x: Tensor, d: int, low: Dim, high: Dim, mode: str) -> Tensor:
    """Return `x` with elements of its own around one dimension."""
    n = x.shape[d]
    places = node.iota(0, [low + n + high])
    places = node.binary(nn.SubOp, places, extent_like(node, low, places))
    places = within(
        node, places, extent_like(node, n, places), extent_like(node, n - 1, places), mode
    )
    return node.add(nn.GatherOp(x.value, places.value, d), x.kind)


def within(node: Node, places: Tensor, size: Tensor, last: Tensor, mode: str) -> Tensor:
    """Return which of `size` places stands for each of those that may be outside."""
    zero = node.like(0, places)
    if mode == "edge":
        return node.binary(nn.MaxOp, node.binary(nn.MinOp, places, last), zero)
    # A period of positions, the second half going back.
    double = node.scaled(nn.MaxOp, node.scaled(nn.MulOp, last, 2), 1)
    period = size if mode == "wrap" else double
    rest = node.binary(nn.ModOp, places, period)
    below = node.compare("lt", rest, zero)
    rest = node.select(below, node.binary(nn.AddOp, rest, period), rest)
    back = node.binary(nn.SubOp, period, rest)
    return rest if mode == "wrap" else node.binary(nn.MinOp, rest, back)
