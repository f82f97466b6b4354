"""Find a module's functions, and read or change the attributes of their arguments."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation

from lamina.dialects import nn

EMPTY = DictionaryAttr({})


def find_function(module: ModuleOp, name: str) -> FuncOp | None:
    """Return the function of this name, or None."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == name:
            return op
    return None


def argument_attributes(function: FuncOp) -> Iterator[tuple[BlockArgument, DictionaryAttr]]:
    """Yield each argument with its attributes."""
    found = function.arg_attrs.data if function.arg_attrs else ()
    for arg in function.body.block.args:
        yield arg, found[arg.index] if arg.index < len(found) else EMPTY


def result_attributes(function: FuncOp) -> list[DictionaryAttr]:
    """Return the attributes of each result."""
    count = len(function.function_type.outputs)
    return list(function.res_attrs.data) if function.res_attrs else [EMPTY] * count


def blocks_in(block: Block) -> list[Block]:
    """Return a block, and those of the branches of its switches."""
    found = [block]
    for op in block.ops:
        if isinstance(op, nn.SwitchOp):
            for branch in op.branches:
                found += blocks_in(branch.block)
    return found


def operations_in(function: FuncOp) -> list[Operation]:
    """Return the operations of a function, those in branches of its switches among them."""
    return [op for block in blocks_in(function.body.block) for op in block.ops]


def retype(function: FuncOp) -> None:
    """Bring a function's type in line with its arguments and its terminator."""
    function.update_function_type()
