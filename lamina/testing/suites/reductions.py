"""Cases of operations that bring many elements together: reductions, softmax, norms, order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from xdsl.dialects.builtin import (
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import ui8, ui64
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.values import always, distinct, edges, gaps, near, normal, unit

N = Dim.symbol("N")
LONG = (0, 1, 3, 31, 1000)
SHORT = (0, 1, 3, 31)

SUM = 3e-5
"""The tolerance of sums of some hundred numbers around 1, in whatever order."""

HALF_SUM = 5e-2
"""The same for results that are rounded to f16 or bf16."""


def cases() -> Iterator[Case]:
    """Yield the cases of reductions, of what is made of them, and of order."""
    for kind in (f32, f64, f16, bf16):
        yield Case(f"reductions-{kind}", partial(_floats, kind), LONG)
    for integer in (i8, i32, ui64):
        yield Case(f"reductions-{integer}", partial(_integers, integer), LONG)
    yield Case("reductions-i1", _logic, LONG)
    yield Case("axes", _axes, SHORT)
    yield Case("missing-numbers", _missing, LONG)
    yield Case("positions", _positions, LONG)
    yield Case("softmax", _softmax, LONG)
    yield Case("norms", _norms, LONG)
    yield Case("norms-f16", _half_norms, SHORT)
    yield Case("scans", _scans, SHORT)
    yield Case("orders", _orders, SHORT)
    yield Case("orders-of-integers", _integer_orders, SHORT)


def _floats(kind: Attribute, sheet: Sheet) -> None:
    rows = sheet.given("rows", kind, [5, "N"], normal)
    columns = sheet.given("columns", kind, ["N", 5], normal)
    near_one = sheet.given("near_one", kind, ["M", "N"], near(1.0, 0.01))
    atol = SUM if kind in (f32, f64) else HALF_SUM
    for name, x, dim in (("row", rows, 1), ("column", columns, 0)):
        sheet.compute(f"add_{name}", nn.ReduceOp(x, "add", [dim]), atol=atol)
        for extreme in ("max", "min"):
            op = nn.ReduceOp(x, extreme, [dim])
            sheet.compute(f"{extreme}_{name}", op, rtol=0.0, signed=False)
    sheet.compute("mul_row", nn.ReduceOp(near_one, "mul", [1]), rtol=max(atol, 1e-4))


def _integers(kind: Attribute, sheet: Sheet) -> None:
    rows = sheet.given("rows", kind, [5, "N"], edges)
    columns = sheet.given("columns", kind, ["N", 5], edges)
    for name, x, dim in (("row", rows, 1), ("column", columns, 0)):
        for fold in ("add", "mul", "max", "min", "and", "or"):
            sheet.compute(f"{fold}_{name}", nn.ReduceOp(x, fold, [dim]))


def _logic(sheet: Sheet) -> None:
    x = sheet.given("x", i1, [5, "N"], normal)
    for fold in ("and", "or", "max", "min"):
        sheet.compute(fold, nn.ReduceOp(x, fold, [1]))
        sheet.compute(f"{fold}_column", nn.ReduceOp(x, fold, [0]))


def _axes(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["M", 4, "N"], normal)
    for name, dims in (
        ("middle", [1]),
        ("first", [0]),
        ("last_two", [1, 2]),
        ("first_two", [0, 1]),
        ("outer", [0, 2]),
        ("all", [0, 1, 2]),
    ):
        sheet.compute(f"add_{name}", nn.ReduceOp(x, "add", dims), atol=SUM)
    empty = sheet.given("empty", f32, [3, 0], normal)
    for fold in ("add", "mul", "max", "min"):
        sheet.compute(f"{fold}_of_nothing", nn.ReduceOp(empty, fold, [1]), rtol=0.0)


def _missing(sheet: Sheet) -> None:
    x = sheet.given("x", f32, [7, "N"], gaps)
    y = sheet.given("y", f32, ["N", 7], gaps)
    for fold in ("max", "min"):
        sheet.compute(f"{fold}_row", nn.ReduceOp(x, fold, [1]), rtol=0.0, signed=False)
        sheet.compute(f"{fold}_column", nn.ReduceOp(y, fold, [0]), rtol=0.0, signed=False)
    sheet.compute("add_row", nn.ReduceOp(x, "add", [1]), atol=SUM)
    sheet.compute("softmax", nn.SoftmaxOp(x, 1), atol=1e-6)


def _positions(sheet: Sheet) -> None:
    x = sheet.given("x", f32, [5, "N"], distinct)
    numbers = sheet.given("numbers", i32, [5, "N"], distinct)
    for kind in ("argmax", "argmin"):
        sheet.compute(f"{kind}_row", nn.ReduceOp(x, kind, [1]))
        sheet.compute(f"{kind}_column", nn.ReduceOp(x, kind, [0]))
        sheet.compute(f"{kind}_of_integers", nn.ReduceOp(numbers, kind, [1]))


def _softmax(sheet: Sheet) -> None:
    rows = sheet.given("rows", f32, [5, "N"], normal)
    columns = sheet.given("columns", f32, ["M", "N", 3], normal)
    large = sheet.given("large", f32, [5, 33], near(0.0, 1e4))
    sheet.compute("last", nn.SoftmaxOp(rows, 1), atol=1e-6)
    sheet.compute("middle", nn.SoftmaxOp(columns, 1), atol=1e-6)
    sheet.compute("first", nn.SoftmaxOp(columns, 0), atol=1e-6)
    sheet.compute("of_large", nn.SoftmaxOp(large, 1), atol=1e-6)
    hidden = sheet.given("hidden", f32, ["N", 7], always(float("-inf")))
    sheet.compute("of_all_hidden", nn.SoftmaxOp(hidden, 1), atol=1e-6)


def _norms(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["M", "N"], normal)
    w, b = (sheet.given(name, f32, ["N"], unit) for name in "wb")
    cube = sheet.given("cube", f32, ["M", 3, 40], normal)
    v = sheet.given("v", f32, [40], unit)
    sheet.compute("layer_norm", nn.LayerNormOp(x, w, b, 1e-5), atol=1e-5)
    sheet.compute("rms_norm", nn.RmsNormOp(x, w, 1e-5), atol=1e-5)
    sheet.compute("layer_norm_of_cubes", nn.LayerNormOp(cube, v, v, 1e-5), atol=1e-5)
    sheet.compute("rms_norm_of_cubes", nn.RmsNormOp(cube, v, 1e-6), atol=1e-5)


def _half_norms(sheet: Sheet) -> None:
    x = sheet.given("x", f16, ["N", 40], normal)
    w, b = (sheet.given(name, f16, [40], unit) for name in "wb")
    sheet.compute("layer_norm", nn.LayerNormOp(x, w, b, 1e-5), atol=5e-3)
    sheet.compute("rms_norm", nn.RmsNormOp(x, w, 1e-5), atol=5e-3)
    sheet.compute("softmax", nn.SoftmaxOp(x, 1), atol=1e-3)


def _scans(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N", 5], normal)
    numbers = sheet.given("numbers", i32, [5, "N"], edges)
    bytes = sheet.given("bytes", ui8, [40, "N"], edges)
    sheet.compute("add_down", nn.ScanOp(x, "add", 0), atol=SUM)
    sheet.compute("max_across", nn.ScanOp(x, "max", 1), rtol=0.0, signed=False)
    sheet.compute("add_of_integers", nn.ScanOp(numbers, "add", 1))
    sheet.compute("max_of_unsigned", nn.ScanOp(bytes, "max", 1))
    for dim in (0, 1):
        ways = {"before": (True, False), "from_the_end": (False, True), "after": (True, True)}
        for name, (exclusive, reverse) in ways.items():
            op = nn.ScanOp(bytes, "add", dim, exclusive=exclusive, reverse=reverse)
            sheet.compute(f"add_{name}_{dim}", op)


def _orders(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N", 9], distinct)
    down = sheet.given("down", i32, ["N", 3], normal)
    _sorted(sheet, "up", nn.SortOp(x, 1))
    _sorted(sheet, "falling", nn.SortOp(x, 1, descending=True))
    _sorted(sheet, "top", nn.SortOp(x, 1, 4, descending=True))
    _sorted(sheet, "columns", nn.SortOp(down, 0))
    _sorted(sheet, "half_of_columns", nn.SortOp(down, 0, N.ceildiv(2)))


def _integer_orders(sheet: Sheet) -> None:
    halves = sheet.given("halves", f16, [2, "N"], distinct)
    _sorted(sheet, "halves", nn.SortOp(halves, 1, descending=True))
    bytes = sheet.given("bytes", ui8, ["N", 40], edges)
    long = sheet.given("long", ui64, ["N", 40], edges)
    _sorted(sheet, "up_ui8", nn.SortOp(bytes, 1, 33))
    wide = sheet.given("wide", i64, [3, "N"], edges)
    _sorted(sheet, "up_i64", nn.SortOp(wide, 1))
    _sorted(sheet, "falling_ui64", nn.SortOp(long, 0, descending=True))
    sheet.compute("argmax_ui8", nn.ReduceOp(bytes, "argmax", [1]))
    sheet.compute("argmin_ui64", nn.ReduceOp(long, "argmin", [1]))


def _sorted(sheet: Sheet, name: str, op: nn.SortOp) -> None:
    sheet.compute(name, op, rtol=0.0)
    sheet.check(f"{name}_positions", op.position)
