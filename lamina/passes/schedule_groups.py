"""Attach to each group the numbers that its kernel is to be built with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Block
from xdsl.passes import ModulePass

from lamina.arguments import whole_number
from lamina.dialects import cache, nn
from lamina.dialects.quant import ROWS
from lamina.dialects.tile import ScheduleAttr, values
from lamina.errors import InputError, LoweringError
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_in
from lamina.passes.kernels.column_tiles import tile_counts
from lamina.passes.kernels.linear_kernel import Product, is_linear, is_unpacked, shape_of
from lamina.passes.kernels.register_tile import MOST_REGISTERS, MOST_STEPS


@dataclass(frozen=True)
class ScheduleGroupsPass(ModulePass):
    """Every product has a schedule: a tile's rows `m` and columns `n`, its columns in registers
    at once `r`, and columns of K at once `k`.

    `few` are the columns of a tile of few rows (a branch of at most `few-rows`), `many` those of
    a tile of `rows` rows, of which a tile of several products has its part, and at most
    `all-rows` rows of all products together; `written` are the most columns of a tile that goes
    into pages. Weights in blocks of `long` columns or more are read, for few rows, panel after
    panel, which is one long stream. Where float weights need no unpacking, a tile has
    `float-rows` rows and `float-columns` columns. A tile holds whole heads where a rope of halves
    ends it, and whole blocks where a quantisation does. `few-rows` rows make one entry of
    attention's work.
    """

    name = "schedule-groups"

    rows: int = 4
    all_rows: int = 10
    many: int = 32
    few_rows: int = 1
    few: int = 64
    written: int = 32
    long: int = 16384
    float_rows: int = 4
    float_columns: int = 64
    k: int = 8

    def __post_init__(self) -> None:
        """Refuse sizes that no tile has: `InputError` names the option."""
        for name in ("rows", "all_rows", "few_rows", "float_rows"):
            _checked(self, name, MOST_REGISTERS)
        _checked(self, "k", MOST_STEPS)
        for name in ("many", "few", "written", "float_columns"):
            if _checked(self, name, MOST_REGISTERS * ROWS) % ROWS:
                raise InputError(
                    f"{_spelt(name)} is {getattr(self, name)}: expected a multiple of {ROWS}, "
                    "the columns of a packed tile"
                )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        self._block(groups, function.body.block, {}, small=False)
        groups.drop_unused()

    def _block(
        self, groups: Groups, block: Block, known: dict[tuple[str, bool], str], *, small: bool
    ) -> None:
        """Schedule the calls of a block; `known` is what was found for a group and kind of rows."""
        for op in block.ops:
            if isinstance(op, nn.SwitchOp):
                bounds = (*values(op.bounds), None)
                for bound, branch in zip(bounds, op.branches, strict=True):
                    few = bound is not None and bound <= self.few_rows
                    self._block(groups, branch.block, known, small=few)
        for call in calls_in(block):
            key = (call.callee.root_reference.data, small)
            if key not in known:
                known[key] = self._scheduled(groups, key[0], small=small)
            call.callee = SymbolRefAttr(known[key])

    def _scheduled(self, groups: Groups, name: str, *, small: bool) -> str:
        """Return the name of the group `name` with its schedule, or of a copy that has it."""
        group = groups.by_name[name]
        match group.anchor.data:
            case "linear":
                return groups.scheduled(name, self._linear(group, small=small))
            case "dot":
                return groups.scheduled(name, ScheduleAttr.of(m=self.rows, n=self.few))
            case "attention" if small and _work(group) != self.few_rows:
                return groups.copy(name, (name, "block", self.few_rows), self._small_work)
            case _:
                return name

    def _linear(self, group: nn.GroupOp, *, small: bool) -> ScheduleAttr:
        ops = body_ops(group)
        products = [cast("Product", op) for op in ops if is_linear(op)]
        plain = not small and not any(map(is_unpacked, products))
        shared = (self.few if small else self.many) // len(products)
        most = (self.float_columns if plain else shared) // ROWS
        if any(isinstance(op, cache.WriteOp) for op in ops):
            most = min(most, self.written // ROWS)
        fits = tile_counts(ops)
        if not fits:
            raise LoweringError(f"{group.sym_name.data}: no tile of columns fits its end")
        # A wider tile than wished for is better than one that its end cannot finish.
        tiles = max((n for n in fits if n <= most), default=fits[0])
        if small:
            columns = shape_of(products[0]).columns
            one_by_one = columns >= self.long and all(map(is_unpacked, products))
            at_once = ROWS if one_by_one else tiles * ROWS
            return ScheduleAttr.of(m=self.few_rows, n=tiles * ROWS, r=at_once, k=self.k)
        rows, abreast = min(self.rows, self.all_rows // len(products)), 1
        if plain:
            rows, abreast = self.float_rows, self.float_columns // ROWS
        at_once = max(n for n in range(1, abreast + 1) if tiles % n == 0)
        return ScheduleAttr.of(m=rows, n=tiles * ROWS, r=at_once * ROWS, k=self.k)

    def _small_work(self, group: nn.GroupOp) -> None:
        for op in body_ops(group):
            if isinstance(op, cache.AttentionOp):
                op.block = IntegerAttr(self.few_rows, 64)


def _checked(options: ScheduleGroupsPass, name: str, most: int) -> int:
    return whole_number(getattr(options, name), _spelt(name), 1, most)


def _spelt(name: str) -> str:
    return f"schedule-groups: {name.replace('_', '-')}"


def _work(group: nn.GroupOp) -> int:
    """Return the tokens in an entry of a group's attention."""
    blocks = [op.block for op in body_ops(group) if isinstance(op, cache.AttentionOp)]
    return blocks[0].value.data
