"""Changes of memory as a whole in Metal's language, and the error word, which checks change so."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation

from lamina.dialects import simt
from lamina.errors import LoweringError
from lamina.targets.metal.elements import element
from lamina.targets.metal.rules_simt import Memory
from lamina.targets.shading.printer import Printer, Rule, count_of

ERROR_WORD: Final = "failed"
"""What the pointer to the error word is called."""

COMPARE_EXCHANGE: Final = "compare_exchange"

_FUNCTIONS: Final = {
    **{kind: f"atomic_fetch_{kind}_explicit" for kind in ("add", "max", "min", "and", "or", "xor")},
    "exchange": "atomic_exchange_explicit",
}


def _atomic(p: Printer, op: simt.AtomicOp) -> None:
    memory: Memory = p.memories[op.x]
    kind, name, count = memory.element, op.kind.data, count_of(op.v)
    if kind.floating and memory.space != "device":
        raise LoweringError("metal adds floats as a whole in device memory alone")
    type = f"{memory.space} atomic_{kind.memory}*"
    expected = p.registers(op.v if op.expected is None else op.expected)
    values, places = p.registers(op.v), p.registers(op.at)
    masks = [] if op.mask is None else p.registers(op.mask)
    names = p.variables(op.y)
    for n in range(count):
        at = f"({type})({memory.name} + {places[n]})"
        text = f"{_FUNCTIONS.get(name)}({at}, {values[n]}, memory_order_relaxed)"
        if name == COMPARE_EXCHANGE:
            text = p.call("compare_exchanged", at, expected[n], values[n])
        p.add(f"{f'if ({masks[n]}) ' if masks else ''}{names[n]} = {text};")


def _error_word(p: Printer, op: simt.ErrorWordOp) -> None:
    p.memories[op.y] = Memory(ERROR_WORD, element(op.y.type), ("1",), ("1",))


def _node(p: Printer, op: simt.NodeOp) -> None:
    p.set(op.n, [str(p.nodes.number(op.node.data))])


RULES: Final[dict[type[Operation], Rule]] = {
    simt.AtomicOp: _atomic,
    simt.ErrorWordOp: _error_word,
    simt.NodeOp: _node,
}
"""What changes memory as a whole."""
