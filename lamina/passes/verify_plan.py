"""Prove that a plan never reads what it has not written or has since written over.

The proof follows the plan as it runs, branch by branch, and keeps for every buffer the bytes that
hold its contents. It knows nothing of how the plan was made: ranges, aliases and overlaps are
found again from the accesses and the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects.areas import Area
from lamina.dialects.bounds import proves_multiple
from lamina.dialects.dims import Dim
from lamina.dialects.plan import (
    ALIGNMENT,
    AllocOp,
    ArenaOp,
    BindOp,
    BufferType,
    CallOp,
    CopyOp,
    HostOp,
    LaunchOp,
    ReceiveOp,
    ReturnOp,
    SwitchOp,
    ViewOp,
    area_of,
    columns_of,
    is_host,
    room_of,
)
from lamina.dialects.tile import AnyKernelOp, pairs
from lamina.errors import LoweringError
from lamina.passes.strided_memrefs import dynamic_strides

_READ_ONLY = ("lamina.input", "lamina.packed", "lamina.weight")


@dataclass(frozen=True)
class VerifyPlanPass(ModulePass):
    """The module is as before, and these facts are proved for all values of its symbols.

    Every view lies in what it is a view of, and in the arena at a multiple of 64 bytes. A read
    finds all its bytes written, on every path, and not written over since. Kernels of one launch
    do not touch what one of them writes, but for the pairs that a kernel may do in place, nor
    memory of the host; rows are as far apart as they take them. Copies go from one memory to
    another. Outputs are written, inputs are not.
    Otherwise a `LoweringError` names the call and the buffers.
    """

    name = "verify-plan"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Check every function that holds a plan; change nothing."""
        kernels = {each.sym_name.data: each for each in op.ops if isinstance(each, AnyKernelOp)}
        for function in [each for each in op.ops if isinstance(each, FuncOp)]:
            last = function.body.blocks.last
            if last is not None and isinstance(last.last_op, ReturnOp):
                _Proof(kernels, function).run()


@dataclass(frozen=True)
class _Place:
    """Bytes `area` of `base`, as a part of the contents of `root`.

    `base` is the arena, an alloc or an argument; `root` is the view of the arena, or `base`.
    `room` is what the root takes of the arena.
    """

    root: SSAValue
    base: SSAValue
    area: Area
    room: Area

    def disjoint(self, other: _Place) -> bool:
        """Return whether no byte can be in both, nor in the rooms that they are in."""
        if self.base is not other.base or self.room.apart(other.room):
            return True
        return self.area.apart(other.area)

    def same(self, other: _Place) -> bool:
        """Return whether these are the same bytes."""
        return (self.base, self.area) == (other.base, other.area)


@dataclass(frozen=True)
class _Touch:
    """One operand of a call: what it is to the caller, where, and whether it reads and writes."""

    call: str
    value: SSAValue
    place: _Place
    reads: bool
    writes: bool


_Pieces = tuple[Area, ...]


