"""Which kernel builder an operation belongs to, and what may be fused into a kernel's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from xdsl.ir import Operation, SSAValue

from lamina.dialects import cache, nn, quant
from lamina.dialects.dims import Dim
from lamina.dialects.quant import BLOCK, ROWS
from lamina.dialects.tensors import extents
from lamina.dialects.tile import values
from lamina.dialects.traits import Elementwise
from lamina.passes.kernels.attention_kernel import piece_of
from lamina.passes.kernels.dot_kernel import COLUMNS, has_tiles
from lamina.passes.kernels.linear_kernel import is_linear
from lamina.passes.kernels.merge_kernel import merged_heads
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import COMBINE, STATISTICS, chunk_of
from lamina.passes.kernels.tiles import splits


def is_pointwise(op: Operation) -> bool:
    """Whether an operation's results at an element need its operands there only."""
    return op.has_trait(Elementwise, value_if_unregistered=False)


SIDE: tuple[type[Operation], ...] = (nn.BroadcastOp, nn.ConstantOp, nn.ExtentsOp, nn.IotaOp)
"""What may stand beside a tile's way, on other operands."""


SHUFFLED = 8
"""Groups of channels that a convolution's end may turn: a program has sums of all of them."""


ENDING = (
    "attention",
    "contraction",
    "conv",
    "dot",
    "linear",
    "merge",
    "pool",
    "reduce",
    "rows",
    "softmax",
    "winograd",
)
"""Anchors whose kernels store a whole tile at a time (`Kernel.store`), which an end may follow."""


ANCHORS: dict[type[Operation], str] = {
    nn.ForeignOp: "foreign",
    cache.AttentionOp: "attention",
    cache.MergeOp: "merge",
    cache.PartialAttentionOp: "partial_attention",
    nn.ConvOp: "conv",
    nn.PoolOp: "pool",
    nn.RecurrentOp: "recurrent",
    nn.ScanOp: "scan",
    nn.ScatterElementsOp: "scatter",
    nn.ScatterNdOp: "scatter",
    nn.SortOp: "sort",
    nn.WinogradOp: "winograd",
    quant.LinearOp: "linear",
}
"""The builders of operations that have one, whatever their attributes."""


def anchor_of(op: Operation) -> str:
    """Return the builder that makes a kernel of an operation that stands alone."""
    match op:
        case nn.DotGeneralOp():
            tiled = "dot" if has_tiles(op) else "contraction"
            return "linear" if is_linear(op) else tiled
        case nn.ReduceOp() if not _is_row_fold(op):
            return "reduce"
        case nn.SoftmaxOp() if op.axis.value.data != len(extents(op.x.type)) - 1:
            return "softmax"
        case _:
            return ANCHORS.get(type(op), "rows")


def _is_row_fold(op: nn.ReduceOp) -> bool:
    """Whether a reduction gives a number a row, and is done where the row is."""
    return values(op.dims) == (len(extents(op.x.type)) - 1,) and op.kind.data in COMBINE


def group_anchor(ops: Sequence[Operation]) -> str:
    """Return the builder of a group's operations: that of the first which has tiles of its own."""
    return next((anchor_of(op) for op in ops if is_product(op)), "rows")


def is_product(op: Operation) -> bool:
    """Whether an operation is one whose kernel has tiles of its own."""
    return anchor_of(op) != "rows"


def has_statistics(ops: Sequence[Operation]) -> bool:
    """Whether any of the operations needs to know its row first."""
    return any(type(op) in STATISTICS for op in ops)


