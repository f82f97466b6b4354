"""Operators that gather and scatter single elements, or slices at tuples of indices."""

from __future__ import annotations

from typing import Final

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.converters.shapes import extent_like
from lamina.frontend.onnx.kinds import INT64, Kind
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor


@converts("GatherElements")
def gather_elements(node: Node) -> Tensor:
    """Elements along an axis, each at an index of its own."""
    x, indices = node.x(0), node.x(1)
    axis = node.axis(node.get_int("axis", 0), len(x.shape))
    places = node.from_start(indices, x.shape[axis])
    return node.add(nn.GatherElementsOp(x.value, places.value, axis), x.kind)


@converts("GatherND")
def gather_nd(node: Node) -> Tensor:
    """Slices of a tensor, each at a tuple of indices."""
    x, indices = node.x(0), node.x(1)
    batch = node.get_int("batch_dims", 0)
    places = _tuples_from_start(node, x, indices, batch)
    return node.add(nn.GatherNdOp(x.value, places.value, batch), x.kind)


def _tuples_from_start(node: Node, x: Tensor, indices: Tensor, batch: int) -> Tensor:
    """Return tuples of indices in which those below 0 are counted from the end."""
    count = indices.shape[-1].constant
    if count is None:
        raise node.refuse("a number of indices that is not known")
    sizes = [_extent_one(node, n, indices.kind) for n in x.shape[batch : batch + count]]
    size = node.broadcast_to(node.concat(sizes, 0), indices.shape) if sizes else indices
    negative = node.compare("lt", indices, node.like(0, indices))
    return node.select(negative, node.binary(nn.AddOp, indices, size), indices)


def _extent_one(node: Node, n: Dim, kind: Kind) -> Tensor:
    return node.full(n.constant, kind, [1]) if n.constant is not None else node.extents([n], kind)


_REDUCTIONS: Final = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@converts("ScatterND")
def scatter_nd(node: Node) -> Tensor:
    """A tensor with slices put at tuples of indices."""
    x, indices, updates = node.x(0), node.x(1), node.x(2)
    kind = _REDUCTIONS[node.choice("reduction", "none", tuple(_REDUCTIONS))]
    places = _tuples_from_start(node, x, indices, 0)
    width = indices.shape[-1].constant
    if width is not None and len(updates.shape) == len(indices.shape) - 1 + len(x.shape) - width:
        updates = node.retyped(updates, [*indices.shape[:-1], *x.shape[width:]])
    return node.add(nn.ScatterNdOp(x.value, places.value, updates.value, kind), x.kind)


@converts("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Tensor:
    """A tensor with elements put along an axis, each at an index of its own."""
    x, indices, updates = node.x(0), node.x(1), node.x(2)
    if len(updates.shape) != len(indices.shape):
        raise node.fault(f"updates of rank {len(updates.shape)}, indices {len(indices.shape)}")
    updates = node.retyped(updates, indices.shape)
    kind = _REDUCTIONS[node.choice("reduction", "none", tuple(_REDUCTIONS))]
    axis = node.axis(node.get_int("axis", 0), len(x.shape))
    places = node.from_start(indices, x.shape[axis])
    return node.add(nn.ScatterElementsOp(x.value, places.value, updates.value, axis, kind), x.kind)


@converts("TensorScatter", since=24)
def tensor_scatter(node: Node) -> Tensor:
    """A cache with new elements along an axis, from a place that each row of the batch says."""
    x, update = node.x(0), node.x(1)
    rank = len(x.shape)
    axis = node.axis(node.get_int("axis", -2), rank)
    places = node.iota(axis, update.shape)
    if node.has(2):
        first = node.along(node.cast(node.x(2), INT64), [0], update.shape)
        places = node.binary(nn.AddOp, places, first)
    if node.choice("mode", "linear", ("linear", "circular")) == "circular":
        places = node.binary(nn.ModOp, places, extent_like(node, x.shape[axis], places))
    op = nn.ScatterElementsOp(x.value, places.value, update.value, axis, "set")
    return node.add(op, x.kind)


@converts("ReverseSequence")
def reverse_sequence(node: Node) -> Tensor:
    """The first elements of each sequence turned round."""
    x, lengths = node.x(0), node.x(1)
    time, batch = node.get_int("time_axis", 0), node.get_int("batch_axis", 1)
    places = node.iota(time, x.shape)
    limit = node.along(lengths, [batch], x.shape)
    back = node.scaled(nn.SubOp, node.binary(nn.SubOp, limit, places), 1)
    places = node.select(node.compare("lt", places, limit), back, places)
    return node.add(nn.GatherElementsOp(x.value, places.value, time), x.kind)
