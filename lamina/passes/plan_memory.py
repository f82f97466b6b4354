"""Give every intermediate buffer its place in one arena, at an offset over the symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from math import prod
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from lamina.dialects.bounds import may_be_at_most
from lamina.dialects.dims import FUNCTIONS, Atom, Dim
from lamina.dialects.plan import (
    HOST,
    AllocOp,
    ArenaOp,
    BufferType,
    SwitchOp,
    ViewOp,
    is_host,
    room_of,
)
from lamina.passes.live_ranges import LiveRanges, bits, live_ranges, positions_taken

_NOMINAL: Final = 64
"""The value of every symbol where sizes that cannot be compared for all values are compared."""

_MANY: Final = 1000
"""How many buffers are too many to place them largest first, each beside all that it may meet."""

_MOST_TOPS: Final = 3
"""How many extents the larger of which is not known one offset may be the maximum of."""


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """No `plan.alloc` is left: each is a view of its memory's one arena, shared by buffers never
    live at once.

    Buffers are placed one after another, largest first, each at the lowest end of an earlier one
    where it provably meets no buffer that is live with it (Pisarchyk and Lee 2020, with extents
    for numbers); behind all of those if there is none. A kernel's result takes the place of an
    operand that it may overwrite.
    """

    name = "plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every function in place."""
        for function in [each for each in op.ops if isinstance(each, FuncOp)]:
            for each in reversed([o for o in function.walk() if isinstance(o, AllocOp | ViewOp)]):
                if not each.y.uses:
                    Rewriter.erase_op(each)
            if any(isinstance(each, AllocOp) for each in function.walk()):
                _plan(function)


def arena_bytes(function: FuncOp) -> Dim:
    """Return the size of the arena of a planned function; 0 without one."""
    arenas = [op for op in function.body.block.ops if isinstance(op, ArenaOp)]
    return reduce(Dim.__add__, (_bytes(arena.y) for arena in arenas), Dim.of(0))


def arena_report(module: ModuleOp, symbols: Mapping[str, int]) -> dict[str, int]:
    """Return bytes for these extents: `arena`, `sum` of all buffers, `largest_live` at one time.

    Counted are the buffers of the branches that run. `largest_live` is what no plan could go
    below without doing work in place.
    """
    report = {"arena": 0, "sum": 0, "largest_live": 0}
    for function in [op for op in module.ops if isinstance(op, FuncOp)]:
        ranges = live_ranges(function)
        sizes = [_bytes(buffer).evaluate(symbols) for buffer in ranges.buffers]
        live = [ranges.live_at[p] for p in positions_taken(ranges.steps, symbols)]
        report["arena"] += arena_bytes(function).evaluate(symbols)
        report["sum"] += _total(sizes, reduce(int.__or__, live, 0))
        report["largest_live"] = max(report["largest_live"], *(_total(sizes, at) for at in live), 0)
    return report


def plan_symbols(module: ModuleOp) -> list[str]:
    """Return the symbols that memory depends on, by name."""
    found: set[str] = set()
    for op in module.walk():
        if isinstance(op, ArenaOp):
            found |= _bytes(op.y).symbols
        elif isinstance(op, SwitchOp):
            found |= Dim.of(op.value.data).symbols
    return sorted(found)


def _total(sizes: Sequence[int], chosen: int) -> int:
    return sum(size for i, size in enumerate(sizes) if chosen >> i & 1)


def _plan(function: FuncOp) -> None:
    ranges = live_ranges(function)
    sizes = [room_of(_bytes(buffer)) for buffer in ranges.buffers]
    memories: dict[str | None, list[int]] = {}
    for i, buffer in enumerate(ranges.buffers):
        if isinstance(buffer.owner, AllocOp):
            memories.setdefault(HOST if is_host(buffer) else None, []).append(i)
    arenas = {
        memory: _arena(ranges, sizes, members, memory) for memory, members in memories.items()
    }
    for arena in reversed(arenas.values()):
        Rewriter.insert_op(arena, InsertPoint.at_start(function.body.block))


def _arena(
    ranges: LiveRanges, sizes: list[Dim], members: Sequence[int], memory: str | None
) -> ArenaOp:
    """Return the arena of a memory, of which its buffers are views from now on."""
    rivals = _rivals(ranges)
    orders = _ORDERS if len(members) <= _MANY else _QUICK_ORDERS
    plans = [_place(_Placement(ranges, sizes, rivals), members, order) for order in orders]
    best = min(plans, key=lambda plan: _nominal(plan.size))
    arena = ArenaOp(best.size, memory)
    arena.y.name_hint = f"{memory}_arena" if memory else "arena"
    for i in members:
        alloc = cast("AllocOp", ranges.buffers[i].owner)
        Rewriter.replace_op(alloc, ViewOp(arena.y, best.found[i], alloc.y.type))
    return arena