@dataclass
class _Contents:
    """Which bytes of each buffer hold what was written to it, and who wrote over the others.

    What is written over a part of something that was written to the same buffer is another value:
    the former is lost as a whole.
    """

    held: dict[SSAValue, dict[SSAValue, _Pieces]] = field(
        default_factory=dict[SSAValue, dict[SSAValue, _Pieces]]
    )
    lost: dict[SSAValue, tuple[str, SSAValue]] = field(
        default_factory=dict[SSAValue, tuple[str, SSAValue]]
    )

    rooms: dict[SSAValue, Area] = field(default_factory=dict[SSAValue, Area])

    def copy(self) -> _Contents:
        """Return contents that change apart from these."""
        held = {k: dict(v) for k, v in self.held.items()}
        return _Contents(held, dict(self.lost), self.rooms)

    def holds(self, place: _Place) -> bool:
        """Return whether all bytes of `place` hold what was written."""
        pieces = self.held.get(place.base, {}).get(place.root, ())
        return place.area.is_empty() or any(
            piece.holds(place.area) for some in (pieces, _joined(pieces)) for piece in some
        )

    def write(self, place: _Place, who: str) -> None:
        """Note that `who` wrote `place`: whatever else lay there is lost."""
        beside = self.held.setdefault(place.base, {})
        own = beside.pop(place.root, ())
        for root, pieces in list(beside.items()):
            room = self.rooms[root]
            kept = tuple(p for p in pieces if place.disjoint(_Place(root, place.base, p, room)))
            if len(kept) < len(pieces):
                self.lost[root] = who, place.root
                del beside[root]
            if 0 < len(kept) < len(pieces):
                beside[root] = kept
        self.rooms[place.root] = place.room
        apart = tuple(piece for piece in own if piece.apart(place.area))
        if any(piece not in apart and not place.area.holds(piece) for piece in own):
            self.lost[place.root] = who, place.root
        beside[place.root] = (*apart, place.area)

    def forget(self, place: _Place) -> None:
        """Note that nobody asks for what is in the root of `place` any more."""
        self.held.get(place.base, {}).pop(place.root, None)

    def reason(self, place: _Place) -> str:
        """Return why not all bytes of `place` are held."""
        if place.root not in self.lost:
            return "nothing wrote all of it"
        who, root = self.lost[place.root]
        return f"{who} wrote {_named(root)} over it"

    @staticmethod
    def meet(branches: Iterable[_Contents]) -> _Contents:
        """Return what holds whichever of the branches ran."""
        first, *rest = branches
        met = first.copy()
        for other in rest:
            met.lost |= other.lost
            for base, roots in met.held.items():
                there = other.held.get(base, {})
                for root, pieces in roots.items():
                    others = _joined(there.get(root, ()))
                    roots[root] = tuple(
                        piece
                        for piece in _joined(pieces)
                        if any(each.holds(piece) for each in others)
                    )
        return met


