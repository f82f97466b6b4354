"""Attach to each group the numbers that its kernel is to be built with."""

from __future__ import annotations

from dataclasses import dataclass, fields

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from lamina.arguments import whole_number
from lamina.dialects import cache, nn
from lamina.dialects.quant import ROWS
from lamina.errors import InputError
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_in
from lamina.passes.kernels.register_tile import MOST_REGISTERS, MOST_STEPS
from lamina.passes.schedules.choice import Choice, read_given
from lamina.passes.schedules.cost_model import CostModel, Wishes
from lamina.passes.schedules.machine import Machine
from lamina.passes.schedules.scheduled import bounded

_ATTENTION = ("attention", "partial_attention")
_COUNTS = ("rows", "all_rows", "few_rows", "float_rows")
_COLUMNS = ("many", "few", "written", "float_columns", "long")


@dataclass(frozen=True)
class ScheduleGroupsPass(ModulePass):
    """Every product has a schedule: a tile's rows `m` and columns `n`, its columns in registers
    at once `r`, and columns of K at once `k`; bands of `b` columns are gone through for some rows
    before the next.

    They follow from the machine's `registers` of `lanes` f32, its caches of `l1` and `l2` bytes,
    whether it has `dots` of 8-bit numbers, and its `cores`, by the cost model of
    `passes/schedules`. On a GPU `threads` share a tile, and its units that multiply matrices of
    16-bit floats, with `tf32` of f32 too, take `matrix` rows at once. With `tuned`, schedules that
    were measured on this machine, which `cpu` names, take their place; `given` ones
    (`CLASS -> m=8 n=16`) come before all.

    The others take the place of what the model says. `few` are the columns of a tile of few rows
    (a branch of at most `few-rows`), `many` those of a tile of `rows` rows whose weights come in
    blocks, of which a tile of several products has its part, and at most `all-rows` rows of all
    products together; `written` are the most columns of a tile that goes into pages. Weights in
    blocks of `long` columns or more are read, for few rows, panel after panel. Other weights have
    tiles of `float-rows` rows and `float-columns` columns. A tile holds whole heads where a rope
    of halves ends it, and whole blocks where a quantisation does. `few-rows` rows make one entry
    of attention's work.
    """

    name = "schedule-groups"

    lanes: int = 8
    registers: int = 16
    l1: int = 32768
    l2: int = 1048576
    dots: bool = False
    cores: int = 1
    cpu: str = ""
    threads: int = 1
    matrix: int = 0
    tf32: bool = False
    tuned: bool = False
    given: tuple[str, ...] = ()
    few_rows: int = 1
    rows: int | None = None
    all_rows: int | None = None
    many: int | None = None
    few: int | None = None
    written: int | None = None
    long: int | None = None
    float_rows: int | None = None
    float_columns: int | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        """Refuse sizes that no tile or machine has: `InputError` names the option."""
        for name in _COUNTS:
            self._check(name, MOST_REGISTERS)
        self._check("k", MOST_STEPS)
        for name in _COLUMNS:
            most = 1 << 30 if name == "long" else MOST_REGISTERS * ROWS
            if self._check(name, most) % ROWS and name != "long":
                raise InputError(
                    f"{_spelt(name)} is {getattr(self, name)}: expected a multiple of {ROWS}, "
                    "the columns of a packed tile"
                )
        read_given(self.given)
        _ = self.machine

    @property
    def machine(self) -> Machine:
        """The machine that kernels are built for."""
        return Machine(**{field.name: getattr(self, field.name) for field in fields(Machine)})

    @property
    def model(self) -> CostModel:
        """What schedules follow from."""
        wishes = {field.name: getattr(self, field.name) for field in fields(Wishes)}
        return CostModel(self.machine, Wishes(**wishes))

    def choice(self) -> Choice:
        """Return what schedules are chosen by; measured ones are read now."""
        choice = Choice(self.model, read_given(self.given))
        if not self.tuned:
            return choice
        from lamina.passes.schedules.database import read_database

        return Choice(choice.model, choice.given, read_database(self.machine))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        _Scheduling(groups, self.choice(), self.few_rows).run(function)
        groups.drop_unused()

    def _check(self, name: str, most: int) -> int:
        value = getattr(self, name)
        return 0 if value is None else whole_number(value, _spelt(name), 1, most)


class _Scheduling:
    """The groups of a module, and what was found for each and for each kind of rows."""

    def __init__(self, groups: Groups, choice: Choice, few_rows: int) -> None:
        self.groups, self.choice, self.few_rows = groups, choice, few_rows
        self.known: dict[tuple[str, int | None], str] = {}

    def run(self, function: FuncOp) -> None:
        """Give the calls of a function groups with schedules."""
        for block, rows in bounded(function.body.block):
            for call in calls_in(block):
                key = (call.callee.root_reference.data, rows)
                if key not in self.known:
                    self.known[key] = self._scheduled(*key)
                call.callee = SymbolRefAttr(self.known[key])

    def _scheduled(self, name: str, rows: int | None) -> str:
        """Return the name of the group `name` with its schedule, or of a copy that has it."""
        group, few = self.groups.by_name[name], rows is not None and rows <= self.few_rows
        if group.anchor.data in _ATTENTION and few and _work(group) != self.few_rows:
            return self.groups.copy(name, (name, "block", self.few_rows), self._small_work)
        schedule = self.choice.schedule(group, few=few, rows=rows)
        return name if schedule is None else self.groups.scheduled(name, schedule)

    def _small_work(self, group: nn.GroupOp) -> None:
        for op in body_ops(group):
            if isinstance(op, cache.AttentionOp | cache.PartialAttentionOp):
                op.block = IntegerAttr(self.few_rows, 64)


def _spelt(name: str) -> str:
    return f"schedule-groups: {name.replace('_', '-')}"


def _work(group: nn.GroupOp) -> int:
    """Return the tokens in an entry of a group's attention."""
    found = (cache.AttentionOp, cache.PartialAttentionOp)
    blocks = [op.block for op in body_ops(group) if isinstance(op, found)]
    return blocks[0].value.data
