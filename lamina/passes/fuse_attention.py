"""Recognise causal attention over cached pages in its parts, and make it one operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import OpResult, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import cache, nn
from lamina.dialects.tensors import extents
from lamina.dialects.tile import pairs
from lamina.passes.functions import argument_attributes, find_function
from lamina.passes.rewriting import replace_with

ROLES = ("positions", "query_start", "table", "work")


@dataclass(frozen=True)
class Parts:
    """What attention is made of: queries [T, H, G, D], pools, and the scores' scale."""

    q: SSAValue
    keys: cache.ReadOp
    values: cache.ReadOp
    scale: float


def match_attention(op: nn.DotGeneralOp) -> Parts | None:
    """Match `softmax(select(key <= position, (q · keys) * scale, -inf)) · values`."""
    softmax, values = _owner(op.a, nn.SoftmaxOp), _owner(op.b, cache.ReadOp)
    if softmax is None or values is None or pairs(op.contract) != ((3, 1),):
        return None
    select = _owner(softmax.x, nn.SelectOp)
    if select is None or softmax.axis.value.data != 3 or _fill(select.b) != float("-inf"):
        return None
    mul = _owner(select.a, nn.MulOp)
    scale = None if mul is None else _fill(mul.b)
    dot = None if mul is None else _owner(mul.a, nn.DotGeneralOp)
    if dot is None or scale is None or pairs(dot.contract) != ((3, 3),):
        return None
    keys = _owner(dot.b, cache.ReadOp)
    heads = ((0, 0), (1, 2))
    if keys is None or pairs(dot.batch) != heads or pairs(op.batch) != heads:
        return None
    same = (keys.positions, keys.sequence, keys.table) == (
        values.positions,
        values.sequence,
        values.table,
    )
    if not same or not _is_causal(select.c, keys.positions):
        return None
    return Parts(dot.a, keys, values, scale)


def _is_causal(mask: SSAValue, positions: SSAValue) -> bool:
    """Whether a mask [T, H, G, L] says `key number <= position of the token`."""
    compare = _owner(mask, nn.CompareOp)
    if compare is None or compare.kind.data != "le":
        return False
    place, own = _owner(compare.a, nn.BroadcastOp), _owner(compare.b, nn.BroadcastOp)
    if place is None or own is None or own.x is not positions:
        return False
    iota = _owner(place.x, nn.IotaOp)
    places = place.dims.get_values() == (3,) and own.dims.get_values() == (0,)
    return iota is not None and places and len(extents(iota.y.type)) == 1


def _owner(value: SSAValue, kind: type[Any]) -> Any:
    return value.op if isinstance(value, OpResult) and isinstance(value.op, kind) else None


def _fill(value: SSAValue) -> float | None:
    match _owner(value, nn.ConstantOp):
        case nn.ConstantOp(value=FloatAttr() as number):
            return cast("FloatAttr[Any]", number).value.data
        case _:
            return None


@dataclass(frozen=True)
class FuseAttentionPass(ModulePass):
    """Attention over pages is `cache.attention`, an entry of its work being about `rows` rows.

    A token has a row for each query head that shares a key-value head. The tokens of an entry are
    the same for all layers; `@forward` says how many in its attribute `cache.block`.
    """

    name = "fuse-attention"

    rows: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        batch = _batch(function) if function else None
        if function is None or batch is None:
            return
        found: dict[nn.DotGeneralOp, Parts] = {}
        for each in function.body.block.ops:
            if isinstance(each, nn.DotGeneralOp) and (parts := match_attention(each)):
                found[each] = parts
        shared = [extents(parts.q.type)[2].evaluate({}) for parts in found.values()]
        block = max(1, self.rows // max(shared, default=1))
        for each, parts in found.items():
            _fuse(each, parts, batch, block)
        if found:
            function.attributes["cache.block"] = IntegerAttr(block, 64)


def _fuse(
    op: nn.DotGeneralOp,
    parts: Parts,
    batch: tuple[SSAValue, SSAValue, SSAValue, SSAValue],
    block: int,
) -> None:
    tokens, heads, groups, width = extents(parts.q.type)
    flat = nn.ReshapeOp(parts.q, [tokens, heads * groups, width])
    pools = (parts.keys.pages, parts.values.pages)
    attention = cache.AttentionOp(flat.y, *pools, batch, scale=parts.scale, block=block)
    back = nn.ReshapeOp(attention.y, [tokens, heads, groups, width])
    replace_with(op, [flat, attention, back], [back.y])


def _batch(function: FuncOp) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue] | None:
    """Return the arguments that describe a ragged batch, if the function has them."""
    found: dict[str, SSAValue] = {}
    for arg, attributes in argument_attributes(function):
        match attributes.data.get("cache.role"):
            case StringAttr(data=role):
                found[role] = arg
            case _:
                pass
    if not all(role in found for role in ROLES):
        return None
    return found["positions"], found["query_start"], found["table"], found["work"]
