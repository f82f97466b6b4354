"""Groups that go through rows, once more general: numbers that are put beside, and rows of rows."""

from __future__ import annotations

from typing import Any, Final

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.passes.kernels.general_geometry import NUMBER
from lamina.passes.kernels.general_maps import general_map
from lamina.passes.kernels.named_axes import Values


def general_numbers(group: nn.GroupOp) -> tuple[nn.GroupOp, Values] | None:
    """Return a general map whose numbers are arguments, and where matrices are one of many.

    These are integers that a concatenation puts beside its parts, and turned matrices.
    """
    found = general_map(group)
    if found is None:
        return None
    new, values = found
    ops = list(new.body.block.ops)[:-1]
    for op in ops:
        if isinstance(op, nn.ConstantOp) and _is_put_beside(op):
            name = f"lamina.number{len(values)}"
            assert isinstance(op.value, IntegerAttr)
            values[name] = Dim.of(op.value.value.data)
            op.attributes[NUMBER] = StringAttr(name)
    if len(ops) == 1 and isinstance(ops[0], nn.TransposeOp) and len(extents(ops[0].y.type)) == 2:
        values[_MANY] = Dim.of(1)
        ops[0].perm = tile.ints([0, 2, 1])
        for value in (new.body.block.args[0], ops[0].y):
            _lift(value)
    return new, values


_MANY: Final = "lamina.many"
"""The symbol of how many matrices there are."""


def _is_put_beside(op: nn.ConstantOp) -> bool:
    whole = isinstance(op.value, IntegerAttr) and nn.element(op.y) == i64
    users: list[Operation] = [use.operation for use in op.y.uses]
    return whole and all(isinstance(user, nn.ConcatOp) for user in users)


def _lift(value: SSAValue) -> None:
    shape = (Dim.symbol(_MANY), *extents(value.type))
    kind: Any = tensor(nn.element(value), shape)
    Rewriter.replace_value_with_new_type(value, kind)
