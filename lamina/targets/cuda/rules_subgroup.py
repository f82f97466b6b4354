"""What the threads of a warp tell each other, in LLVM."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation

from lamina.dialects import simt
from lamina.targets.cuda.elements import Element, count_of, element
from lamina.targets.cuda.printer import Printer, Rule

WARP: Final = 32
"""Threads of a warp."""

_ALL: Final = "-1"
"""The mask of all threads of a warp."""

_SHUFFLE: Final = "llvm.nvvm.shfl.sync.bfly.i32"
_REDUCE: Final = "llvm.nvvm.redux.sync"
_VOTES: Final = {
    **dict.fromkeys(("and", "min"), "llvm.nvvm.vote.all.sync"),
    **dict.fromkeys(("or", "max"), "llvm.nvvm.vote.any.sync"),
}
_OWN: Final = {"mul"}
"""What no instruction reduces a warp by."""

_STEPS: Final = {
    **{kind: kind for kind in ("add", "mul", "and", "or")},
    **{"max": "smax", "min": "smin"},
}
"""What two registers become one by; of bits the larger is the one without sign."""


def _shuffle(p: Printer, op: simt.ShuffleOp) -> None:
    kind, xor = element(op.x.type), op.xor.value.data
    found = [_shuffled(p, part, kind, xor) for part in p.elements(op.x)]
    p.set(op.y, p.joined(found, kind, count_of(op.y.type)))


def _shuffled(p: Printer, x: str, kind: Element, xor: int) -> str:
    """Exchange a register in words of 32 bits."""
    type, bits = kind.llvm, kind.bits
    integer = f"i{bits}"
    held = x if type == integer else p.emit(f"bitcast {type} {x} to {integer}")
    wide = max(bits, 32)
    if bits < wide:
        held = p.emit(f"zext {integer} {held} to i32")
    words = [held]
    if wide > 32:
        pair = p.emit(f"bitcast {integer} {held} to <2 x i32>")
        words = [p.emit(f"extractelement <2 x i32> {pair}, i32 {n}") for n in range(2)]
    given = (("i32", str(xor)), ("i32", str(WARP - 1)))
    words = [p.call(_SHUFFLE, "i32", ("i32", _ALL), ("i32", word), *given) for word in words]
    found = words[0]
    if wide > 32:
        pair = p.emit(f"insertelement <2 x i32> poison, i32 {words[0]}, i32 0")
        pair = p.emit(f"insertelement <2 x i32> {pair}, i32 {words[1]}, i32 1")
        found = p.emit(f"bitcast <2 x i32> {pair} to {integer}")
    elif bits < wide:
        found = p.emit(f"trunc i32 {found} to {integer}")
    return found if type == integer else p.emit(f"bitcast {integer} {found} to {type}")


def _reduce(p: Printer, op: simt.SubgroupReduceOp) -> None:
    """Print one instruction where all of a warp become one, and shuffles otherwise."""
    kind, name = element(op.x.type), op.kind.data
    whole = op.size == WARP and name not in _OWN
    reduced = _by_instruction if whole else _by_shuffles
    found = [reduced(p, part, kind, name, op.size) for part in p.elements(op.x)]
    p.set(op.y, p.joined(found, kind, count_of(op.y.type)))


def _by_instruction(p: Printer, x: str, kind: Element, name: str, size: int) -> str:
    if kind.bits == 1:
        return p.call(_VOTES[name], "i1", ("i32", _ALL), ("i1", x))
    return p.call(f"{_REDUCE}.{name}", "i32", ("i32", x), ("i32", _ALL))


def _by_shuffles(p: Printer, x: str, kind: Element, name: str, size: int) -> str:
    step = {"max": "or", "min": "and"}.get(name, name) if kind.bits == 1 else _STEPS[name]
    xor = 1
    while xor < size:
        other = _shuffled(p, x, kind, xor)
        if step.startswith("s"):
            type = kind.llvm
            x = p.call(f"llvm.{step}.{type}", type, (type, x), (type, other))
        else:
            x = p.emit(f"{step} {kind.llvm} {x}, {other}")
        xor *= 2
    return x


RULES: Final[dict[type[Operation], Rule]] = {
    simt.ShuffleOp: _shuffle,
    simt.SubgroupReduceOp: _reduce,
}
"""What goes between threads of a warp."""