@dataclass
class _Placement:
    """Offsets found so far, by buffer."""

    ranges: LiveRanges
    sizes: list[Dim]
    rivals: Sequence[Sequence[int]]
    found: dict[int, Dim] = field(default_factory=dict[int, Dim])
    ends: dict[int, Dim] = field(default_factory=dict[int, Dim])

    @property
    def size(self) -> Dim:
        """The bytes that all of them take."""
        return _upper(self.ends.values())

    def put(self, i: int) -> None:
        """Place buffer i below everything it meets, or else above."""
        rivals = [j for j in self.rivals[i] if j in self.found]
        shared = self._shared(i, rivals)
        offset = self._lowest(i, rivals) if shared is None else shared
        self.found[i], self.ends[i] = offset, offset + self.sizes[i]

    def _shared(self, i: int, rivals: Sequence[int]) -> Dim | None:
        partners = [j for j in rivals if {(i, j), (j, i)} & self.ranges.in_place]
        for offset in dict.fromkeys(self.found[j] for j in partners):
            same = {j for j in partners if self.found[j] == offset}
            if self._fits(i, offset, [j for j in rivals if j not in same]):
                return offset
        return None

    def _lowest(self, i: int, rivals: Sequence[int]) -> Dim:
        for offset in sorted({Dim.of(0), *(self.ends[j] for j in rivals)}, key=_by_nominal):
            if self._fits(i, offset, rivals):
                return offset
        return _upper(self.ends[j] for j in rivals)

    def _fits(self, i: int, offset: Dim, rivals: Iterable[int]) -> bool:
        end, spans = offset + self.sizes[i], {(self.found[j], self.ends[j]) for j in rivals}
        return all(_at_most(above, offset) or _at_most(end, below) for below, above in spans)


def _rivals(ranges: LiveRanges) -> list[list[int]]:
    """Return for each buffer those that are live at a position at which it is."""
    met = [0] * len(ranges.buffers)
    for live in ranges.live_at:
        for i in bits(live):
            met[i] |= live
    return [[j for j in bits(others) if j != i] for i, others in enumerate(met)]


def _place(
    placement: _Placement,
    members: Sequence[int],
    order: Callable[[LiveRanges, int], int],
) -> _Placement:
    ranges = placement.ranges
    # A buffer's offset may hold only symbols that are bound where it is first used.
    for i in sorted(members, key=lambda i: (ranges.phases[i], order(ranges, i))):
        placement.put(i)
    return placement


def _largest_first(ranges: LiveRanges, i: int) -> int:
    return -_nominal(_bytes(ranges.buffers[i]))


def _longest_first(ranges: LiveRanges, i: int) -> int:
    return -ranges.masks[i].bit_count()


def _as_they_come(ranges: LiveRanges, i: int) -> int:
    return i


_QUICK_ORDERS: Final = (_as_they_come, _longest_first)
_ORDERS: Final = (_largest_first, *_QUICK_ORDERS)


def _bytes(buffer: SSAValue) -> Dim:
    return _type_bytes(cast("BufferType", buffer.type))


@lru_cache(maxsize=4096)
def _type_bytes(type: BufferType) -> Dim:
    return type.bytes


@lru_cache(maxsize=1 << 16)
def _nominal(dim: Dim) -> int:
    return sum(c * prod(map(_nominal_atom, atoms)) for c, atoms in dim.terms)


@lru_cache(maxsize=4096)
def _nominal_atom(atom: Atom) -> int:
    if isinstance(atom, str):
        return _NOMINAL
    name, a, b = atom
    return FUNCTIONS[name](_nominal(a), _nominal(b))


def _by_nominal(dim: Dim) -> tuple[int, str]:
    return _nominal(dim), str(dim)


def _upper(ends: Iterable[Dim]) -> Dim:
    """Return an extent that is at least every one of `ends`: their maximum, if that is short."""
    top: list[Dim] = []
    for end in dict.fromkeys(ends):
        if not any(_at_most(end, other) for other in top):
            top = [other for other in top if not _at_most(other, end)] + [end]
    top.sort(key=str)
    if len(top) < 2:
        return top[0] if top else Dim.of(0)
    if len(top) > _MOST_TOPS or any(_has_maximum(each) for each in top):
        return _joined(top)
    return reduce(Dim.maximum, top)


def _has_maximum(dim: Dim) -> bool:
    return any(not isinstance(a, str) and a[0] == "max" for _, atoms in dim.terms for a in atoms)


def _joined(dims: Iterable[Dim]) -> Dim:
    """Return the polynomial of the largest coefficient of each monomial, of which none is < 0.

    Offsets that are maxima of sums of maxima take exponential time to compare; these are compared
    number by number, and buffers of sizes of different symbols lie behind one another.
    """
    largest: dict[Dim, int] = {}
    for dim in dims:
        for coefficient, monomial in dim.monomials():
            largest[monomial] = max(coefficient, largest.get(monomial, 0))
    return reduce(Dim.__add__, (monomial * c for monomial, c in largest.items()), Dim.of(0))


@lru_cache(maxsize=1 << 16)
def _at_most(a: Dim, b: Dim) -> bool:
    return may_be_at_most(a, b) and _plainly_positive(b - a)


def _plainly_positive(d: Dim, opened: int = 0) -> bool:
    """Whether no coefficient of `d` is negative and no atom can be, max(a, b) taken as a or b."""
    if _nominal(d) < 0:
        return False
    terms = d.terms
    if all(c >= 0 and all(map(_never_negative, atoms)) for c, atoms in terms):
        return True
    lacking = {atoms for c, atoms in terms if c < 0}
    for c, atoms in terms if opened < _MOST_TOPS else ():
        if c > 0 and len(atoms) == 1 and not isinstance(atoms[0], str) and atoms[0][0] == "max":
            _, a, b = atoms[0]
            if lacking.isdisjoint(own for _, own in (*a.terms, *b.terms)):
                continue
            rest = d - a.maximum(b) * c
            return any(_plainly_positive(rest + each * c, opened + 1) for each in (a, b))
    return False


@lru_cache(maxsize=4096)
def _never_negative(atom: Atom) -> bool:
    if isinstance(atom, str):
        return True
    name, a, b = atom
    if name == "max":
        return _plainly_positive(a) or _plainly_positive(b)
    if name == "min":
        return _plainly_positive(a) and _plainly_positive(b)
    return (b.constant or 0) > 0 and (name == "mod" or _plainly_positive(a))