@dataclass
class _Proof:
    kernels: Mapping[str, AnyKernelOp]
    function: FuncOp
    places: dict[SSAValue, _Place] = field(default_factory=dict[SSAValue, _Place])
    read_only: set[SSAValue] = field(default_factory=set[SSAValue])
    ended: dict[Operation, list[SSAValue]] = field(default_factory=dict[Operation, list[SSAValue]])

    def run(self) -> None:
        """Follow the plan from its arguments to its outputs."""
        contents, outputs = _Contents(), list[SSAValue]()
        block = self.function.body.block
        for root, step in _last_steps(block).items():
            self.ended.setdefault(step, []).append(root)
        attributes = self.function.arg_attrs.data if self.function.arg_attrs else ()
        for i, arg in enumerate(block.args):
            if not isinstance(arg.type, BufferType):
                raise self._error(f"argument {i} is {arg.type}, expected a buffer")
            self._root(arg)
            names = frozenset(attributes[i].data) if attributes else frozenset[str]()
            if "lamina.output" in names:
                outputs.append(arg)
                continue
            contents.write(self.places[arg], "the caller")
            if any(key in names for key in _READ_ONLY):
                self.read_only.add(arg)
        contents = self._follow(block, contents)
        for arg in outputs:
            if not contents.holds(self.places[arg]):
                raise self._error(f"the output {_named(arg)} is not wholly written")

    def _follow(self, block: Block, contents: _Contents) -> _Contents:
        for op in block.ops:
            if isinstance(op, AllocOp | ArenaOp):
                self._root(op.y)
            elif isinstance(op, ViewOp):
                self._view(op)
            elif isinstance(op, SwitchOp):
                contents = _Contents.meet(
                    [self._follow(branch.block, contents.copy()) for branch in op.branches]
                )
            elif isinstance(op, LaunchOp | HostOp | CopyOp | BindOp | ReceiveOp):
                self._step(op, contents)
                for root in self.ended.get(op, ()):
                    contents.forget(self.places[root])
            elif not isinstance(op, ReturnOp):
                raise self._error(f"{op.name} is no operation of a plan")
        return contents

    def _root(self, value: SSAValue) -> None:
        whole = Area.stretch(Dim.of(0), _bytes(value))
        self.places[value] = _Place(value, value, whole, whole)

    def _view(self, op: ViewOp) -> None:
        whole, size = self.places[op.x], _bytes(op.y)
        area = area_of(op.y)
        arena = isinstance(op.x.owner, ArenaOp)
        entire = not arena and area == Area.stretch(Dim.of(0), _bytes(op.x))
        if op.assumed is not None or entire:
            # Calls in which an assumed size differs are refused before anything runs: the place
            # keeps the spelling of what was written.
            self.places[op.y] = whole
            return
        room = Area.stretch(area.start, room_of(size)) if arena else area
        if arena and not area.is_stretch:
            raise self._error(f"{_named(op.y)} is columns of the arena itself")
        if not any(each.lies_within(_bytes(op.x)) for each in (room, area)):
            raise self._error(
                f"cannot prove that {_named(op.y)}, {_length(area)} at {area.start}, "
                f"lies within the {_bytes(op.x)} bytes of {_named(op.x)}"
            )
        if arena and not proves_multiple(area.start, ALIGNMENT):
            raise self._error(
                f"the offset {area.start} of {_named(op.y)} is no multiple of {ALIGNMENT} bytes"
            )
        start = whole.area.start
        root = op.y if arena else whole.root
        taken = room.moved(start) if arena else whole.room
        self.places[op.y] = _Place(root, whole.base, area.moved(start), taken)

    def _step(
        self, op: LaunchOp | HostOp | CopyOp | BindOp | ReceiveOp, contents: _Contents
    ) -> None:
        calls = op.calls if isinstance(op, LaunchOp) else (op,)
        touched = [self._touches(call) for call in calls]
        for call, touches in zip(calls, touched, strict=True):
            self._check_one(touches, self._in_place(call))
        for one, other in combinations(touched, 2):
            for a in one:
                for b in other:
                    self._check_two(a, b)
        touches = [touch for each in touched for touch in each]
        for touch in touches:
            if touch.reads and not contents.holds(touch.place):
                why = contents.reason(touch.place)
                raise self._error(f"{touch.call} reads {_named(touch.value)}, but {why}")
        for touch in touches:
            if touch.writes:
                if touch.place.root in self.read_only:
                    raise self._error(f"{touch.call} writes the input {_named(touch.place.root)}")
                contents.write(touch.place, touch.call)

    def _touches(self, op: Operation) -> list[_Touch]:
        name, access = self._accesses(op)
        if len(access) != len(op.operands):
            raise self._error(f"{name} takes {len(access)} buffers, got {len(op.operands)}")
        for value in op.operands:
            if isinstance(value.owner, ArenaOp):
                raise self._error(f"{name} takes the arena itself")
            if isinstance(op, CallOp) and is_host(value):
                raise self._error(f"the kernel {name} takes {_named(value)}, memory of the host")
            if not isinstance(op, CallOp) and columns_of(value) is not None:
                raise self._error(f"{name} takes {_named(value)}, rows that lie apart")
        if isinstance(op, CallOp):
            self._check_strides(op, name)
        if isinstance(op, CopyOp) and is_host(op.x) == is_host(op.y):
            raise self._error(
                f"{name} of {_named(op.x)} to {_named(op.y)}: both are in the same memory"
            )
        return [
            _Touch(name, value, self.places[value], each != "write", each != "read")
            for value, each in zip(op.operands, access, strict=True)
        ]

    def _check_strides(self, op: CallOp, name: str) -> None:
        """Check that rows lie as the kernel takes them, and begin where it expects them to."""
        memrefs = self.kernels[op.callee.string_value()].memrefs
        for value, memref in zip(op.buffers, memrefs, strict=True):
            columns, free = columns_of(value), dynamic_strides(memref.type)
            if columns is not None and columns.outer > free:
                raise self._error(
                    f"{name} takes the rows of {_named(value)} one after another, they are "
                    f"{columns.stride} elements apart"
                )
            start = self.places[value].area.start
            if free == 0 and start != 0 and not proves_multiple(start, ALIGNMENT):
                raise self._error(
                    f"{name} takes {_named(value)} from byte {start} on, no multiple of {ALIGNMENT}"
                )

    def _accesses(self, op: Operation) -> tuple[str, list[str]]:
        if isinstance(op, CallOp):
            name = op.callee.string_value()
            if name not in self.kernels:
                raise self._error(f"there is no kernel @{name}")
            return f"@{name}", [each.data for each in self.kernels[name].access]
        if isinstance(op, HostOp):
            return f"@{op.callee.string_value()}", [each.data for each in op.access]
        if isinstance(op, ReceiveOp):
            return op.name, ["write"] * len(op.buffers)
        return op.name, ["read", "write"] if isinstance(op, CopyOp) else ["read"]

    def _in_place(self, op: Operation) -> frozenset[tuple[int, int]]:
        if not isinstance(op, CallOp):
            return frozenset()
        listed = pairs(self.kernels[op.callee.string_value()].aliases)
        return frozenset((min(pair), max(pair)) for pair in listed)

    def _check_one(self, touches: list[_Touch], in_place: frozenset[tuple[int, int]]) -> None:
        for (i, a), (j, b) in combinations(enumerate(touches), 2):
            if not ((i, j) in in_place and a.place.same(b.place)):
                self._check_two(a, b)

    def _check_two(self, a: _Touch, b: _Touch) -> None:
        if (a.writes or b.writes) and not a.place.disjoint(b.place):
            a, b = (a, b) if a.writes else (b, a)
            raise self._error(
                f"{a.call} writes {_shown(a)} while {b.call} "
                f"{'writes' if b.writes else 'reads'} {_shown(b)}: they may overlap"
            )

    def _error(self, text: str) -> LoweringError:
        return LoweringError(f"the plan of @{self.function.sym_name.data}: {text}")


