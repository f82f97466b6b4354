"""Attach to each group the numbers that its kernel is to be built with."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from lamina.dialects import cache, nn, quant
from lamina.dialects.dims import Dim
from lamina.dialects.quant import ROWS
from lamina.dialects.tensors import extents
from lamina.dialects.tile import ScheduleAttr, values
from lamina.errors import LoweringError
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_in
from lamina.passes.kernels.linear_kernel import is_linear, shape_of

PRODUCTS = (quant.LinearOp, nn.DotGeneralOp)


@dataclass(frozen=True)
class ScheduleGroupsPass(ModulePass):
    """Every product has a schedule: rows `m`, columns `n`, and columns of K at once `k`.

    `few` are the columns of a tile of few rows (a branch of at most `few-rows`), `many` those of
    a tile of `rows` rows, of which a tile of several products has its part, `written` the most
    columns of a tile that goes into pages. A tile holds whole heads where a rope of halves ends
    it, and whole blocks where a quantisation does. `few-rows` rows make one entry of attention's
    work.
    """

    name = "schedule-groups"

    rows: int = 4
    many: int = 32
    few_rows: int = 1
    few: int = 64
    written: int = 32
    k: int = 8

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        self._block(groups, function.body.block, None)
        groups.drop_unused()

    def _block(self, groups: Groups, block: Block, few: Dim | None) -> None:
        for op in block.ops:
            if isinstance(op, nn.SwitchOp):
                bounds = (*values(op.bounds), None)
                for bound, branch in zip(bounds, op.branches, strict=True):
                    small = bound is not None and bound <= self.few_rows
                    self._block(groups, branch.block, Dim.of(op.value.data) if small else None)
        for call in calls_in(block):
            self._call(groups, call, few)

    def _call(self, groups: Groups, call: nn.CallOp, few: Dim | None) -> None:
        group = groups.called(call)
        name = group.sym_name.data
        match group.anchor.data:
            case "linear":
                name = groups.scheduled(name, self._linear(group, few))
            case "dot":
                name = groups.scheduled(name, ScheduleAttr.of(m=self.rows, n=self.few))
            case "attention" if few is not None and _work(group) != self.few_rows:
                name = groups.copy(name, (name, "block", self.few_rows), self._small_work)
            case _:
                return
        call.callee = type(call.callee)(name)

    def _linear(self, group: nn.GroupOp, few: Dim | None) -> ScheduleAttr:
        ops = body_ops(group)
        products = [op for op in ops if isinstance(op, PRODUCTS)]
        shape = shape_of(next(op for op in products if is_linear(op)))
        small = few is not None and shape.rows == few
        tiles = (self.few if small else self.many) // ROWS
        most, whole = max(1, tiles // len(products)), _grain(ops)
        if any(isinstance(op, cache.WriteOp) for op in ops):
            most = min(most, self.written // ROWS)
        most = max(most, whole.size)
        fits = [t for t in range(most, 0, -1) if shape.tiles % t == 0 and whole.allows(t)]
        if not fits:
            raise LoweringError(f"{group.sym_name.data}: no tile of columns fits {shape.columns}")
        rows = self.few_rows if small else max(1, self.rows // len(products))
        return ScheduleAttr.of(m=rows, n=fits[0] * ROWS, k=self.k)

    def _small_work(self, group: nn.GroupOp) -> None:
        for op in body_ops(group):
            if isinstance(op, cache.AttentionOp):
                op.block = IntegerAttr(self.few_rows, 64)


def _work(group: nn.GroupOp) -> int:
    """Return the tokens in an entry of a group's attention."""
    blocks = [op.block for op in body_ops(group) if isinstance(op, cache.AttentionOp)]
    return blocks[0].value.data


@dataclass(frozen=True)
class _Grain:
    """What a tile must hold, in tiles of 16 columns: whole units of `size`, or `exactly` one."""

    size: int = 1
    head: int | None = None
    exactly: bool = False

    def allows(self, tiles: int) -> bool:
        """Whether a tile of that many columns can be finished where it is."""
        if tiles % self.size:
            return False
        if self.head is None:
            return True
        return tiles == self.head if self.exactly else self.head % tiles == 0


def _grain(ops: list[Operation]) -> _Grain:
    size, head, exactly = 1, None, False
    first = next(i for i, op in enumerate(ops) if isinstance(op, PRODUCTS))
    for op in ops[first:]:
        match op:
            case nn.RopeOp():
                head = extents(op.x.type)[2].evaluate({}) // ROWS
                exactly = exactly or op.interleaved is None
            case cache.WriteOp():
                head = extents(op.x.type)[2].evaluate({}) // ROWS
            case quant.QuantizeOp():
                size = quant.BLOCK // ROWS
            case _:
                pass
    return _Grain(head if exactly and head else size, head, exactly)
