"""Let what maps elements go on with rows of positions, whatever shape they are put in later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from lamina.dialects import nn
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import values
from lamina.passes.functions import blocks_in, find_function, operations_in
from lamina.passes.kernels.anchors import SIDE, is_pointwise
from lamina.passes.rewriting import erase_unused, inherit_source, replace_with

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class FoldPositionsPass(ModulePass):
    """Convolutions and pools give [positions, channels], and what maps elements of such rows does.

    map(reshape(rows)) -> reshape(map(rows)), as long as the channels stay the last dimension: so
    that a bias, an activation or a residual can follow in one kernel.
    """

    name = "fold-positions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        for each in operations_in(function):
            if isinstance(each, nn.ConvOp | nn.PoolOp):
                _flatten(each)
            elif is_pointwise(each):
                rows = _rows(each)
                if rows is not None:
                    _fold(each, rows)
        for block in blocks_in(function.body.block):
            erase_unused(block)


def _flatten(op: nn.ConvOp | nn.PoolOp) -> None:
    """Let an operation of windows give rows, and a reshape what it gave."""
    shape = extents(op.y.type)
    if len(shape) == 2:
        return
    flat = [product(shape[:-1]), shape[-1]]
    y = Rewriter.replace_value_with_new_type(op.y, tensor(nn.element(op.y), flat))
    back = nn.ReshapeOp(y, shape)
    inherit_source([back], [op])
    assert op.parent is not None
    op.parent.insert_op_after(back, op)
    back.y.name_hint = y.name_hint
    y.replace_uses_with_if(back.y, lambda use: use.operation is not back)


def _rows(op: Operation) -> Shape | None:
    """Return the rows that an operation can go on with, None if there are none."""
    shapes = {extents(value.type) for value in (*op.operands, *op.results)}
    if len(shapes) != 1 or len(shape := shapes.pop()) <= 2:
        return None
    rows = (product(shape[:-1]), shape[-1])
    if not any(_is_of_rows(value, rows) for value in op.operands):
        return None
    return rows if all(_is_free(value, rows) for value in op.operands) else None


def _is_of_rows(value: SSAValue, rows: Shape) -> bool:
    return isinstance(value.owner, nn.ReshapeOp) and extents(value.owner.x.type) == rows


def _is_free(value: SSAValue, rows: Shape) -> bool:
    """Whether a value has a form as rows that costs nothing where it is used."""
    owner = value.owner
    if isinstance(owner, nn.ConstantOp):
        return not isinstance(owner.value, DenseIntOrFPElementsAttr)
    if isinstance(owner, nn.BroadcastOp):
        return _repeats_channels(owner)
    return _is_of_rows(value, rows) or isinstance(owner, Block) or not isinstance(owner, SIDE)


def _repeats_channels(op: nn.BroadcastOp) -> bool:
    """Whether what is repeated has one number for each channel, or for all."""
    x, dims, last = extents(op.x.type), values(op.dims), len(extents(op.y.type)) - 1
    return all(n == 1 or d == last for n, d in zip(x, dims, strict=True))


def _fold(op: Operation, rows: Shape) -> None:
    new: list[Operation] = []
    operands = [_as_rows(value, rows, new) for value in op.operands]
    types = [tensor(nn.element(y), rows) for y in op.results]
    folded = type(op).create(
        operands=operands,
        properties=op.properties,
        attributes=op.attributes,
        result_types=types,
    )
    new.append(folded)
    back = [
        nn.ReshapeOp(y, extents(old.type))
        for y, old in zip(folded.results, op.results, strict=True)
    ]
    for y, old in zip(folded.results, op.results, strict=True):
        y.name_hint = old.name_hint
    replace_with(op, [*new, *back], [each.y for each in back])


def _as_rows(value: SSAValue, rows: Shape, new: list[Operation]) -> SSAValue:
    owner = value.owner
    if _is_of_rows(value, rows):
        return cast("nn.ReshapeOp", owner).x
    if isinstance(owner, nn.ConstantOp):
        kind = cast("TensorType[Any]", value.type).get_element_type()
        return _add(nn.ConstantOp(owner.value, tensor(kind, rows)), new)
    if isinstance(owner, nn.BroadcastOp):
        x, channels = owner.x, extents(owner.x.type)
        total = product(channels)
        wanted: Sequence[Dim] = () if total == 1 and rows[-1] != 1 else (total,)
        if channels != tuple(wanted):
            x = _add(nn.ReshapeOp(x, wanted), new)
        return _add(nn.BroadcastOp(x, [1] if wanted else [], rows), new)
    return _add(nn.ReshapeOp(value, rows), new)


def _add(op: Operation, new: list[Operation]) -> SSAValue:
    new.append(op)
    return op.results[0]