def _last_steps(block: Block) -> dict[SSAValue, Operation]:
    """Return the last operation that touches each buffer that is no argument."""
    roots, found = dict[SSAValue, SSAValue](), dict[SSAValue, Operation]()
    pending = list(block.ops)[::-1]
    while pending:
        op = pending.pop()
        if isinstance(op, SwitchOp):
            pending += [
                each for branch in op.branches[::-1] for each in list(branch.block.ops)[::-1]
            ]
        elif isinstance(op, ViewOp) and not isinstance(op.x.owner, ArenaOp):
            roots[op.y] = roots.get(op.x, op.x)
        else:
            calls = op.calls if isinstance(op, LaunchOp) else (op,)
            touched = [roots.get(value, value) for call in calls for value in call.operands]
            found |= {root: op for root in touched if isinstance(root.owner, AllocOp | ViewOp)}
    return found


def _joined(pieces: _Pieces) -> _Pieces:
    """Return the pieces with those put together that follow one another, or are side by side."""
    found = list(dict.fromkeys(piece for piece in pieces if not piece.is_empty()))
    for i, piece in enumerate(found):
        for j, other in enumerate(found):
            if i != j and (both := piece.joined(other)) is not None:
                rest = (each for n, each in enumerate(found) if n not in (i, j))
                return _joined((*rest, both))
    return tuple(found)


def _bytes(value: SSAValue) -> Dim:
    return _type_bytes(cast("BufferType", value.type))


@lru_cache(maxsize=4096)
def _type_bytes(type: BufferType) -> Dim:
    return type.bytes


def _shown(touch: _Touch) -> str:
    return f"{_named(touch.value)} ({_spelt(touch.place.area)})"


def _spelt(area: Area) -> str:
    if area.is_stretch:
        return f"bytes {area.start} to {area.end}"
    return f"{_length(area)} from {area.start} on"


def _length(area: Area) -> str:
    if area.is_stretch:
        return f"{area.width} bytes"
    return f"{area.rows} times {area.width} bytes, {area.stride} apart,"


def _named(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else f"a buffer of {value.type}"