@dataclass(frozen=True)
class Grain:
    """What a tile of an anchor's result holds: rows of its first dimensions, columns of the rest.

    The first `lead` dimensions stay apart. The others, as one, are cut in pieces of `columns`
    elements; a `flexible` anchor may take any multiple of `columns` that suits. One of `groups`
    keeps its rows' dimensions as they are, groups and channels of each, but may turn the two.
    """

    lead: int
    columns: int
    flexible: bool = False
    groups: int = 1

    @staticmethod
    def of(ops: Sequence[Operation]) -> Grain | None:
        """Return the grain of a group's anchor; None if nothing can follow, or all is a map."""
        if group_anchor(ops) not in ENDING:
            return None
        products = [op for op in ops if is_product(op)]
        rows = [op for op in ops if type(op) in STATISTICS]
        return next((_grain(op) for op in (*products, *rows)), None)

    def holds(self, shape: tuple[Dim, ...]) -> bool:
        """Whether a tile is a box in a tensor of this shape, which has the anchor's elements."""
        rest = shape[self.lead :]
        if self.flexible and rest:
            return len(rest) == 1 or rest[-1] % self.columns == 0
        return bool(rest) and splits(rest, self.columns)

    def keeps(self, op: nn.ReshapeOp) -> bool:
        """Whether a tile is a box before a reshape and after it."""
        before, after = extents(op.x.type), extents(op.y.type)
        if self.groups > 1:
            return before == after
        same = before[: self.lead] == after[: self.lead]
        return same and self.holds(before) and self.holds(after)

    def shuffles(self, op: nn.TransposeOp) -> bool:
        """Whether an operation turns few groups and the channels of each."""
        groups = extents(op.x.type)[1:2]
        return values(op.perm) == (0, 2, 1) and groups == (self.groups,) and self.groups <= SHUFFLED

    def turns(self, op: nn.RopeOp) -> bool:
        """Whether a tile can hold the pairs that a rope rotates, of one head."""
        width, half = extents(op.x.type)[-1], extents(op.cos.type)[-1]
        if op.interleaved is not None:
            return half * 2 == width and (self.flexible or width % self.columns == 0)
        return self.flexible or width == self.columns


def _grain(op: Operation) -> Grain:
    anchor = anchor_of(op)
    if anchor == "linear":
        return Grain(1, ROWS, flexible=True)
    if isinstance(op, cache.AttentionOp):
        return Grain(1, piece_of(op))
    if isinstance(op, cache.MergeOp):
        return Grain(1, merged_heads(op) * extents(op.y.type)[2].evaluate({}))
    if isinstance(op, nn.ConvOp) and op.parted:
        return Grain(1, 1, groups=op.groups.value.data)
    if isinstance(op, nn.ConvOp | nn.PoolOp | nn.WinogradOp):
        return Grain(1, 1)
    shape = extents(op.operands[0].type if anchor == "rows" else op.results[0].type)
    widest = COLUMNS if anchor == "dot" else WIDEST
    return Grain(len(shape) - 1, chunk_of(shape[-1], widest)) if shape else Grain(0, 1)


def is_end(ops: Sequence[Operation], made: set[SSAValue], grain: Grain) -> bool:
    """Whether operations can follow an anchor tile by tile; `made` are its results.

    What is repeated may not be of the anchor's making.
    """
    derived = set(made)
    for op in ops:
        touched = any(operand in derived for operand in op.operands)
        if not _follows(op, grain) and (touched or not isinstance(op, SIDE)):
            return False
        if touched:
            derived |= set(op.results)
    return True


def _follows(op: Operation, grain: Grain) -> bool:
    """Whether an operation gives a tile's columns of the result from the operands' alone."""
    rule = FOLLOWING.get(type(op))
    return is_pointwise(op) if rule is None else rule(op, grain)


def _is_narrowing(op: nn.SliceOp) -> bool:
    """Whether a slice only cuts off the padding of a packed weight's last tile of columns."""
    before, after = extents(op.x.type), extents(op.y.type)
    cut = (before[-1] - after[-1]).constant
    kept = before[:-1] == after[:-1] and cut is not None and cut < ROWS
    return kept and all(start == 0 for start in op.starts) and op.step is None


FOLLOWING: Final[dict[type[Operation], Callable[[Any, Grain], bool]]] = {
    nn.ReshapeOp: lambda op, grain: grain.keeps(op),
    nn.SliceOp: lambda op, grain: grain.flexible and _is_narrowing(op),
    nn.TransposeOp: lambda op, grain: grain.groups > 1 and grain.shuffles(op),
    nn.RopeOp: lambda op, grain: grain.turns(op),
    quant.QuantizeOp: lambda op, grain: (
        grain.lead == 1 and (grain.flexible or grain.columns % BLOCK == 0)
    ),
    cache.WriteOp: lambda op, grain: grain.holds(extents(op.x.type)),
}
"""What may follow an anchor beside maps of elements, and when."""
