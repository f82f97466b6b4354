"""Arithmetic in WGSL: each operation as an expression of the registers of its operands."""

from __future__ import annotations

import math as numbers
import struct
from typing import Final

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

from lamina.errors import LoweringError
from lamina.targets.shading.expressions import (
    FLOAT_TESTS,
    TESTS,
    Expression,
    as_float,
    called,
    define_lanes,
    numbers_of,
    owner_behind_splats,
    plain,
)
from lamina.targets.webgpu.elements import PAIR, Element, element
from lamina.targets.webgpu.functions import EXACT, OPAQUE
from lamina.targets.webgpu.printer import Printer, Rule, count_of

_SUMS: Final = (arith.AddfOp, arith.SubfOp, math.FmaOp)
_PRODUCTS: Final = (arith.MulfOp, arith.DivfOp)


def elementwise(expression: Expression) -> Rule:
    """Return the rule of an operation that is `expression` in every register."""
    return lambda p, op: define_lanes(
        p, op, expression, [_operands(p, op, each) for each in op.operands]
    )


def _operands(p: Printer, op: Operation, value: SSAValue) -> list[str]:
    """Return registers; those are made opaque that would be reassociated as if they were reals."""
    registers = p.registers(value)
    if not _rewritten(op, value):
        return registers
    return [p.call(OPAQUE, each) for each in registers]


def _rewritten(op: Operation, value: SSAValue) -> bool:
    owner = value.owner
    while isinstance(owner, arith.NegfOp):
        owner = owner.operand.owner
    if isinstance(op, arith.AddfOp | arith.SubfOp):
        same = op.lhs == op.rhs and isinstance(op, arith.SubfOp) and value is op.lhs
        return same or isinstance(owner, (*_SUMS, arith.MulfOp)) or _is_special(value)
    return isinstance(op, _PRODUCTS) and (isinstance(owner, _PRODUCTS) or _is_special(value))


def _is_special(value: SSAValue) -> bool:
    """Tell whether a constant is one that a sum or product with it is taken for granted."""
    owner = owner_behind_splats(value)
    if not isinstance(owner, arith.ConstantOp):
        return False
    return any(number == 0 or not numbers.isfinite(number) for number in numbers_of(owner))


def _fma(p: Printer, op: math.FmaOp) -> None:
    exact = element(op.result.type).bits == 32 and _of_what_is_lost(op)
    if exact:
        p.varied.add(EXACT)
        p.functions.add(OPAQUE)
    elementwise(plain("fma_exact({0}, {1}, {2})") if exact else _float("fma({0}, {1}, {2})"))(p, op)


def _of_what_is_lost(op: math.FmaOp) -> bool:
    """Tell whether a sum may be all but cancelled: a multiple of a constant is taken off."""
    owners = [owner_behind_splats(value) for value in op.operands]
    if any(isinstance(owner, arith.NegfOp) for owner in owners):
        return True
    a, b, c = (isinstance(owner, arith.ConstantOp) for owner in owners)
    return (a or b) and not c


def rounded(p: Printer, kind: Element, text: str) -> str:
    """Return a float of f32 arithmetic rounded to what `kind` can hold."""
    return text if kind.bits == 32 else p.call(f"round_{kind.name}", text)


def wrapped(kind: Element, text: str) -> str:
    """Return an integer of 32 bits cut to the bits of `kind`, sign-extended."""
    if not kind.narrow:
        return text
    return f"((({text}) << {32 - kind.bits}u) >> {32 - kind.bits}u)"


def unsigned(kind: Element, text: str) -> str:
    """Return the bits of an integer as u32."""
    bits = f"bitcast<u32>({text})"
    return f"({bits} & {(1 << kind.bits) - 1}u)" if kind.narrow else bits


def _float(template: str) -> Expression:
    return lambda p, kind, x: rounded(p, kind, template.format(*x))


def _integer(template: str, boolean: str, wide: str) -> Expression:
    """An operation that wraps: of booleans another one, of 64-bit integers a function."""

    def spelt(p: Printer, kind: Element, x: tuple[str, ...]) -> str:
        if kind.wgsl == "bool":
            return boolean.format(*x)
        return p.call(wide, *x) if kind.wide else wrapped(kind, template.format(*x))

    return spelt


