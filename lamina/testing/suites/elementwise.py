"""Cases of operations that map elements to elements, for each element type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from xdsl.dialects.builtin import AnyFloat, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.byte_floats import BYTE_FLOATS
from lamina.dialects.tensors import ui8, ui16, ui32, ui64
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.values import angles, anything, edges, exponents, normal

Unary = Callable[[SSAValue], Operation]
Binary = Callable[[SSAValue, SSAValue], Operation]

NARROW: tuple[Attribute, ...] = (f32, f16, bf16)
FLOATS: tuple[Attribute, ...] = (*NARROW, f64)
INTEGERS: tuple[Attribute, ...] = (i8, i16, i32, i64)
ALL: tuple[Attribute, ...] = (*FLOATS, i1, *INTEGERS)

UNSIGNED_CASTS: dict[Attribute, tuple[Attribute, ...]] = {
    f32: (ui8, ui16, ui32, ui64),
    f16: (ui8,),
    f64: (ui32, ui64),
    i8: (ui32,),
    i64: (ui8, ui16),
    ui8: (f32, f16, i32, i64),
    ui32: (f32, i64, ui16),
    ui64: (f32, f64, bf16, i32, ui8),
}
"""From which elements to which: one side is unsigned."""

EXACT: tuple[Unary, ...] = (nn.AbsOp, nn.NegOp, nn.ReluOp, nn.SignOp)
"""Operations of one operand, a number of any type."""

ROUNDED: tuple[Unary, ...] = (nn.FloorOp, nn.CeilOp, nn.RoundOp, nn.SqrtOp)
"""Operations of one float that round to the nearest result."""

FUNCTIONS: tuple[Unary, ...] = (
    nn.ExpOp,
    nn.LogOp,
    nn.RsqrtOp,
    nn.TanhOp,
    nn.ErfOp,
    nn.SigmoidOp,
    nn.SiluOp,
    nn.GeluOp,
    partial(nn.GeluOp, approximate=True),
    nn.SoftplusOp,
    nn.AsinOp,
    nn.AcosOp,
    nn.AtanOp,
    nn.SinhOp,
    nn.CoshOp,
    nn.AsinhOp,
    nn.AcoshOp,
    nn.AtanhOp,
)
"""Functions of one float that are within some units in the last place."""

PERIODIC: tuple[Unary, ...] = (nn.SinOp, nn.CosOp, nn.TanOp)

ARITHMETIC: tuple[Binary, ...] = (
    nn.AddOp,
    nn.SubOp,
    nn.MulOp,
    nn.DivOp,
    nn.ModOp,
    nn.MaxOp,
    nn.MinOp,
)
BITWISE: tuple[Binary, ...] = (nn.AndOp, nn.OrOp, nn.XorOp)
SHIFTS: tuple[Binary, ...] = (nn.ShlOp, nn.ShrOp)

EITHER_ZERO = ("relu", "max", "min")
"""Operations whose zero may have either sign, if they are given zeros of both."""

ACTIVATION_ERROR = 1e-6
"""The absolute tolerance of functions that subtract numbers of the size of 1."""


def cases() -> Iterator[Case]:
    """Yield one case for the functions and one for the arithmetic of each element type."""
    for kind in FLOATS:
        yield Case(f"functions-{kind}", partial(_functions, kind))
        yield Case(f"arithmetic-{kind}", partial(_floats, kind))
    for kind in INTEGERS:
        yield Case(f"arithmetic-{kind}", partial(_integers, kind))
    for kind in (ui8, ui64):
        yield Case(f"arithmetic-{kind}", partial(_unsigned, kind))
    yield Case("logic-i1", _logic)
    for kind in ALL:
        yield Case(f"casts-{kind}", partial(_casts, kind))
    yield Case("casts-unsigned", _unsigned_casts)
    yield Case("codes", _codes)
    yield Case("bits", _bits)


def _functions(kind: Attribute, sheet: Sheet) -> None:
    x, angle = (sheet.given(n, kind, ["N"], d) for n, d in (("x", edges), ("angle", angles)))
    for make in FUNCTIONS:
        op = make(x)
        sheet.compute(_name(op), op, atol=ACTIVATION_ERROR)
    for make in PERIODIC:
        op = make(angle)
        sheet.compute(_name(op), op, atol=ACTIVATION_ERROR)


def _name(op: Operation) -> str:
    approximate = isinstance(op, nn.GeluOp) and op.approximate is not None
    return op.name.removeprefix("nn.") + ("_tanh" if approximate else "")


def _floats(kind: Attribute, sheet: Sheet) -> None:
    a, b = (sheet.given(name, kind, ["N"], edges) for name in "ab")
    for unary in (*EXACT, *ROUNDED):
        _exact(sheet, unary(a))
    for binary in ARITHMETIC:
        _exact(sheet, binary(a, b))
    sheet.compute("mod_floor", nn.ModOp(a, b, floor=True), rtol=0.0)
    sheet.compute("pow", nn.PowOp(a, b), atol=0.0)
    _compared(sheet, a, b)


def _exact(sheet: Sheet, op: Operation) -> None:
    name = _name(op)
    sheet.compute(name, op, rtol=0.0, signed=name not in EITHER_ZERO)


def _integers(kind: Attribute, sheet: Sheet) -> None:
    a, b = (sheet.given(name, kind, ["N"], edges) for name in "ab")
    distance = sheet.given("distance", kind, ["N"], exponents)
    for unary in EXACT:
        op = unary(a)
        sheet.compute(_name(op), op)
    for binary in (*ARITHMETIC, *BITWISE):
        op = binary(a, b)
        sheet.compute(_name(op), op)
    sheet.compute("pow", nn.PowOp(a, distance))
    sheet.compute("mod_floor", nn.ModOp(a, b, floor=True))
    for shift in SHIFTS:
        op = shift(a, distance)
        sheet.compute(_name(op), op)
    _compared(sheet, a, b)


def _logic(sheet: Sheet) -> None:
    a, b = (sheet.given(name, i1, ["N"], edges) for name in "ab")
    for binary in (*BITWISE, nn.MaxOp, nn.MinOp):
        op = binary(a, b)
        sheet.compute(_name(op), op)
    _compared(sheet, a, b, kinds=("eq", "ne"))


def _compared(
    sheet: Sheet, a: SSAValue, b: SSAValue, kinds: tuple[str, ...] = tile.COMPARISONS
) -> None:
    for kind in kinds:
        sheet.compute(kind, nn.CompareOp(kind, a, b))
    condition = sheet.given("c", i1, ["N"], normal)
    sheet.compute("select", nn.SelectOp(condition, a, b), rtol=0.0)


def _casts(kind: Attribute, sheet: Sheet) -> None:
    x = sheet.given("x", kind, ["N"], edges)
    for to in ALL:
        if to != kind:
            sheet.compute(f"to_{to}", nn.CastOp(x, to), rtol=0.0)
    if isinstance(kind, AnyFloat):
        wide = sheet.add(nn.CastOp(x, i32))
        sheet.compute("there_and_back", nn.CastOp(wide, kind), rtol=0.0)


def _unsigned_casts(sheet: Sheet) -> None:
    for kind, others in UNSIGNED_CASTS.items():
        x = sheet.given(f"x_{kind}", kind, ["N"], edges)
        for to in others:
            sheet.compute(f"{kind}_to_{to}", nn.CastOp(x, to), rtol=0.0)


def _unsigned(kind: Attribute, sheet: Sheet) -> None:
    a, b = (sheet.given(name, kind, ["N"], edges) for name in "ab")
    for op in (nn.AbsOp(a), nn.NegOp(a), nn.SignOp(a)):
        sheet.compute(_name(op), op)
    for make in (nn.DivOp, nn.ModOp, nn.MaxOp, nn.MinOp, nn.PowOp):
        op = make(a, b)
        sheet.compute(_name(op), op)
    sheet.compute("lt", nn.CompareOp("lt", a, b))
    sheet.compute("ge", nn.CompareOp("ge", a, b))


def _bits(sheet: Sheet) -> None:
    for kinds in ((f32, i32, ui32), (f16, ui16), (bf16, i16), (f64, i64, ui64), (i8, ui8)):
        x = sheet.given(f"x_{kinds[0]}", kinds[0], ["N"], edges)
        y = sheet.given(f"x_{kinds[-1]}", kinds[-1], ["N"], normal)
        for to in kinds[1:]:
            sheet.compute(f"{kinds[0]}_as_{to}", nn.BitcastOp(x, to))
        sheet.compute(f"{kinds[-1]}_as_{kinds[0]}", nn.BitcastOp(y, kinds[0]), rtol=0.0)


def _codes(sheet: Sheet) -> None:
    codes = sheet.given("codes", ui8, ["N"], anything)
    x = sheet.given("x", f32, ["N"], edges)
    halves = sheet.given("halves", f16, ["N"], edges)
    for format in BYTE_FLOATS:
        sheet.compute(f"of_{format}", nn.DecodeOp(codes, format), rtol=0.0)
        sheet.compute(f"to_{format}", nn.EncodeOp(x, format))
    for format in ("f8e4m3fn", "f8e5m2", "f8e5m2fnuz"):
        sheet.compute(f"beyond_{format}", nn.EncodeOp(halves, format, saturate=False))
