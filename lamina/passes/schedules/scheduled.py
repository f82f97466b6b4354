"""The groups of a scheduled module, by class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from lamina.dialects import nn
from lamina.dialects.tile import values
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, calls_in
from lamina.passes.schedules.database import Numbers
from lamina.passes.schedules.product_class import class_of


@dataclass(frozen=True)
class Scheduled:
    """A group as it is called for few rows or for any, and its class."""

    key: str
    few: bool
    group: nn.GroupOp

    @property
    def name(self) -> str:
        """The group's name, which its kernel or an equal group's has."""
        return self.group.sym_name.data

    @property
    def numbers(self) -> Numbers:
        """The schedule."""
        schedule = self.group.schedule
        return {} if schedule is None else {key: schedule.get(key) for key in schedule.values.data}


def branches(block: Block, few_rows: int) -> Iterator[tuple[Block, bool]]:
    """Yield a block and the branches in it; the second says that it runs for few rows alone."""
    for inner, rows in bounded(block):
        yield inner, rows is not None and rows <= few_rows


def bounded(block: Block, rows: int | None = None) -> Iterator[tuple[Block, int | None]]:
    """Yield a block and the branches in it, with the most rows that each runs for, if any."""
    yield block, rows
    for op in block.ops:
        if isinstance(op, nn.SwitchOp):
            bounds = (*values(op.bounds), None)
            for bound, branch in zip(bounds, op.branches, strict=True):
                # A switch over a condition has the bound 0, and says nothing of rows.
                yield from bounded(branch.block, rows if bounds[0] == 0 else bound)


def scheduled_groups(module: ModuleOp, few_rows: int) -> list[Scheduled]:
    """Return the groups that have schedules, each once for each kind of rows."""
    function = find_function(module, "forward")
    if function is None:
        return []
    groups = Groups.of(module)
    found: dict[tuple[str, bool], Scheduled] = {}
    for block, few in branches(function.body.block, few_rows):
        for call in calls_in(block):
            group = groups.called(call)
            key = class_of(group, few=few)
            if key is not None and group.schedule is not None:
                found[group.sym_name.data, few] = Scheduled(key, few, group)
    return list(found.values())