def _bitwise(template: str, boolean: str) -> Expression:
    return lambda p, kind, x: (boolean if kind.wgsl == "bool" else template).format(*x)


def _signed(function: str, wide: str) -> Expression:
    return lambda p, kind, x: p.call(wide, *x) if kind.wide else wrapped(kind, p.call(function, *x))


def _unsigned(function: str, wide: str) -> Expression:
    def spelt(p: Printer, kind: Element, x: tuple[str, ...]) -> str:
        if kind.wide:
            return p.call(wide, *x)
        bits = p.call(function, *(unsigned(kind, each) for each in x))
        return wrapped(kind, f"bitcast<i32>({bits})")

    return spelt


def _shift_left(p: Printer, kind: Element, x: tuple[str, ...]) -> str:
    if kind.wide:
        return p.call("shift_left_i64", *x)
    return wrapped(kind, p.call("shift_left", *x, f"{min(kind.bits, 32)}u"))


def _shift_right(p: Printer, kind: Element, x: tuple[str, ...]) -> str:
    if kind.wide:
        return p.call("shift_right_i64", *x)
    return p.call("shift_right", *x, f"{min(kind.bits, 32)}u")


def _shift_right_unsigned(p: Printer, kind: Element, x: tuple[str, ...]) -> str:
    if kind.wide:
        return p.call("shift_right_u64", *x)
    bits = p.call("shift_right_u", unsigned(kind, x[0]), x[1], f"{min(kind.bits, 32)}u")
    return wrapped(kind, f"bitcast<i32>({bits})")


def _extreme(test: str, boolean: str, *, no_sign: bool = False) -> Expression:
    """The first operand if the test holds, else the second."""

    def spelt(p: Printer, kind: Element, x: tuple[str, ...]) -> str:
        if kind.wgsl == "bool":
            return boolean.format(*x)
        return f"select({x[1]}, {x[0]}, {compare_integers(test, no_sign=no_sign)(p, kind, x)})"

    return spelt


def _bitcast(p: Printer, op: arith.BitcastOp) -> None:
    source, target = element(op.input.type), element(op.result.type)
    if source.bits != target.bits or count_of(op.input) != count_of(op.result):
        raise LoweringError(f"webgpu has no rule for a cast of the bits of {source.name}")
    p.define(op.result, [_recast(p, source, target, x) for x in p.registers(op.input)])


def _recast(p: Printer, source: Element, target: Element, x: str) -> str:
    if source.floating == target.floating and source.name == target.name:
        return x
    if source.bits == 32:
        return f"bitcast<{target.wgsl}>({x})"
    bits = f"bitcast<i32>({p.call(f'to_{source.name}', x)})" if source.floating else x
    if target.floating:
        return p.call(f"from_{target.name}", unsigned(target, bits))
    return wrapped(target, bits)


def _constant(p: Printer, op: arith.ConstantOp) -> None:
    kind = element(op.result.type)
    texts = [literal(p, kind, number) for number in numbers_of(op)]
    size = count_of(op.result)
    p.define(op.result, texts * size if len(texts) == 1 else texts)


