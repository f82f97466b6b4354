"""Sum up attention in parts of the positions, each by programs of its own where rows are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass

from lamina.arguments import whole_number
from lamina.dialects import cache, nn
from lamina.dialects.cache import PagesType
from lamina.dialects.tensors import extents
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, calls_in, substitute
from lamina.passes.kernels.block_rows import fits
from lamina.passes.rewriting import inherit_source
from lamina.passes.schedules.scheduled import branches

MOST_SUMS = 2048
"""Numbers that the rows of a token may have twice, of the part and of those before it: memory
that threads share has room for them beside queries and scores."""

_MOST = 1 << 24


@dataclass(frozen=True)
class ChooseSplitsPass(ModulePass):
    """Attention sums up parts of `span` positions, whole pages, one after another.

    It does so in all branches, so that a row's bits are the same in each. In branches of at most
    `rows` rows, parts are programs of their own: `cache.partial_attention` is a group, and
    `cache.merge`, with what followed attention, another. Attention whose rows have too many sums to
    keep them twice stays as it is. With `entry`, an entry of work has as many tokens as have about
    so many rows of a key-value head, and room, in all attention alike: `cache.block` of `@forward`.
    """

    name = "choose-splits"

    span: int = 256
    rows: int = 16
    entry: int | None = None

    def __post_init__(self) -> None:
        """Refuse sizes that no batch has: `InputError` names the option."""
        whole_number(self.span, "choose-splits: span", 1, _MOST)
        whole_number(self.rows, "choose-splits: rows", 1, _MOST)
        if self.entry is not None:
            whole_number(self.entry, "choose-splits: entry", 1, _MOST)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        found = [_attention(group.body.block) for group in groups.by_name.values()]
        attentions = [attention for attention in found if attention is not None]
        if self.entry is not None and attentions:
            block = IntegerAttr(min(_tokens(each, self.entry) for each in attentions), 64)
            function.attributes["cache.block"] = block
            for each in attentions:
                each.block = block
        for attention in attentions:
            _set_span(attention, self.span)
        splitting = _Splitting(groups, self.rows)
        for block, few in branches(function.body.block, self.rows):
            for call in calls_in(block) if few else ():
                splitting.split(call)
        groups.drop_unused()


def _attention(block: Block) -> cache.AttentionOp | None:
    return next((op for op in block.ops if isinstance(op, cache.AttentionOp)), None)


def _sizes(op: cache.AttentionOp) -> tuple[int, int, int]:
    """Return the rows of a token for a key-value head, the keys of a page, and a row's width."""
    kind = cast("PagesType", op.k.type)
    shared = extents(op.q.type)[1].evaluate({}) // kind.heads.value.data
    return shared, kind.page.value.data, kind.dim.value.data


def _tokens(op: cache.AttentionOp, entry: int) -> int:
    """Return how many tokens have about `entry` rows: a power of two for which there is room."""
    shared, page, width = _sizes(op)
    if shared * width > MOST_SUMS:
        return 1
    count = 1
    while 2 * count * shared <= entry and fits(2 * count * shared, page, width):
        count *= 2
    return count


def _set_span(op: cache.AttentionOp, span: int) -> None:
    """Let attention be summed up in parts of about `span` positions, if its sums have room."""
    (shared, page, width), tokens = _sizes(op), op.block.value.data
    room = tokens == 1 or fits(shared * tokens, page, width)
    if shared * width <= MOST_SUMS and room:
        op.span = IntegerAttr(max(1, span // page) * page, 64)


@dataclass(frozen=True)
class _Half:
    """A group that does a part of another's work: which of the other's arguments it takes."""

    name: str
    args: tuple[int, ...]

    def call(
        self, whole: nn.CallOp, first: Sequence[SSAValue], types: Sequence[Attribute]
    ) -> nn.CallOp:
        """Return a call with `first`, and with what the call of the other group gives it."""
        return nn.CallOp(self.name, [*first, *(whole.xs[n] for n in self.args)], types)


class _Splitting:
    """The groups of a module, and the halves of those that were split."""

    def __init__(self, groups: Groups, rows: int) -> None:
        self._groups, self._rows = groups, rows
        self._halves: dict[str, tuple[_Half, _Half, Attribute]] = {}

    def split(self, call: nn.CallOp) -> None:
        """Replace a call of attention in parts by one of its parts and one that merges them."""
        group = self._groups.called(call)
        attention, name = _attention(group.body.block), group.sym_name.data
        if attention is None or attention.span is None:
            return
        if name not in self._halves:
            self._halves[name] = self._split(group)
        partial, merge, type = self._halves[name]
        first = partial.call(call, [], [type])
        last = merge.call(call, first.ys, [y.type for y in call.ys])
        inherit_source([first], [call])
        assert call.parent is not None
        call.parent.insert_op_before(first, call)
        substitute([call], last, dict(zip(call.ys, last.ys, strict=True)), call)

    def _split(self, group: nn.GroupOp) -> tuple[_Half, _Half, Attribute]:
        partial, merge = group.body.clone(), group.body.clone()
        type = _let_give_parts(partial.block, self._rows)
        _let_take_parts(merge.block, type)
        return (
            self._half(group, "parts", partial, _without_unused(partial.block, 0)),
            self._half(group, "merge", merge, _without_unused(merge.block, 1)),
            type,
        )

    def _half(self, group: nn.GroupOp, what: str, body: Region, args: tuple[int, ...]) -> _Half:
        name = group.sym_name.data
        return _Half(self._groups.add((name, what), f"{name}_{what}", lambda: body), args)


def _let_give_parts(block: Block, rows: int) -> Attribute:
    """Let a copy of a group's body give the parts of its attention; return their type."""
    op, end = _attention(block), block.last_op
    assert op is not None
    assert op.span is not None
    assert end is not None
    partial = cache.PartialAttentionOp(
        op.q,
        op.k,
        op.v,
        (op.positions, op.query_start, op.table, op.work),
        scale=op.scale.value.data,
        block=op.block.value.data,
        span=op.span.value.data,
        rows=rows,
    )
    block.insert_op_before(partial, op)
    block.add_op(nn.YieldOp(partial.y))
    end.detach()
    end.erase()
    return partial.y.type


def _let_take_parts(block: Block, type: Attribute) -> None:
    """Let a copy of a group's body take the parts of its attention, as its first argument."""
    op = _attention(block)
    assert op is not None
    assert op.span is not None
    merge = cache.MergeOp(block.insert_arg(type, 0), op.positions, op.span.value.data)
    block.insert_op_before(merge, op)
    op.y.replace_all_uses_with(merge.y)


def _without_unused(block: Block, before: int) -> tuple[int, ...]:
    """Drop what a body does not need; return which arguments it takes behind those `before`."""
    for op in reversed(list(block.ops)[:-1]):
        if not any(y.uses for y in op.results):
            op.detach()
            op.erase()
    args = list(block.args)[before:]
    for arg in args:
        if not arg.uses:
            block.erase_arg(arg)
    return tuple(n for n, arg in enumerate(args) if arg.uses)
