"""Sequences and optionals, whose lengths are known."""

from __future__ import annotations

import numpy as np

from lamina.frontend.onnx.kinds import BOOL, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Known, Several, Tensor, Value


@converts("SequenceEmpty", "SequenceConstruct")
def sequence_of(node: Node) -> Several:
    """A sequence of the inputs."""
    return Several(tuple(node.inputs))


@converts("SequenceAt")
def sequence_at(node: Node) -> Value:
    """An element of a sequence."""
    return node.sequence(0)[int(node.number(1))]


@converts("SequenceLength")
def sequence_length(node: Node) -> Known:
    """How many elements a sequence has."""
    return Known(np.array(len(node.sequence(0)), np.int64), INT64)


@converts("SequenceInsert")
def sequence_insert(node: Node) -> Several:
    """A sequence with one element more."""
    values = list(node.sequence(0))
    place = int(node.number(2, len(values)))
    values.insert(place if place >= 0 else place + len(values), node.inputs[1])
    return Several(tuple(values))


@converts("SequenceErase")
def sequence_erase(node: Node) -> Several:
    """A sequence with one element less."""
    values = list(node.sequence(0))
    del values[int(node.number(1, -1))]
    return Several(tuple(values))


@converts("ConcatFromSequence")
def concat_sequence(node: Node) -> Tensor:
    """The elements of a sequence one after another."""
    xs = [node.tensor(value) for value in node.sequence(0) if isinstance(value, Tensor | Known)]
    axis = node.get_int("axis")
    if node.get_int("new_axis", 0):
        axis = node.axis(axis, len(xs[0].shape) + 1)
        xs = [node.reshape(x, [*x.shape[:axis], 1, *x.shape[axis:]]) for x in xs]
    return node.concat(xs, node.axis(axis, len(xs[0].shape)))


@converts("SplitToSequence")
def split_to_sequence(node: Node) -> Several:
    """A sequence of parts of a tensor."""
    x = node.x()
    axis = node.axis(node.get_int("axis", 0), len(x.shape))
    keep = bool(node.get_int("keepdims", 1)) or node.has(1)
    extent = x.shape[axis].constant
    if extent is None:
        raise node.refuse("a number of parts that is not known")
    if not node.has(1):
        sizes = [1] * extent
    elif node.known(1).ndim == 0:
        size = int(node.number(1))
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    else:
        sizes = node.integers(1)
    parts, start = list[Tensor](), 0
    for size in sizes:
        part = node.part(x, axis, start, size)
        shape = [n for d, n in enumerate(part.shape) if d != axis]
        parts.append(part if keep else node.reshape(part, shape))
        start += size
    return Several(tuple(parts))


@converts("Optional")
def optional(node: Node) -> Value:
    """A value, or none."""
    return node.inputs[0] if node.inputs else None


@converts("OptionalHasElement")
def optional_has_element(node: Node) -> Known:
    """Whether there is a value."""
    return Known(np.array(node.has(0)), BOOL)


@converts("OptionalGetElement")
def optional_get_element(node: Node) -> Value:
    """The value of an optional."""
    if not node.has(0):
        raise node.fault("the optional is empty")
    return node.inputs[0]
