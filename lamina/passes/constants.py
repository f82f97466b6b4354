"""Which values of a function depend on its weights alone."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from lamina.dialects import nn
from lamina.dialects.quant import BlocksType
from lamina.dialects.tensors import extents
from lamina.passes.functions import argument_attributes
from lamina.passes.kernels.named_dims import named_dims

STORED = ("lamina.weight", "lamina.packed")
"""Attributes of arguments that are weights, or made of them."""


def depends_on_weights(function: FuncOp) -> set[SSAValue]:
    """Return the values of static shape that no input and no state goes into."""
    found: set[SSAValue] = {
        arg
        for arg, attributes in argument_attributes(function)
        if any(name in attributes.data for name in STORED)
    }
    for op in function.body.block.ops:
        if is_constant(op, found):
            found |= set(op.results)
    return found


def is_constant(op: Operation, known: set[SSAValue]) -> bool:
    """Whether an operation gives tensors of static shape from values in `known` alone."""
    if isinstance(op, ReturnOp) or op.regions or not op.results:
        return False
    if isinstance(op, nn.ForeignOp) and op.texts is not None:
        return False
    fixed = all(operand in known for operand in op.operands)
    fixed = fixed and not any(dim.symbols for dim in named_dims(op))
    return fixed and all(map(_static, op.results))


def is_listed(op: Operation) -> bool:
    """Whether an operation is a constant with listed values."""
    return isinstance(op, nn.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr)


def _static(value: SSAValue) -> bool:
    if isinstance(value.type, BlocksType):
        return True
    try:
        return all(dim.constant is not None for dim in extents(value.type))
    except AttributeError:
        return False
