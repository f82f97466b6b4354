"""The operations of `tile` that work on registers: conversions and comparisons."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation

from lamina.dialects import tile
from lamina.targets.shading.conversions import Conversions, comparison
from lamina.targets.webgpu.elements import ELEMENTS, PAIR, Element
from lamina.targets.webgpu.printer import Printer, Rule
from lamina.targets.webgpu.rules_arith import (
    compare_integers,
    rounded,
    unsigned,
    wrapped,
)


def _from_float(p: Printer, target: Element, x: str, *, no_sign: bool) -> str:
    if target.wgsl == "bool":
        return f"(round({x}) >= 1.0f)"
    if target.narrow:
        low, high = (0, 1 << target.bits) if no_sign else _range(target.bits)
        return wrapped(target, p.call("to_small", x, f"{low}.0f", f"{high - 1}.0f"))
    if target.wide:
        return p.call("to_u64" if no_sign else "to_i64", x)
    return p.call("to_u32" if no_sign else "to_i32", x)


def _range(bits: int) -> tuple[int, int]:
    return -(1 << bits - 1), 1 << bits - 1


def _to_float(p: Printer, source: Element, target: Element, x: str, *, no_sign: bool) -> str:
    if source.wgsl == "bool":
        return f"select(0.0f, 1.0f, {x})"
    if source.wide:
        name = "bf16" if target.name == "bf16" else "f32"
        text = p.call(f"{name}_of_{'u64' if no_sign else 'i64'}", x)
        return rounded(p, target, text) if target.name == "f16" else text
    if target.name == "bf16" and not source.narrow:
        if no_sign:
            return p.call("to_bf16_u32", unsigned(source, x))
        return p.call("to_bf16_i32", x)
    return rounded(p, target, f"f32({unsigned(source, x) if no_sign else x})")


def _between_integers(
    p: Printer, source: Element, target: Element, x: str, *, no_sign: bool
) -> str:
    if source.wide:
        if target.name == "index":
            return p.call("index_of", x)
        return _between_words(ELEMENTS["i32"], target, f"bitcast<i32>({x}.x)", no_sign=False)
    if not target.wide:
        return _between_words(source, target, x, no_sign=no_sign)
    if source.wgsl == "bool":
        return f"{PAIR}(select(0u, 1u, {x}), 0u)"
    return f"{PAIR}({unsigned(source, x)}, 0u)" if no_sign else p.call("widened", x)


def _between_words(source: Element, target: Element, x: str, *, no_sign: bool) -> str:
    """Convert integers that a register of 32 bits holds."""
    if source.wgsl == "bool":
        return f"select(0i, 1i, {x})"
    if target.wgsl == "bool":
        return f"(({x} & 1i) != 0i)"
    if no_sign and source.narrow and source.bits < target.bits:
        return f"bitcast<i32>({unsigned(source, x)})"
    return wrapped(target, x) if target.bits < source.bits else x


RULES: Final[dict[type[Operation], Rule]] = {
    tile.CastOp: Conversions(rounded, _from_float, _to_float, _between_integers).cast,
    tile.CompareOp: comparison(compare_integers),
}
"""What `tile` has on registers."""
