"""When each buffer of a plan holds something that is still needed.

Every launch, host call, copy and bind is one position. A buffer is live at a position that touches
it, and between touches: where some path from an earlier touch leads on to a later one. Branches of
a switch have positions of their own, so buffers of different branches are never live together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects.dims import Dim, parse_dim
from lamina.dialects.plan import (
    AllocOp,
    ArenaOp,
    BindOp,
    BufferType,
    CallOp,
    CopyOp,
    HostOp,
    LaunchOp,
    ReceiveOp,
    SwitchOp,
    ViewOp,
)
from lamina.dialects.tile import AnyKernelOp, pairs, values

STEPS = (LaunchOp, HostOp, CopyOp, BindOp, ReceiveOp)
"""What touches buffers: each is one position."""

Steps = list["int | Switch"]
"""Positions in order, and switches between further ones."""


@dataclass(frozen=True)
class Switch:
    """Positions of which one branch runs."""

    op: SwitchOp
    branches: tuple[Steps, ...]


@dataclass(frozen=True)
class LiveRanges:
    """For buffer i of `buffers`: `masks[i]` has bit p set where it is live at position p.

    Sets of buffers are integers as well. `in_place` holds the pairs (i, j) of buffers of one size
    that meet only where a kernel may write j over the i that it reads.
    `phases[i]` counts the binds that come before i, `live_at[p]` is the set live at p.
    """

    steps: Steps
    buffers: tuple[SSAValue, ...]
    masks: tuple[int, ...]
    in_place: frozenset[tuple[int, int]]
    phases: tuple[int, ...]
    live_at: tuple[int, ...]


@dataclass(frozen=True)
class _Event:
    """One position: the buffers touched, and the pairs that a call could do in place."""

    touched: int
    pairs: tuple[tuple[int, int], ...]
    phase: int


@dataclass
class _Walk:
    kernels: Mapping[str, AnyKernelOp]
    index: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    events: list[_Event] = field(default_factory=list[_Event])
    phase: int = 0

    def steps(self, block: Block) -> Steps:
        """Number the positions of a block."""
        found: Steps = []
        for op in block.ops:
            if isinstance(op, SwitchOp):
                branches = tuple(self.steps(branch.block) for branch in op.branches)
                found.append(Switch(op, branches))
            elif isinstance(op, STEPS):
                found.append(len(self.events))
                self.events.append(self._event(op))
            self.phase += isinstance(op, BindOp) or (
                isinstance(op, HostOp) and op.binds is not None
            )
        return found

    def _event(self, op: Operation) -> _Event:
        calls = op.calls if isinstance(op, LaunchOp) else (op,)
        roots = [root_of(value) for call in calls for value in call.operands]
        ours = [self.index.setdefault(root, len(self.index)) for root in roots if _is_own(root)]
        once = {each for each, count in Counter(ours).items() if count == 1}
        found = [
            pair
            for call in calls
            if isinstance(call, CallOp)
            for pair in self._pairs(call)
            if once.issuperset(pair)
        ]
        return _Event(_union(1 << each for each in ours), tuple(found), self.phase)

    def _pairs(self, call: CallOp) -> Iterator[tuple[int, int]]:
        for a, b in pairs(self.kernels[call.callee.string_value()].aliases):
            x, y = root_of(call.buffers[a]), root_of(call.buffers[b])
            whole = _size(call.buffers[a]) == _size(x) == _size(y) == _size(call.buffers[b])
            if whole and _is_own(x) and _is_own(y):
                yield self.index[x], self.index[y]


def live_ranges(function: FuncOp) -> LiveRanges:
    """Return the ranges of the buffers of `function` that are in the arena or shall be."""
    walk = _Walk(kernels_of(function))
    steps = walk.steps(function.body.block)
    events = walk.events
    before, after = [0] * len(events), [0] * len(events)
    _spread(events, steps, 0, before)
    _spread(events, _reversed(steps), 0, after)
    live = tuple(
        event.touched | (earlier & later)
        for event, earlier, later in zip(events, before, after, strict=True)
    )
    met: dict[tuple[int, int], int] = {}
    for p, (event, earlier, later) in enumerate(zip(events, before, after, strict=True)):
        for x, y in event.pairs:
            if not later >> x & 1 and not earlier >> y & 1:
                met[x, y] = met.get((x, y), 0) | 1 << p
    first = {i: event.phase for event in reversed(events) for i in bits(event.touched)}
    phases = tuple(first[i] for i in range(len(walk.index)))
    masks = _transposed(live, len(walk.index))
    # In another branch the two may meet where no kernel takes one for the other.
    in_place = frozenset((x, y) for (x, y), where in met.items() if masks[x] & masks[y] == where)
    return LiveRanges(steps, tuple(walk.index), masks, in_place, phases, live)


def positions_taken(steps: Steps, symbols: Mapping[str, int]) -> list[int]:
    """Return the positions that run for these extents, in order."""
    found: list[int] = []
    for step in steps:
        if isinstance(step, int):
            found.append(step)
        else:
            value = parse_dim(step.op.value.data).evaluate(symbols)
            branch = sum(value > bound for bound in values(step.op.bounds))
            found += positions_taken(step.branches[branch], symbols)
    return found


def root_of(value: SSAValue) -> SSAValue:
    """Return what a value is a view of: an argument, an alloc, or a view of the arena."""
    while isinstance(view := value.owner, ViewOp) and not isinstance(view.x.owner, ArenaOp):
        value = view.x
    return value


def start_of(value: SSAValue) -> Dim:
    """Return from which byte of its root on a value is."""
    root, start = root_of(value), Dim.of(0)
    while value is not root:
        view = cast("ViewOp", value.owner)
        value, start = view.x, start + Dim.of(view.offset.data)
    return start


def kernels_of(function: FuncOp) -> dict[str, AnyKernelOp]:
    """Return the kernels beside a function, by name."""
    module = function.parent_op()
    ops: Iterable[Operation] = module.ops if isinstance(module, ModuleOp) else ()
    return {op.sym_name.data: op for op in ops if isinstance(op, AnyKernelOp)}


def _is_own(root: SSAValue) -> bool:
    return isinstance(root.owner, AllocOp | ViewOp)


def _size(value: SSAValue) -> str:
    return str(cast("BufferType", value.type).bytes)


def _spread(events: Sequence[_Event], steps: Steps, seen: int, at: list[int]) -> int:
    """Set `at[p]` to the buffers touched on some path to p; return those of the whole path."""
    for step in steps:
        if isinstance(step, int):
            at[step] = seen
            seen |= events[step].touched
        else:
            seen |= _union(_spread(events, branch, seen, at) for branch in step.branches)
    return seen


def _reversed(steps: Steps) -> Steps:
    return [
        step
        if isinstance(step, int)
        else Switch(step.op, tuple(_reversed(branch) for branch in step.branches))
        for step in reversed(steps)
    ]


def _union(sets: Iterable[int]) -> int:
    total = 0
    for each in sets:
        total |= each
    return total


def bits(number: int) -> Iterator[int]:
    """Yield the members of a set that is an integer, in ascending order."""
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _transposed(rows: Sequence[int], columns: int) -> tuple[int, ...]:
    found = [0] * columns
    for p, row in enumerate(rows):
        for i in bits(row):
            found[i] |= 1 << p
    return tuple(found)
