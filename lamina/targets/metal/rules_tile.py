"""The operations of `tile` that work on registers: conversions, comparisons, selection."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation

from lamina.dialects import tile
from lamina.targets.metal.elements import Element, element
from lamina.targets.metal.rules_arith import (
    chosen,
    compare_integers,
    rounded,
    unsigned,
    wrapped,
)
from lamina.targets.shading.expressions import TESTS, elementwise, plain
from lamina.targets.shading.printer import Printer, Rule

_SATURATING: Final = {"i32": ("to_int", "to_uint"), "i64": ("to_long", "to_ulong")}


def _cast(p: Printer, op: tile.CastOp) -> None:
    source, target = element(op.x.type), element(op.y.type)
    texts = [
        convert(p, source, target, x, no_sign=op.unsigned is not None) for x in p.registers(op.x)
    ]
    p.define(op.y, texts)


def convert(p: Printer, source: Element, target: Element, x: str, *, no_sign: bool) -> str:
    """Return a register of `source` converted to `target`, as `tile.cast` does."""
    if source.name == target.name:
        return x
    if source.floating and target.floating:
        return rounded(p, target, x)
    if source.floating:
        return _from_float(p, target, x, no_sign=no_sign)
    if target.floating:
        return _to_float(p, source, target, x, no_sign=no_sign)
    return _between_integers(p, source, target, x, no_sign=no_sign)


def _from_float(p: Printer, target: Element, x: str, *, no_sign: bool) -> str:
    if target.boolean:
        return f"(rint({x}) >= 1.0f)"
    if target.narrow:
        half = 1 << target.bits - 1
        low, high = (0, 2 * half - 1) if no_sign else (-half, half - 1)
        return wrapped(target, p.call("to_small", x, f"{low}.0f", f"{high}.0f"))
    signed, without = _SATURATING.get(target.name, _SATURATING["i32"])
    return p.call(without if no_sign else signed, x)


def _to_float(p: Printer, source: Element, target: Element, x: str, *, no_sign: bool) -> str:
    if source.boolean:
        return f"({x} ? 1.0f : 0.0f)"
    number = unsigned(source, x) if no_sign else x
    if target.name == "bf16" and not source.narrow:
        # Rounded once: what float cannot hold is rounded off there.
        if no_sign:
            return p.call("bf16_of_ulong", f"ulong({number})")
        return p.call("bf16_of_long", f"long({number})")
    return rounded(p, target, f"float({number})")


def _between_integers(
    p: Printer, source: Element, target: Element, x: str, *, no_sign: bool
) -> str:
    if source.boolean:
        return f"({x} ? 1 : 0)"
    if target.boolean:
        return f"(({x} & 1) != 0)"
    if source.name == "i64" and target.name == "index":
        # What is beyond an index stays beyond every extent.
        return p.call("to_index", x)
    if target.narrow and target.bits < source.bits:
        return wrapped(target, x)
    if no_sign and source.bits < target.bits:
        return f"{target.register}({unsigned(source, x)})"
    return x if source.register == target.register else f"{target.register}({x})"


def _compare(p: Printer, op: tile.CompareOp) -> None:
    kind, test = element(op.a.type), TESTS[tile.COMPARISONS.index(op.kind.data)]
    if kind.floating:
        # What is said to differ need not be NaN, but nothing says that NaN is equal.
        elementwise(plain("!({0} == {1})" if test == "!=" else f"({{0}} {test} {{1}})"))(p, op)
        return
    elementwise(compare_integers(test, no_sign=op.unsigned is not None))(p, op)


def _select(p: Printer, op: tile.SelectOp) -> None:
    chosen(p, op.y, op.c, op.a, op.b)


RULES: Final[dict[type[Operation], Rule]] = {
    tile.CastOp: _cast,
    tile.CompareOp: _compare,
    tile.SelectOp: _select,
}
"""What `tile` has on registers."""
