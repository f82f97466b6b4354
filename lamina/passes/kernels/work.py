"""What a group's kernel does, in numbers: the bytes it moves and its products' operations.

Only what is sure is counted: rows that a gather may take count as many as it takes, the past
tokens that an attention reads depend on the batch. Operations that no table names count 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Final, cast

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import cache, nn, quant, tile
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim, product
from lamina.dialects.plan import element_bytes
from lamina.dialects.tensors import extents

Count = Dim | None
"""A number of bytes or operations; None where it depends on data."""


def work_of(group: nn.GroupOp) -> dict[str, Count]:
    """Return what one call of the group's kernel does, by `tile.WORK`, in the group's symbols."""
    ops = list(group.body.block.ops)[:-1]
    yields = cast("nn.YieldOp", group.body.block.last_op).ys
    written = [_bytes(y.type) for y in yields if not isinstance(y.type, PagesType)]
    moved: list[Count] = [*(_read(arg) for arg in group.body.block.args), *written]
    done: dict[str, list[Count]] = {"float": [], "integer": []}
    for op in ops:
        if type(op) in OPERATIONS:
            done[_kind(op)].append(OPERATIONS[type(op)](op))
    return {"bytes": _sum(moved)} | {kind: _sum(counts) for kind, counts in done.items()}


def _dot(op: nn.DotGeneralOp) -> Count:
    summed = (extents(op.a.type)[a] for a, _ in tile.pairs(op.contract))
    return product((*extents(op.y.type), *summed)) * 2


def _linear(op: quant.LinearOp) -> Count:
    return product((*extents(op.q.type), extents(op.y.type)[1])) * 2


def _conv(op: nn.ConvOp) -> Count:
    window = extents(op.w.type)[1 : -1 if op.packed is None else -2]
    return product((*extents(op.y.type), *window, op.depth)) * 2


def _winograd(op: nn.WinogradOp) -> Count:
    """Return the operations on transformed tiles: less than those that they stand for."""
    return product((*op.tiles, op.depth, op.outputs)) * (2 * op.reach**2)


OPERATIONS: Final[dict[type[Operation], Callable[[Any], Count]]] = {
    cache.AttentionOp: lambda op: None,
    cache.PartialAttentionOp: lambda op: None,
    nn.ConvOp: _conv,
    nn.DotGeneralOp: _dot,
    nn.WinogradOp: _winograd,
    quant.LinearOp: _linear,
}
"""The operations of each kind of product."""


def _kind(op: Operation) -> str:
    if isinstance(op, quant.LinearOp):
        return "integer"
    whole = isinstance(op, nn.ConvOp | nn.DotGeneralOp)
    return "integer" if whole and not isinstance(nn.element(op.operands[0]), AnyFloat) else "float"


def _gathered(op: nn.GatherOp | nn.SliceOp) -> Count:
    return product(extents(op.y.type))


def _same(op: nn.CastOp | nn.ReshapeOp | nn.TransposeOp) -> Count:
    return _needed(op.y)


def _dequantized(op: quant.DequantizeOp) -> Count:
    return _needed(op.y)


PARTS: Final[dict[type[Operation], Callable[[Any], Count]]] = {
    cache.AttentionOp: lambda op: None,
    cache.PartialAttentionOp: lambda op: None,
    cache.WriteOp: lambda op: product(extents(op.x.type)),
    nn.CastOp: _same,
    nn.GatherOp: _gathered,
    nn.ReshapeOp: _same,
    nn.SliceOp: _gathered,
    nn.TransposeOp: _same,
    quant.DequantizeOp: _dequantized,
}
"""How many elements an operation takes of its first operand (or of its pages) that does not take
all; a weight in blocks has as many as the numbers that it stands for."""


def _read(arg: SSAValue) -> Count:
    """Return the bytes of an argument that are read, or, of a page pool, written."""
    whole, needed = _bytes(arg.type), _needed(arg)
    if needed is None or needed == _elements(arg):
        return None if needed is None else whole
    size, numbers = whole.constant, _elements(arg).constant
    if size is not None and numbers is not None:
        return whole if numbers == 0 else (needed * size // numbers).minimum(size)
    return needed * element_bytes(_tensor(arg.type).get_element_type())


def _elements(value: SSAValue) -> Dim:
    """Return the numbers in a value; of a part of a weight in blocks, those of the weight."""
    for use in value.uses:
        if isinstance(use.operation, quant.DequantizeOp):
            return product(extents(use.operation.y.type))
    return product(extents(_tensor(value.type)))


def _needed(value: SSAValue) -> Count:
    """Return how many elements of a value are needed, at most all of them."""
    total: Count = Dim.of(0)
    for use in value.uses:
        op = use.operation
        pages = isinstance(value.type, PagesType)
        first = use.index == 0 or isinstance(op, quant.DequantizeOp) or pages
        if type(op) not in PARTS or not first:
            return _elements(value)
        part = PARTS[type(op)](op)
        if part is None:
            return None
        total = total + part
    return total


def _bytes(type: Attribute) -> Dim:
    return product(extents(_tensor(type))) * element_bytes(_tensor(type).get_element_type())


def _tensor(type: Attribute) -> TensorType[Any]:
    return type.storage if isinstance(type, PagesType) else cast("TensorType[Any]", type)


def _sum(counts: Iterable[Count]) -> Count:
    known: list[Dim] = []
    for count in counts:
        if count is None:
            return None
        known.append(count)
    return reduce(Dim.__add__, known, Dim.of(0))
