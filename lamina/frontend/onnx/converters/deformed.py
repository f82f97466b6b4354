"""Convolutions whose taps are moved by offsets that are inputs: between elements they are mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.converters.windows import sizes
from lamina.frontend.onnx.kinds import FLOAT, INT32, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor


@dataclass(frozen=True)
class _Taps:
    """Where taps are looked up: y and x [N, groups of offsets, taps, rows, columns], floats."""

    y: Tensor
    x: Tensor


@converts("DeformConv", since=19)
def deform_conv(node: Node) -> Tensor:
    """A convolution of two dimensions with moved taps (Dai et al. 2017, Zhu et al. 2019)."""
    x, w, offset = node.x(0), node.x(1), node.x(2)
    if len(x.shape) != 4:
        raise node.refuse(f"a rank of {len(x.shape)}")
    kind = x.kind
    wide = FLOAT if kind.bits == 16 else kind
    groups = node.get_int("offset_group", 1)
    window = sizes(node, w.shape[2:])
    x = node.retyped(x, [x.shape[0], w.shape[1] * node.get_int("group", 1), *x.shape[2:]])
    taps = _taps(node, x, node.cast(offset, wide), groups, window)
    columns = _sampled(node, node.cast(x, wide), taps, groups)
    if node.has(4):
        images, _, count, *places = taps.y.shape
        mask = node.retyped(node.cast(node.x(4), wide), [images, count * groups, *places])
        mask = node.reshape(mask, [*taps.y.shape, 1])
        columns = node.binary(nn.MulOp, columns, mask)
    y = _summed(node, columns, node.cast(w, wide), node.get_int("group", 1))
    if node.has(3):
        bias = node.cast(node.x(3), wide)
        y = node.binary(nn.AddOp, y, node.reshape(bias, [*bias.shape, 1, 1]))
    return node.cast(y, kind)


def _taps(node: Node, x: Tensor, offset: Tensor, groups: int, window: Sequence[int]) -> _Taps:
    """Return the places of taps: those of a convolution, and offsets added to them."""
    strides = node.get_ints("strides", [1, 1])
    dilations = node.get_ints("dilations", [1, 1])
    pads = node.get_ints("pads", [0, 0, 0, 0])
    places = offset.shape[2:]
    for d in range(2):
        span = x.shape[2 + d] + pads[d] + pads[d + 2] - (window[d] - 1) * dilations[d] - 1
        node.assume(span // strides[d] + 1, places[d])
    shape = [x.shape[0], Dim.of(groups), *map(Dim.of, window), *places]
    count = groups * window[0] * window[1] * 2
    offset = node.retyped(offset, [x.shape[0], Dim.of(count), *places])
    offset = node.reshape(offset, [*shape[:4], 2, *places])
    found: list[Tensor] = []
    for d in range(2):
        tap = node.scaled(nn.MulOp, node.iota(2 + d, shape, INT32), dilations[d])
        step = node.scaled(nn.MulOp, node.iota(4 + d, shape, INT32), strides[d])
        place = node.scaled(nn.SubOp, node.binary(nn.AddOp, tap, step), pads[d])
        moved = node.reshape(node.part(offset, 4, d, 1), shape)
        place = node.binary(nn.AddOp, node.cast(place, moved.kind), moved)
        found.append(node.reshape(place, [*shape[:2], window[0] * window[1], *places]))
    return _Taps(*found)


def _sampled(node: Node, x: Tensor, taps: _Taps, groups: int) -> Tensor:
    """Return what stands at taps, [N, groups, taps, rows, columns, channels of a group]."""
    images, channels, height, width = x.shape
    depth = channels // groups
    flat = node.reshape(x, [images, groups, depth, height * width])
    flat = node.transpose(flat, [0, 1, 3, 2])
    flat = node.reshape(flat, [images * groups, height * width, depth])
    y, x_place = _Place.of(node, taps.y, height), _Place.of(node, taps.x, width)
    total: Tensor | None = None
    for row in y:
        for column in x_place:
            start = node.binary(nn.MulOp, row.index, _size(node, width, row.index))
            index = node.binary(nn.AddOp, start, column.index)
            index = node.reshape(index, [images * groups, *index.shape[2:], 1])
            op = nn.GatherNdOp(flat.value, index.value, 1)
            found = node.add(op, flat.kind)
            found = node.reshape(found, [*taps.y.shape, depth])
            weight = node.binary(nn.MulOp, row.weight, column.weight)
            found = node.binary(nn.MulOp, found, node.reshape(weight, [*weight.shape, 1]))
            total = found if total is None else node.binary(nn.AddOp, total, found)
    assert total is not None
    return total


@dataclass(frozen=True)
class _Place:
    """One of two neighbours of places along a dimension, and how much of it there is."""

    index: Tensor
    weight: Tensor

    @staticmethod
    def of(node: Node, place: Tensor, extent: Dim) -> list[_Place]:
        """Return the neighbours below and above; nothing is taken of what is outside."""
        low = node.unary(nn.FloorOp, place)
        part = node.binary(nn.SubOp, place, low)
        rest = node.binary(nn.SubOp, node.like(1, part), part)
        below = node.cast(low, INT64)
        found: list[_Place] = []
        for index, weight in ((below, rest), (node.scaled(nn.AddOp, below, 1), part)):
            size = _size(node, extent, index)
            inside = node.compare("ge", index, node.like(0, index))
            inside = node.binary(nn.AndOp, inside, node.compare("lt", index, size))
            kept = node.select(inside, weight, node.like(0, weight))
            last = node.scaled(nn.SubOp, size, 1)
            near = node.binary(nn.MinOp, node.scaled(nn.MaxOp, index, 0), last)
            found.append(_Place(near, kept))
        return found


def _size(node: Node, extent: Dim, like: Tensor) -> Tensor:
    if extent.constant is not None:
        return node.like(extent.constant, like)
    return node.broadcast_to(node.reshape(node.extents([extent]), []), like.shape)


def _summed(node: Node, columns: Tensor, w: Tensor, groups: int) -> Tensor:
    """Return products of taps with weights [M, C / groups, …]: [N, M, rows, columns]."""
    images, _, taps, rows, places, _ = columns.shape
    columns = node.transpose(columns, [0, 3, 4, 1, 5, 2])
    inner = w.shape[1]
    columns = node.reshape(columns, [images, rows, places, groups, inner * taps])
    outer = w.shape[0] // groups
    w = node.reshape(w, [groups, outer, inner * taps])
    y = node.dot(columns, w, [(4, 2)], [(3, 0)])
    y = node.reshape(y, [groups, images, rows, places, outer])
    y = node.transpose(y, [1, 0, 4, 2, 3])
    return node.reshape(y, [images, outer * groups, rows, places])
