"""The operations of `tile` that work on registers: conversions and comparisons."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation

from lamina.dialects import tile
from lamina.targets.metal.elements import Element
from lamina.targets.metal.rules_arith import (
    compare_integers,
    rounded,
    unsigned,
    wrapped,
)
from lamina.targets.shading.conversions import Conversions, comparison
from lamina.targets.shading.printer import Printer, Rule

_SATURATING: Final = {"i32": ("to_int", "to_uint"), "i64": ("to_long", "to_ulong")}


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


RULES: Final[dict[type[Operation], Rule]] = {
    tile.CastOp: Conversions(rounded, _from_float, _to_float, _between_integers).cast,
    tile.CompareOp: comparison(compare_integers),
}
"""What `tile` has on registers."""
