"""Products of four warps each in LLVM, on operands in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from xdsl.ir import Operation, SSAValue

from lamina.dialects import simt
from lamina.dialects.tile import values
from lamina.targets.cuda.elements import count_of, element
from lamina.targets.cuda.printer import Memory, Printer, Rule
from lamina.targets.cuda.rules_simt import REGISTER, SHARED, place_of

_WGMMA: Final = "llvm.nvvm.wgmma"
_ROWS, _DEPTH = 64, 16
"""Rows and columns of K that one instruction multiplies."""

_UNIT: Final = 16
"""Bytes in which descriptors count."""

_SWIZZLE_OF_128: Final = 1 << 62
"""Says that rows of 128 bytes have parts that changed places."""


@dataclass(frozen=True)
class _Operand:
    """An operand: where it starts, in units, and how it lies there (see the operation)."""

    start: str
    steps: Sequence[int]
    across: int
    swizzled: bool

    def further(self, block: int, inner: int) -> int:
        """Return by how many elements a block of 64 rows and a step along K are from the start."""
        rows, columns = self.steps
        if not self.swizzled:
            return block * 8 * rows + inner * 2 * columns
        if self.across:
            return block * columns + inner * 2 * rows
        parts, rest = divmod(inner * _DEPTH, simt.SWIZZLED_ROW)
        return block * 8 * rows + parts * columns + rest

    def descriptor(self, p: Printer, block: int, inner: int) -> str:
        """Return what tells a unit where it is: the start and both distances."""
        rows, columns = (2 * step // _UNIT for step in self.steps)
        fixed = columns << 16 | rows << 32 | (_SWIZZLE_OF_128 if self.swizzled else 0)
        word = p.emit(f"add i64 {self.start}, {2 * self.further(block, inner) // _UNIT}")
        word = p.emit(f"and i64 {word}, 16383")
        return p.emit(f"or i64 {word}, {fixed}")


def _multiply(p: Printer, op: simt.WarpgroupMultiplyOp) -> None:
    """Print products of 64 rows by 16 columns of K, all of them one group."""
    (m, n, k), across = values(op.sizes), values(op.across) or (0, 0)
    kind, sums, groups = element(op.kind).name, n // 2, op.threads // simt.WARPGROUP
    left, right = (
        _Operand(_units(p, p.memories[x], at), values(steps), turned, op.swizzled is not None)
        for x, at, steps, turned in (
            (op.a, op.a_at, op.a_steps, across[0]),
            (op.b, op.b_at, op.b_steps, across[1]),
        )
    )
    if groups > 1:
        own = _of_group(p, left.start, 2 * left.further(1, 0) // _UNIT)
        left = _Operand(own, left.steps, left.across, left.swizzled)
    registers = p.elements(op.c)
    p.call(f"{_WGMMA}.fence.sync.aligned", "void")
    for block in range(m // (_ROWS * groups)):
        held = registers[block * sums : (block + 1) * sums]
        for inner in range(k // _DEPTH):
            places = [left.descriptor(p, block * groups, inner), right.descriptor(p, 0, inner)]
            held = _product(p, f"m64n{n}k16.f32.{kind}.{kind}", held, places, across)
        registers[block * sums : (block + 1) * sums] = held
    p.call(f"{_WGMMA}.commit_group.sync.aligned", "void")
    p.set(op.y, p.joined(registers, element(op.y.type), len(registers)))


def _of_group(p: Printer, start: str, units: int) -> str:
    """Return where the rows of this thread's warpgroup begin, `units` further for each."""
    thread = p.call(f"{REGISTER}.tid.x", "i32")
    group = p.emit(f"lshr i32 {thread}, {simt.WARPGROUP.bit_length() - 1}")
    further = p.emit(f"mul i32 {group}, {units}")
    return p.emit(f"add i64 {start}, {p.emit(f'zext i32 {further} to i64')}")


def _units(p: Printer, memory: Memory, at: SSAValue) -> str:
    """Return the address of a place in shared memory, in units, as 64 bits."""
    pointer = f"ptr addrspace({SHARED}) {place_of(p, memory, p.name(at))}"
    address = p.emit(f"ptrtoint {pointer} to i32")
    units = p.emit(f"lshr i32 {address}, {_UNIT.bit_length() - 1}")
    return p.emit(f"zext i32 {units} to i64")


def _product(
    p: Printer, form: str, held: Sequence[str], places: Sequence[str], across: Sequence[int]
) -> list[str]:
    count = len(held)
    names = ", ".join(f"${n}" for n in range(count))
    text = (
        f"wgmma.mma_async.sync.aligned.{form} {{{names}}}, ${2 * count}, ${2 * count + 1}, "
        f"1, 1, 1, {across[0]}, {across[1]};"
    )
    return _through(p, text, held, [("l", "i64", each) for each in places])


def _through(
    p: Printer, text: str, held: Sequence[str], more: Sequence[tuple[str, str, str]] = ()
) -> list[str]:
    """Print assembly that changes registers of f32 in their place; return them."""
    count = len(held)
    result = f"{{ {', '.join(['float'] * count)} }}"
    ties = [*(str(n) for n in range(count)), *(letter for letter, _, _ in more)]
    constraints = ",".join([*["=f"] * count, *ties])
    given = ", ".join([*(f"float {x}" for x in held), *(f"{type} {x}" for _, type, x in more)])
    found = p.emit(f'call {result} asm sideeffect "{text}", "{constraints}"({given}) #1')
    return [p.emit(f"extractvalue {result} {found}, {n}") for n in range(count)]


def _wait(p: Printer, op: simt.WarpgroupWaitOp) -> None:
    pending = op.pending.value.data
    p.call(f"{_WGMMA}.wait_group.sync.aligned", "void", ("i64", str(pending)))
    if pending:
        p.set(op.y, p.name(op.c))
        return
    # What is made of the sums must not come before the wait, which does not name them.
    waited = _through(p, "", p.elements(op.c))
    p.set(op.y, p.joined(waited, element(op.y.type), count_of(op.y.type)))


def _fence(p: Printer, op: simt.FenceOp) -> None:
    p.add('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()')


RULES: Final[dict[type[Operation], Rule]] = {
    simt.FenceOp: _fence,
    simt.WarpgroupMultiplyOp: _multiply,
    simt.WarpgroupWaitOp: _wait,
}
"""How each operation is printed."""
