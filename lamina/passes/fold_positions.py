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
    that a bias, an activation or a residual can follow in one kernel. Convolutions of several
    groups give [positions, groups, channels of each]; a shuffle of channels turns the last two.
    """

    name = "fold-positions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        for each in operations_in(function):
            if isinstance(each, nn.ConvOp | nn.PoolOp | nn.WinogradOp):
                _flatten(each)
            elif is_pointwise(each):
                rows = _rows(each)
                if rows is not None:
                    _fold(each, rows)
            elif isinstance(each, nn.TransposeOp):
                _turn(each)
        for block in blocks_in(function.body.block):
            erase_unused(block)


def _flatten(op: nn.ConvOp | nn.PoolOp | nn.WinogradOp) -> None:
    """Let an operation of windows give rows, and a reshape what it gave."""
    shape = extents(op.y.type)
    if len(shape) == 2:
        return
    flat = [product(shape[:-1]), shape[-1]]
    groups = op.groups.value.data if isinstance(op, nn.ConvOp) and not op.depthwise else 1
    if groups > 1 and flat[0] != 0:
        flat[1:] = [Dim.of(groups), shape[-1] // groups]
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
    found = (_rows_before(value, shape) for value in op.operands)
    rows = next((rows for rows in found if rows is not None), None)
    if rows is None:
        return None
    return rows if all(_is_free(value, rows) for value in op.operands) else None


def _rows_before(value: SSAValue, shape: Shape) -> Shape | None:
    """Return the rows that a value of a shape is a reshape of, their channels maybe in groups."""
    if not isinstance(value.owner, nn.ReshapeOp):
        return None
    rows = extents(value.owner.x.type)
    wanted = (product(shape[:-1]), shape[-1])
    same = 2 <= len(rows) <= 3 and (rows[0], product(rows[1:])) == wanted
    return (
        rows if same and rows != shape and (len(rows) == 2 or _is_parted(value.owner.x)) else None
    )


def _is_parted(value: SSAValue) -> bool:
    """Whether rows have their channels in groups, by what gave them."""
    while not isinstance(owner := value.owner, Block):
        if isinstance(owner, nn.ConvOp):
            return owner.parted
        if not is_pointwise(owner):
            return False
        same = (v for v in owner.operands if extents(v.type) == extents(value.type))
        found = (v for v in same if not isinstance(v.owner, SIDE))
        if (before := next(found, None)) is None:
            return False
        value = before
    return False


def _is_of_rows(value: SSAValue, rows: Shape) -> bool:
    return isinstance(value.owner, nn.ReshapeOp) and extents(value.owner.x.type) == rows


def _is_free(value: SSAValue, rows: Shape) -> bool:
    """Whether a value has a form as rows that costs nothing where it is used."""
    owner = value.owner
    if isinstance(owner, nn.ConstantOp):
        return not isinstance(owner.value, DenseIntOrFPElementsAttr)
    if isinstance(owner, nn.BroadcastOp):
        return repeats_channels(owner)
    return _is_of_rows(value, rows) or isinstance(owner, Block) or not isinstance(owner, SIDE)


def repeats_channels(op: nn.BroadcastOp) -> bool:
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


def _turn(op: nn.TransposeOp) -> None:
    """transpose(reshape(rows)) -> reshape(transpose(rows)), of the groups and their channels"""
    x, perm = op.x, list(values(op.perm))
    last = len(perm) - 1
    while isinstance(x.owner, nn.ReshapeOp) and x.owner.assumed is None:
        x = x.owner.x
    rows, shape = extents(x.type), extents(op.x.type)
    swapped = perm == [*range(last - 1), last, last - 1]
    if x is op.x or len(rows) != 3 or rows[1:] != shape[-2:] or not swapped or not _is_parted(x):
        return
    turned = nn.TransposeOp(x, [0, 2, 1])
    back = nn.ReshapeOp(turned.y, extents(op.y.type))
    replace_with(op, [turned, back], [back.y])


def _as_rows(value: SSAValue, rows: Shape, new: list[Operation]) -> SSAValue:
    owner = value.owner
    if _is_of_rows(value, rows):
        return cast("nn.ReshapeOp", owner).x
    if isinstance(owner, nn.ConstantOp):
        kind = cast("TensorType[Any]", value.type).get_element_type()
        return _add(nn.ConstantOp(owner.value, tensor(kind, rows)), new)
    if isinstance(owner, nn.BroadcastOp):
        x, channels = owner.x, extents(owner.x.type)
        last = product(rows[1:])
        wanted: Sequence[Dim] = rows[1:] if product(channels) != 1 or last == 1 else ()
        if channels != tuple(wanted):
            x = _add(nn.ReshapeOp(x, wanted), new)
        return _add(nn.BroadcastOp(x, range(1, 1 + len(wanted)), rows), new)
    return _add(nn.ReshapeOp(value, rows), new)


def _add(op: Operation, new: list[Operation]) -> SSAValue:
    new.append(op)
    return op.results[0]