def literal(p: Printer, kind: Element, number: float) -> str:
    """Return the spelling of a constant; LoweringError for an integer that has no register."""
    if kind.wgsl == "bool":
        return "true" if number else "false"
    if kind.floating:
        return _float_literal(p, kind, number)
    whole, bits = int(number), kind.bits
    whole = (whole + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    if kind.wide:
        return f"{PAIR}({whole & 0xFFFFFFFF}u, {whole >> 32 & 0xFFFFFFFF}u)"
    if not -(1 << 31) <= whole < 1 << 31:
        raise LoweringError(f"webgpu has indices of 32 bits, which {whole} does not fit")
    return "bitcast<i32>(0x80000000u)" if whole == -(1 << 31) else f"{whole}i"


def _float_literal(p: Printer, kind: Element, number: float) -> str:
    value = as_float(kind.name, number)
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    exponent = bits >> 23 & 0xFF
    if exponent in (0, 0xFF) and bits & 0x7FFFFFFF:
        # Where a constant is known to be no number, WGSL refuses it.
        return p.call("from_bits", f"0x{bits:08x}u")
    return f"{value!r}f"


def _cmpf(p: Printer, op: arith.CmpfOp) -> None:
    p.functions.add("is_nan")
    elementwise(plain(FLOAT_TESTS[int(op.predicate.value.data)]))(p, op)


def compare_integers(test: str, *, no_sign: bool) -> Expression:
    """Return the comparison of integers or booleans by an operator of WGSL."""

    def spelt(p: Printer, kind: Element, x: tuple[str, ...]) -> str:
        if kind.wide:
            return _compare_pairs(p, test, x, no_sign=no_sign)
        a, b = x
        if kind.wgsl == "bool" and test not in ("==", "!="):
            a, b = (f"select(0u, 1u, {each})" for each in x)
        elif no_sign:
            a, b = (f"bitcast<u32>({each})" for each in x)
        return f"({a} {test} {b})"

    return spelt


def _compare_pairs(p: Printer, test: str, x: tuple[str, ...], *, no_sign: bool) -> str:
    a, b = x
    if test in ("==", "!="):
        return f"{'all' if test == '==' else 'any'}({a} {test} {b})"
    below = "below_u64" if no_sign else "below_i64"
    turned = (b, a) if test in (">", "<=") else (a, b)
    return f"{'!' if test in ('<=', '>=') else ''}{p.call(below, *turned)}"


def _cmpi(p: Printer, op: arith.CmpiOp) -> None:
    predicate = int(op.predicate.value.data)
    test = (*TESTS, *TESTS[2:])[predicate]
    elementwise(compare_integers(test, no_sign=predicate > 5))(p, op)


_EXPRESSIONS: Final[dict[type[Operation], Expression]] = {
    arith.AddfOp: _float("{0} + {1}"),
    arith.SubfOp: _float("{0} - {1}"),
    arith.MulfOp: _float("{0} * {1}"),
    arith.DivfOp: _float("{0} / {1}"),
    arith.NegfOp: plain("-{0}"),
    arith.MaximumfOp: called("max_f32"),
    arith.MinimumfOp: called("min_f32"),
    arith.AddiOp: _integer("{0} + {1}", "({0} != {1})", "add_i64"),
    arith.SubiOp: _integer("{0} - {1}", "({0} != {1})", "sub_i64"),
    arith.MuliOp: _integer("{0} * {1}", "({0} && {1})", "mul_i64"),
    arith.DivSIOp: _signed("div_s", "div_i64"),
    arith.DivUIOp: _unsigned("div_u", "div_u64"),
    arith.RemSIOp: _signed("rem_s", "rem_i64"),
    arith.RemUIOp: _unsigned("rem_u", "rem_u64"),
    arith.FloorDivSIOp: _signed("floor_div", "floor_div_i64"),
    arith.CeilDivSIOp: _signed("ceil_div", "ceil_div_i64"),
    arith.AndIOp: _bitwise("{0} & {1}", "({0} && {1})"),
    arith.OrIOp: _bitwise("{0} | {1}", "({0} || {1})"),
    arith.XOrIOp: _bitwise("{0} ^ {1}", "({0} != {1})"),
    arith.ShLIOp: _shift_left,
    arith.ShRSIOp: _shift_right,
    arith.ShRUIOp: _shift_right_unsigned,
    arith.MaxSIOp: _extreme(">", "({0} || {1})"),
    arith.MinSIOp: _extreme("<", "({0} && {1})"),
    arith.MaxUIOp: _extreme(">", "({0} || {1})", no_sign=True),
    arith.MinUIOp: _extreme("<", "({0} && {1})", no_sign=True),
    math.AbsFOp: plain("abs({0})"),
    math.SqrtOp: _float("sqrt({0})"),
    math.FloorOp: plain("floor({0})"),
    math.CeilOp: plain("ceil({0})"),
    math.TruncOp: plain("trunc({0})"),
    math.RoundEvenOp: plain("round({0})"),
    math.CopySignOp: called("copy_sign"),
}

RULES: Final[dict[type[Operation], Rule]] = {
    **{kind: elementwise(expression) for kind, expression in _EXPRESSIONS.items()},
    arith.ConstantOp: _constant,
    arith.BitcastOp: _bitcast,
    math.FmaOp: _fma,
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
}
"""Arithmetic on registers."""
