"""What the threads of a simdgroup tell each other, in Metal's language."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation

from lamina.dialects import simt
from lamina.targets.metal.elements import element
from lamina.targets.shading.printer import Printer, Rule

LANES: Final = 32
"""Threads of a simdgroup."""

_WHOLE: Final = {
    "add": "int(simd_sum(uint({0})))",
    "mul": "int(simd_product(uint({0})))",
    "max": "simd_max({0})",
    "min": "simd_min({0})",
    "and": "simd_and({0})",
    "or": "simd_or({0})",
}
"""What all registers of a simdgroup become one by; overflow is nothing only without a sign."""

_TWO: Final = {
    "add": "int(uint({0}) + uint({1}))",
    "mul": "int(uint({0}) * uint({1}))",
    "max": "max({0}, {1})",
    "min": "min({0}, {1})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
}
"""What two registers become one by."""

_TRUTHS: Final = {
    **dict.fromkeys(("and", "min"), ("simd_all({0})", "(({0} & {1}) != 0)")),
    **dict.fromkeys(("or", "max"), ("simd_any({0})", "(({0} | {1}) != 0)")),
}
"""What truth values become one by: all of them, and two, of which both are always asked for."""


def _shuffle(p: Printer, op: simt.ShuffleOp) -> None:
    p.define(op.y, [_shuffled(p, x, op.xor.value.data) for x in p.registers(op.x)])


def _shuffled(p: Printer, x: str, xor: int) -> str:
    return p.call("shuffled", x, f"ushort({xor})")


def _reduce(p: Printer, op: simt.SubgroupReduceOp) -> None:
    """Print one function where all of a simdgroup become one, and shuffles otherwise."""
    kind, name = element(op.x.type), op.kind.data
    whole, two = _TRUTHS[name] if kind.boolean else (_WHOLE[name], _TWO[name])
    registers = p.registers(op.x)
    if op.size == LANES:
        p.define(op.y, [whole.format(x) for x in registers])
        return
    xor = 1
    while xor < op.size:
        p.define(op.y, [two.format(x, _shuffled(p, x, xor)) for x in registers])
        registers, xor = p.registers(op.y), 2 * xor


RULES: Final[dict[type[Operation], Rule]] = {
    simt.ShuffleOp: _shuffle,
    simt.SubgroupReduceOp: _reduce,
}
"""What goes between threads of a simdgroup."""
