"""Names for the dimensions of a group's values: symbols in place of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.passes.kernels.axes import Axes, Axis

Values = dict[str, Dim]
"""What symbols of a general group are in the group that it was made of."""


class NamedAxes:
    """What dimensions are called in a general group, and what its symbols are in this one."""

    def __init__(self, axes: Axes) -> None:
        self._axes, self._names = axes, dict[Axis, Dim]()
        self.values = Values()
        self.clear = True
        """Whether no dimension has two names, nor a symbol two values."""

    def symbol(self, name: str, value: Dim) -> Dim:
        """Return a symbol that is `value` in this group."""
        name = f"lamina.{name}"
        self.clear = self.clear and self.values.setdefault(name, value) == value
        return Dim.symbol(name)

    def call(self, axis: Axis, name: Dim) -> None:
        """Say what a dimension is called, and all that are the same."""
        self.clear = self.clear and self._names.setdefault(self._axes.of(axis), name) == name

    def name(self, axis: Axis) -> Dim:
        """Return what a dimension is called, or its extent."""
        value, d = axis
        return self._names.get(self._axes.of(axis), extents(cast("Any", value.type))[d])

    def write(self, values: Iterable[SSAValue]) -> None:
        """Give values types of the names of their dimensions; they are others then."""
        tensors = [value for value in values if isinstance(value.type, TensorType)]
        shapes = [self._shape(value) for value in tensors]
        for value, shape in zip(tensors, shapes, strict=True):
            Rewriter.replace_value_with_new_type(value, tensor(nn.element(value), shape))

    def _shape(self, value: SSAValue) -> list[Dim]:
        return [self.name((value, d)) for d in range(len(extents(cast("Any", value.type))))]


def values_of(group: nn.GroupOp) -> Iterator[SSAValue]:
    """Yield the values of a group."""
    block = group.body.block
    yield from list(block.args)
    for op in list(block.ops):
        yield from list(op.results)
