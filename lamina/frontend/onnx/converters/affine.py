"""Grids of points that affine transformations move."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.kinds import FLOAT
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor


@converts("AffineGrid", since=20)
def affine_grid(node: Node) -> Tensor:
    """Points of images of a size that is known, [N, spatial…, dimensions], moved by theta."""
    return moved_grid(node, node.dims(1))


def moved_grid(node: Node, size: Sequence[Dim]) -> Tensor:
    """Return the points of images [N, C, spatial…] times theta; their last coordinate is first."""
    theta = node.x(0)
    rank = len(size) - 2
    spatial = list(size[2:])
    theta = node.retyped(theta, [size[0], Dim.of(rank), Dim.of(rank + 1)])
    wide = node.cast(theta, FLOAT) if theta.kind.bits == 16 else theta
    aligned = bool(node.get_int("align_corners", 0))
    points = [_points(node, wide, spatial, d, aligned=aligned) for d in reversed(range(rank))]
    points.append(node.like(1, points[0]))
    grid = node.concat(points, rank)
    y = node.dot(wide, grid, [(2, rank)])
    y = node.transpose(y, [0, *range(2, rank + 2), 1])
    return node.cast(node.cast(y, wide.kind), theta.kind)


def _points(node: Node, like: Tensor, spatial: Sequence[Dim], d: int, *, aligned: bool) -> Tensor:
    """Return the coordinates along a dimension, from -1 to 1: [spatial…, 1]."""
    shape = [*spatial, Dim.of(1)]
    place = node.cast(node.iota(d, shape), like.kind)
    extent = node.broadcast_to(
        node.reshape(node.extents([spatial[d]], like.kind), [1] * len(shape)), shape
    )
    if aligned:
        # A single point is at -1, as the first one of several.
        reach = node.scaled(nn.MaxOp, node.scaled(nn.SubOp, extent, 1), 1)
        return node.scaled(
            nn.SubOp, node.binary(nn.DivOp, node.scaled(nn.MulOp, place, 2), reach), 1
        )
    middle = node.scaled(nn.AddOp, node.scaled(nn.MulOp, place, 2), 1)
    return node.scaled(nn.SubOp, node.binary(nn.DivOp, middle, extent), 1)
