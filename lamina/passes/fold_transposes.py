"""Bring transposes together, so that those of neighbouring layouts undo each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import values
from lamina.passes.constants import depends_on_weights
from lamina.passes.functions import blocks_in, find_function
from lamina.passes.kernels.anchors import is_pointwise
from lamina.passes.reshaped_transposes import Order, Same, equal_extents, exchange, is_free
from lamina.passes.rewriting import erase_unused, replace_with


@dataclass(frozen=True)
class FoldTransposesPass(ModulePass):
    """Transposes come as late as they can, and two in a row are one, or none.

    f(transpose(x)) -> transpose(f(x)) for maps of elements, concatenations, paddings, slices, and
    rows that are looked up; a reduction is of the dimensions before. A reshape comes before the
    transpose if it splits dimensions or renames extents, or if transposes follow that take up what
    is left. What else a map takes has to have its other order for nothing: another transpose of
    this kind, a number, or one number for each place in a dimension. Weights stay as they are.
    What leaves all elements in their order is a reshape.
    """

    name = "fold-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        weights, same = depends_on_weights(function), equal_extents(function)
        for block in blocks_in(function.body.block):
            for each in list(block.ops):
                if each.results and not any(y in weights for y in each.results):
                    _fold(each, weights, same)
        for block in reversed(blocks_in(function.body.block)):
            for each in list(block.ops):
                if isinstance(each, nn.TransposeOp) and each.y not in weights:
                    _flatten(each)
            erase_unused(block)


def _fold(op: Operation, weights: set[SSAValue], same: Same) -> None:
    moved = [v.owner for v in op.operands if isinstance(v.owner, nn.TransposeOp)]
    moved = [each for each in moved if each.y not in weights]
    if not moved:
        return
    order = values(moved[0].perm)
    if isinstance(op, nn.ReshapeOp):
        _reshape(op, order, same)
    elif type(op) in RULES:
        RULES[type(op)](op, order)
    elif is_pointwise(op):
        _map(op, order)


def _reshape(op: nn.ReshapeOp, order: Order, same: Same) -> None:
    """reshape(transpose(x)) -> transpose(reshape(x)), or with a transpose of x if more follow."""
    found = exchange(op, order, same)
    if found is None:
        return
    x, new = cast("nn.TransposeOp", op.x.owner).x, list[Operation]()
    if list(found.before) != sorted(found.before):
        if not all(isinstance(use.operation, nn.TransposeOp) for use in op.y.uses):
            return
        x = _add(nn.TransposeOp(x, found.before), new)
    new.append(nn.ReshapeOp(x, found.shape, assumed=op.assumed is not None))
    _turn(op, new, found.after)


def _flatten(op: nn.TransposeOp) -> None:
    """transpose(x) -> reshape(x), where it moves dimensions of 1 alone"""
    if is_free(extents(op.x.type), values(op.perm)):
        new = nn.ReshapeOp(op.x, extents(op.y.type))
        replace_with(op, [new], [new.y])


def _map(op: Operation, order: Order) -> None:
    """f(transpose(x), …) -> transpose(f(x, …))"""
    shape = extents(op.results[0].type)
    if any(extents(v.type) != shape for v in (*op.operands, *op.results)):
        return
    new: list[Operation] = []
    operands = [_before(v, order, new) for v in op.operands]
    if any(v is None for v in operands):
        return
    types = [tensor(nn.element(y), _shape(shape, order)) for y in op.results]
    folded = type(op).create(
        operands=cast("Sequence[SSAValue]", operands),
        properties=op.properties,
        attributes=op.attributes,
        result_types=types,
    )
    _turn(op, [*new, folded], order)


def _before(value: SSAValue, order: Order, new: list[Operation]) -> SSAValue | None:
    """Return a value as it is before a transpose, if it is so for nothing."""
    owner = value.owner
    if isinstance(owner, nn.TransposeOp) and values(owner.perm) == order:
        return owner.x
    if isinstance(owner, nn.ConstantOp) and not isinstance(owner.value, DenseIntOrFPElementsAttr):
        shape = _shape(extents(value.type), order)
        return _add(nn.ConstantOp(owner.value, tensor(nn.element(value), shape)), new)
    if isinstance(owner, nn.BroadcastOp):
        return _repeated(owner, order, new)
    return None


def _repeated(op: nn.BroadcastOp, order: Order, new: list[Operation]) -> SSAValue | None:
    """Return what a tensor is repeated to, before a transpose; None if it would be turned too."""
    x, y = extents(op.x.type), extents(op.y.type)
    kept = [(n, order[d]) for n, d in zip(x, values(op.dims), strict=True) if n != 1]
    dims = [d for _, d in kept]
    if dims != sorted(dims):
        return None
    source: SSAValue = op.x
    if len(kept) != len(x):
        source = _add(nn.ReshapeOp(source, [n for n, _ in kept]), new)
    return _add(nn.BroadcastOp(source, dims, _shape(y, order)), new)


def _transpose(op: nn.TransposeOp, order: Order) -> None:
    """transpose(transpose(x)) -> transpose(x), or x"""
    inner = cast("nn.TransposeOp", op.x.owner)
    perm = [order[d] for d in values(op.perm)]
    if perm == sorted(perm):
        replace_with(op, [], [inner.x])
    else:
        new = nn.TransposeOp(inner.x, perm)
        replace_with(op, [new], [new.y])


def _concat(op: nn.ConcatOp, order: Order) -> None:
    parts = [_before(x, order, []) for x in op.xs]
    if all(isinstance(x.owner, nn.TransposeOp) for x in op.xs) and None not in parts:
        xs = cast("Sequence[SSAValue]", parts)
        _turn(op, [nn.ConcatOp(xs, order[op.dim.value.data])], order)


def _reduce(op: nn.ReduceOp, order: Order) -> None:
    dims = values(op.dims)
    if op.kind.data.startswith("arg") and len(dims) > 1:
        return
    x = cast("nn.TransposeOp", op.x.owner).x
    new = nn.ReduceOp(x, op.kind.data, sorted(order[d] for d in dims))
    rest = [order[d] for d in range(len(order)) if d not in dims]
    _turn(op, [new], tuple(sorted(rest).index(d) for d in rest))


def _pad(op: nn.PadOp, order: Order) -> None:
    low, high = (_shape(each, order) for each in (op.lows, op.highs))
    x = cast("nn.TransposeOp", op.x.owner).x
    _turn(op, [nn.PadOp(x, low, high, op.value)], order)


def _slice(op: nn.SliceOp, order: Order) -> None:
    x = cast("nn.TransposeOp", op.x.owner).x
    step = values(op.step)
    steps = [step[order.index(d)] for d in range(len(order))] if step else ()
    start, shape = _shape(op.starts, order), _shape(extents(op.y.type), order)
    _turn(op, [nn.SliceOp(x, start, shape, steps)], order)


def _gather(op: nn.GatherOp, order: Order) -> None:
    if not isinstance(op.x.owner, nn.TransposeOp) or len(extents(op.indices.type)) != 1:
        return
    _turn(op, [nn.GatherOp(op.x.owner.x, op.indices, order[op.axis.value.data])], order)


RULES: Final[dict[type[Operation], Callable[[Any, Order], None]]] = {
    nn.ConcatOp: _concat,
    nn.GatherOp: _gather,
    nn.PadOp: _pad,
    nn.ReduceOp: _reduce,
    nn.SliceOp: _slice,
    nn.TransposeOp: _transpose,
}
"""What is done about a transpose before each operation that maps no elements."""


def _turn(op: Operation, new: Sequence[Operation], order: Order) -> None:
    """Replace an operation by `new`, whose last one's results are transposed."""
    results: list[SSAValue] = list(new[-1].results)
    turned: list[Operation] = []
    if list(order) != sorted(order):
        turned = [nn.TransposeOp(y, order) for y in results]
        results = [each.results[0] for each in turned]
    for y, old in zip(new[-1].results, op.results, strict=True):
        y.name_hint = old.name_hint
    replace_with(op, [*new, *turned], results)


def _shape(shape: Sequence[Dim], order: Order) -> list[Dim]:
    """Return extents as they are before a transpose."""
    return [shape[order.index(d)] for d in range(len(order))]


def _add(op: Operation, new: list[Operation]) -> SSAValue:
    new.append(op)
    return op.results[0]
