"""Changes of memory as a whole in LLVM, and the error word, which checks change so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.ir import Operation

from lamina.dialects import simt
from lamina.targets.cuda.elements import count_of, element, zero
from lamina.targets.cuda.printer import Memory, Printer, Rule
from lamina.targets.cuda.rules_simt import GLOBAL, place_of, when

ERROR: Final = "%error"
"""The pointer to the error word."""

PARAMETER: Final = f"ptr addrspace({GLOBAL}) {ERROR}"
"""That of a kernel."""

_WORDS: Final = {"exchange": "xchg"}
"""What LLVM calls a kind, where it has a name of its own for it."""


def _atomic(p: Printer, op: simt.AtomicOp) -> None:
    kind, count, memory = element(op.v.type), count_of(op.v.type), p.memories[op.x]
    masks = [None] * max(count, 1) if op.mask is None else p.elements(op.mask)
    expected = [""] * max(count, 1) if op.expected is None else p.elements(op.expected)
    word = _WORDS.get(op.kind.data, op.kind.data)
    word = f"f{word}" if kind.floating else word

    def change(at: str, value: str, wanted: str) -> Sequence[str]:
        pointer = f"ptr addrspace({memory.space}) {place_of(p, memory, at)}"
        if not wanted:
            return [p.emit(f"atomicrmw {word} {pointer}, {kind.llvm} {value} monotonic")]
        given = f"{kind.llvm} {wanted}, {kind.llvm} {value}"
        pair = p.emit(f"cmpxchg {pointer}, {given} monotonic monotonic")
        return [p.emit(f"extractvalue {{ {kind.llvm}, i1 }} {pair}, 0")]

    found: list[str] = []
    for at, value, wanted, mask in zip(
        p.elements(op.at), p.elements(op.v), expected, masks, strict=True
    ):
        if mask is None:
            found += change(at, value, wanted)
            continue
        given = (at, value, wanted)
        found += when(p, mask, lambda given=given: change(*given), kind.llvm, zero(kind))
    p.set(op.y, p.joined(found, kind, count))


def _error_word(p: Printer, op: simt.ErrorWordOp) -> None:
    p.memories[op.y] = Memory(ERROR, GLOBAL, element(op.y.type), ("1",), ("1",))


def _node(p: Printer, op: simt.NodeOp) -> None:
    p.set(op.n, str(p.nodes.number(op.node.data)))


RULES: Final[dict[type[Operation], Rule]] = {
    simt.AtomicOp: _atomic,
    simt.ErrorWordOp: _error_word,
    simt.NodeOp: _node,
}
"""What changes memory as a whole."""
