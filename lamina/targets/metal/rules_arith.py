"""Arithmetic in Metal's language: each operation as an expression of its operands' registers."""

from __future__ import annotations

import math as numbers
import struct
from collections.abc import Mapping
from typing import Final

from xdsl.dialects import arith, math
from xdsl.ir import Operation

from lamina.errors import LoweringError
from lamina.targets.metal.elements import Element, element
from lamina.targets.shading.expressions import (
    FLOAT_TESTS,
    TESTS,
    Expression,
    as_float,
    called,
    elementwise,
    numbers_of,
    plain,
)
from lamina.targets.shading.printer import Printer, Rule, count_of

Registers = tuple[str, ...]


def rounded(p: Printer, kind: Element, text: str) -> str:
    """Return a float of 32 bits rounded to what `kind` can hold."""
    return text if kind.bits == 32 else p.call(f"round_{kind.name}", text)


def wrapped(kind: Element, text: str) -> str:
    """Return a number of 32 bits cut to the bits of `kind`, sign-extended."""
    return f"int({kind.memory}({text}))" if kind.narrow else text


def unsigned(kind: Element, text: str) -> str:
    """Return the bits of an integer as a number without a sign, of as many bits as a register."""
    return f"uint(u{kind.memory}({text}))" if kind.narrow else f"{kind.unsigned}({text})"


def _float(template: str) -> Expression:
    return lambda p, kind, x: rounded(p, kind, template.format(*x))


def _wrapping(sign: str, boolean: str) -> Expression:
    """A sum or product that wraps: by numbers without a sign, for overflow is anything."""

    def spelt(p: Printer, kind: Element, x: Registers) -> str:
        a, b = x
        if kind.boolean:
            return boolean.format(*x)
        if kind.narrow or kind.name == "index":
            return wrapped(kind, f"{a} {sign} {b}")
        return f"{kind.register}({kind.unsigned}({a}) {sign} {kind.unsigned}({b}))"

    return spelt


def _bitwise(template: str, boolean: str) -> Expression:
    return lambda p, kind, x: (boolean if kind.boolean else template).format(*x)


def _signed(function: str) -> Expression:
    return lambda p, kind, x: wrapped(kind, p.call(function, *x))


def _unsigned(function: str) -> Expression:
    def spelt(p: Printer, kind: Element, x: Registers) -> str:
        bits = p.call(function, *(unsigned(kind, each) for each in x))
        return wrapped(kind, f"{kind.register}({bits})")

    return spelt


def _shift(function: str) -> Expression:
    def spelt(p: Printer, kind: Element, x: Registers) -> str:
        a = unsigned(kind, x[0]) if function == "shift_right_u" else x[0]
        text = p.call(function, a, x[1], f"{_width(kind)}u")
        if function == "shift_right_u":
            text = f"{kind.register}({text})"
        return wrapped(kind, text)

    return spelt


def _width(kind: Element) -> int:
    return 32 if kind.name == "index" else kind.bits


def _extreme(sign: str, boolean: str) -> Expression:
    template = f"({{0}} {sign} {{1}} ? {{0}} : {{1}})"
    return lambda p, kind, x: (boolean if kind.boolean else template).format(*x)


def _extreme_unsigned(sign: str) -> Expression:
    def spelt(p: Printer, kind: Element, x: Registers) -> str:
        a, b = (f"{kind.unsigned}({each})" for each in x)
        return f"({a} {sign} {b} ? {x[0]} : {x[1]})"

    return spelt


def _fma(p: Printer, kind: Element, x: Registers) -> str:
    if kind.bits == 32:
        return f"fma({', '.join(x)})"
    return rounded(p, kind, p.call("fma_odd", *x))


def _bitcast(p: Printer, op: arith.BitcastOp) -> None:
    source, target = element(op.input.type), element(op.result.type)
    if source.bits != target.bits or count_of(op.input) != count_of(op.result):
        raise LoweringError(f"metal has no rule for a cast of the bits of {source.name}")
    p.define(op.result, [_recast(p, source, target, x) for x in p.registers(op.input)])


def _recast(p: Printer, source: Element, target: Element, x: str) -> str:
    if source.name == target.name or source.bits == 64:
        return x
    if source.bits == 32:
        return f"as_type<{target.register}>({x})"
    bits = f"int({_bits_of_float(p, source, x)})" if source.floating else x
    if target.name == "f16":
        return f"float(as_type<half>(ushort({bits})))"
    if target.name == "bf16":
        return p.call("from_bf16", f"ushort({bits})")
    return wrapped(target, bits)


def _bits_of_float(p: Printer, kind: Element, x: str) -> str:
    return p.call("to_bf16", x) if kind.name == "bf16" else f"as_type<ushort>(half({x}))"


