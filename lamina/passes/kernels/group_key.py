"""What a group's kernel depends on: two groups of one key have the same kernel."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import nn
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.kernels.kernel import group_symbols
from lamina.passes.kernels.named_dims import named_dims, naming
from lamina.passes.kernels.shared_checks import SHARED
from lamina.passes.rewriting import SOURCE

Key = tuple[object, ...]
Names = dict[str, Dim | int | str]


def kernel_key(group: nn.GroupOp) -> Key:
    """Return anchor, schedule and operations of a group, its symbols and values by number.

    Nodes that checks name are left out where a kernel may name any of several.
    """
    names: Names = {s: Dim.symbol(f"n{i}") for i, s in enumerate(group_symbols(group))}
    numbers: dict[SSAValue, int] = {arg: i for i, arg in enumerate(group.body.block.args)}
    parts: list[object] = [group.anchor, group.schedule]
    parts += [_type(arg.type, names) for arg in group.body.block.args]
    for op in group.body.block.ops:
        numbers |= {result: len(numbers) + i for i, result in enumerate(op.results)}
        parts.append(_operation(op, names, numbers))
    return tuple(parts)


def _operation(op: Operation, names: Names, numbers: dict[SSAValue, int]) -> Key:
    named = naming(op)
    return (
        op.name,
        None if isinstance(op, SHARED) else op.attributes.get(SOURCE),
        tuple(numbers[operand] for operand in op.operands),
        tuple(str(dim.substitute(names)) for dim in named_dims(op)),
        tuple(item for item in sorted(op.properties.items()) if item[0] not in named),
        tuple(_type(result.type, names) for result in op.results),
    )


def _type(type: Attribute, names: Names) -> object:
    if isinstance(type, PagesType):
        return ("pages", type.page, type.tile, _type(type.storage, names))
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Any]", type)
        shape = (str(dim.substitute(names)) for dim in extents(tensor))
        return (tensor.get_element_type(), *shape)
    return type
