"""Attach to each group the numbers that its kernel is to be built with."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from lamina.dialects import cache, nn, quant
from lamina.dialects.quant import ROWS
from lamina.dialects.tensors import extents
from lamina.dialects.tile import ScheduleAttr, values
from lamina.errors import LoweringError
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_in
from lamina.passes.kernels.linear_kernel import is_linear, shape_of
from lamina.passes.kernels.tiles import splits

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
        self._block(groups, function.body.block, small=False)
        groups.drop_unused()

    def _block(self, groups: Groups, block: Block, *, small: bool) -> None:
        for op in block.ops:
            if isinstance(op, nn.SwitchOp):
                bounds = (*values(op.bounds), None)
                for bound, branch in zip(bounds, op.branches, strict=True):
                    few = bound is not None and bound <= self.few_rows
                    self._block(groups, branch.block, small=few)
        for call in calls_in(block):
            self._call(groups, call, small=small)

    def _call(self, groups: Groups, call: nn.CallOp, *, small: bool) -> None:
        group = groups.called(call)
        name = group.sym_name.data
        match group.anchor.data:
            case "linear":
                name = groups.scheduled(name, self._linear(group, small=small))
            case "dot":
                name = groups.scheduled(name, ScheduleAttr.of(m=self.rows, n=self.few))
            case "attention" if small and _work(group) != self.few_rows:
                name = groups.copy(name, (name, "block", self.few_rows), self._small_work)
            case _:
                return
        call.callee = type(call.callee)(name)

    def _linear(self, group: nn.GroupOp, *, small: bool) -> ScheduleAttr:
        ops = body_ops(group)
        products = [op for op in ops if isinstance(op, PRODUCTS)]
        shape = shape_of(next(op for op in products if is_linear(op)))
        most = (self.few if small else self.many) // ROWS // len(products)
        if any(isinstance(op, cache.WriteOp) for op in ops):
            most = min(most, self.written // ROWS)
        end = ops[ops.index(products[0]) :]
        # A wider tile than wished for is better than one that its end cannot finish.
        wished = (*range(most, 0, -1), *range(max(1, most + 1), shape.tiles + 1))
        for tiles in wished:
            fits = shape.tiles % tiles == 0
            if fits and all(_finishes(op, tiles * ROWS) for op in end):
                rows = self.few_rows if small else max(1, self.rows // len(products))
                return ScheduleAttr.of(m=rows, n=tiles * ROWS, k=self.k)
        raise LoweringError(f"{group.sym_name.data}: no tile of columns fits {shape.columns}")

    def _small_work(self, group: nn.GroupOp) -> None:
        for op in body_ops(group):
            if isinstance(op, cache.AttentionOp):
                op.block = IntegerAttr(self.few_rows, 64)


def _work(group: nn.GroupOp) -> int:
    """Return the tokens in an entry of a group's attention."""
    blocks = [op.block for op in body_ops(group) if isinstance(op, cache.AttentionOp)]
    return blocks[0].value.data


def _finishes(op: Operation, columns: int) -> bool:
    """Whether an operation at the end of a product can finish a tile of that many columns."""
    match op:
        case nn.ReshapeOp():
            return splits(extents(op.y.type)[1:], columns)
        case nn.RopeOp() if op.interleaved is None:
            return extents(op.x.type)[-1] == columns
        case nn.RopeOp() | cache.WriteOp():
            return extents(op.x.type)[-1] % columns == 0
        case quant.QuantizeOp():
            return columns % quant.BLOCK == 0
        case _:
            return True