def _constant(p: Printer, op: arith.ConstantOp) -> None:
    kind = element(op.result.type)
    texts = [literal(kind, number) for number in numbers_of(op)]
    size = count_of(op.result)
    p.define(op.result, texts * size if len(texts) == 1 else texts)


def literal(kind: Element, number: float) -> str:
    """Return the spelling of a constant; LoweringError for an index beyond 32 bits."""
    if kind.boolean:
        return "true" if number else "false"
    if kind.floating:
        return _float_literal(as_float(kind.name, number))
    whole, bits = int(number), 32 if kind.name == "index" else kind.bits
    if kind.name == "index":
        # The least and the largest are what a fold of indices begins with.
        whole = {-(1 << 63): -(1 << 31), (1 << 63) - 1: (1 << 31) - 1}.get(whole, whole)
        if not -(1 << 31) <= whole < 1 << 31:
            raise LoweringError(f"metal holds an index in 32 bits, which {whole} does not fit")
    whole = (whole + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    if whole == -(1 << bits - 1) and bits >= 32:
        return f"as_type<{kind.register}>(0x{1 << bits - 1:x}{'UL' if bits == 64 else 'u'})"
    return f"{whole}{'L' if bits == 64 else ''}"


def _float_literal(value: float) -> str:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if not numbers.isfinite(value) or (bits >> 23 & 0xFF == 0 and bits & 0x7FFFFFFF):
        return f"as_type<float>(0x{bits:08x}u)"
    return f"{value!r}f"


def _cmpf(p: Printer, op: arith.CmpfOp) -> None:
    p.functions.add("is_nan")
    elementwise(plain(FLOAT_TESTS[int(op.predicate.value.data)]))(p, op)


def compare_integers(test: str, *, no_sign: bool) -> Expression:
    """Return the comparison of integers or truth values by an operator."""

    def spelt(p: Printer, kind: Element, x: Registers) -> str:
        a, b = x
        if no_sign and not kind.boolean:
            # Sign extension keeps the order of numbers without a sign.
            a, b = (f"{kind.unsigned}({each})" for each in x)
        return f"({a} {test} {b})"

    return spelt


def _cmpi(p: Printer, op: arith.CmpiOp) -> None:
    predicate = int(op.predicate.value.data)
    test = (*TESTS, *TESTS[2:])[predicate]
    elementwise(compare_integers(test, no_sign=predicate > 5))(p, op)


_EXPRESSIONS: Final[Mapping[type[Operation], Expression]] = {
    arith.AddfOp: _float("{0} + {1}"),
    arith.SubfOp: _float("{0} - {1}"),
    arith.MulfOp: _float("{0} * {1}"),
    arith.DivfOp: _float("{0} / {1}"),
    arith.NegfOp: called("negated"),
    arith.MaximumfOp: called("max_f32"),
    arith.MinimumfOp: called("min_f32"),
    arith.AddiOp: _wrapping("+", "({0} != {1})"),
    arith.SubiOp: _wrapping("-", "({0} != {1})"),
    arith.MuliOp: _wrapping("*", "({0} && {1})"),
    arith.DivSIOp: _signed("div_s"),
    arith.DivUIOp: _unsigned("div_u"),
    arith.RemSIOp: _signed("rem_s"),
    arith.RemUIOp: _unsigned("rem_u"),
    arith.FloorDivSIOp: _signed("floor_div"),
    arith.CeilDivSIOp: _signed("ceil_div"),
    arith.AndIOp: _bitwise("{0} & {1}", "({0} && {1})"),
    arith.OrIOp: _bitwise("{0} | {1}", "({0} || {1})"),
    arith.XOrIOp: _bitwise("{0} ^ {1}", "({0} != {1})"),
    arith.ShLIOp: _shift("shift_left"),
    arith.ShRSIOp: _shift("shift_right"),
    arith.ShRUIOp: _shift("shift_right_u"),
    arith.MaxSIOp: _extreme(">", "({0} || {1})"),
    arith.MinSIOp: _extreme("<", "({0} && {1})"),
    arith.MaxUIOp: _extreme_unsigned(">"),
    arith.MinUIOp: _extreme_unsigned("<"),
    math.AbsFOp: called("magnitude"),
    math.SqrtOp: _float("precise::sqrt({0})"),
    math.FloorOp: plain("floor({0})"),
    math.CeilOp: plain("ceil({0})"),
    math.TruncOp: plain("trunc({0})"),
    math.RoundEvenOp: plain("rint({0})"),
    math.CopySignOp: called("copy_sign"),
    math.FmaOp: _fma,
}

RULES: Final[dict[type[Operation], Rule]] = {
    **{kind: elementwise(expression) for kind, expression in _EXPRESSIONS.items()},
    arith.ConstantOp: _constant,
    arith.BitcastOp: _bitcast,
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
}
"""Arithmetic on registers."""
