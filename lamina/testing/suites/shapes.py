"""Cases of operations that move elements: shapes, windows of tensors, look-ups, counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    f16,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from lamina.dialects import nn, nn_index
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import tensor, ui8
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.values import always, below, edges

N, M = Dim.symbol("N"), Dim.symbol("M")

PLAIN: tuple[Attribute, ...] = (f32, f16, i8, i32)
SIZES = (0, 1, 3, 31)


def cases() -> Iterator[Case]:
    """Yield the cases of each kind of movement, for elements of several widths."""
    for kind in PLAIN:
        yield Case(f"views-{kind}", partial(_views, kind), SIZES)
        yield Case(f"joins-{kind}", partial(_joins, kind), SIZES)
    yield Case("slices", _slices, SIZES)
    yield Case("look-ups", _look_ups, SIZES)
    yield Case("places", _places, SIZES)
    yield Case("scatters", _scatters, SIZES)
    yield Case("counts", _counts, SIZES)
    for value in (-1, 7):
        build = partial(_outside, value)
        yield Case(f"look-up-of-{value}", build, SIZES[1:], raises="/outside")
    yield Case("no-place", _no_place, SIZES[1:], raises="/outside")


def _exact(sheet: Sheet, name: str, op: nn.Operation) -> SSAValue:
    return sheet.compute(name, op, rtol=0.0)


def _views(kind: Attribute, sheet: Sheet) -> None:
    x = sheet.given("x", kind, ["N", 12], edges)
    row = sheet.given("row", kind, [12], edges)
    column = sheet.given("column", kind, ["N"], edges)
    cube = sheet.given("cube", kind, ["N", 3, "M"], edges)
    _exact(sheet, "of_a_row", nn.BroadcastOp(row, [1], [N, 12]))
    _exact(sheet, "of_a_column", nn.BroadcastOp(column, [0], [N, 5]))
    _exact(sheet, "in_the_middle", nn.BroadcastOp(row, [1], [M, 12, N]))
    split = sheet.add(nn.ReshapeOp(column, [N, 1]))
    _exact(sheet, "of_extent_1", nn.BroadcastOp(split, [0, 1], [N, 7]))
    _exact(sheet, "turned", nn.TransposeOp(x, [1, 0]))
    _exact(sheet, "turned_0_2_1", nn.TransposeOp(cube, [0, 2, 1]))
    _exact(sheet, "turned_2_0_1", nn.TransposeOp(cube, [2, 0, 1]))
    _exact(sheet, "split", nn.ReshapeOp(x, [N, 3, 4]))
    _exact(sheet, "merged", nn.ReshapeOp(cube, [N, M * 3]))
    _exact(sheet, "flat", nn.ReshapeOp(x, [N * 12]))


def _joins(kind: Attribute, sheet: Sheet) -> None:
    a = sheet.given("a", kind, ["N", 5], edges)
    b = sheet.given("b", kind, ["M", 5], edges)
    c = sheet.given("c", kind, ["N", 3], edges)
    none = sheet.given("none", kind, [0, 5], edges)
    _exact(sheet, "rows", nn.ConcatOp([a, b], 0))
    _exact(sheet, "columns", nn.ConcatOp([a, c, a], 1))
    wide = sheet.given("wide", kind, ["N", 32], edges)
    _exact(sheet, "wide_columns", nn.ConcatOp([wide, c, wide], 1))
    _exact(sheet, "wide_halves", nn.ConcatOp([wide, wide], 1))
    _exact(sheet, "with_nothing", nn.ConcatOp([none, a, none], 0))
    few = sheet.add(nn.ConcatOp([none, none], 0))
    _exact(sheet, "nothing", nn.CastOp(few, f32 if kind == f16 else f16))
    seven = FloatAttr(7.0, kind) if isinstance(kind, AnyFloat) else IntegerAttr(7, kind)  # pyright: ignore
    _exact(sheet, "padded", nn.PadOp(a, [1, 0], [2, 3], seven))
    _exact(sheet, "padded_by_an_extent", nn.PadOp(a, [M, 0], [-N + 1, 1], seven))
    _exact(sheet, "cut_and_padded", nn.PadOp(wide, [1, -30], [0, 3], seven))
    _exact(sheet, "cut_off", nn.PadOp(wide, [0, -3], [0, -29], seven))


def _slices(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N + 4", 10], edges)
    _exact(sheet, "rows", nn.SliceOp(x, [2, 0], [N, 10]))
    _exact(sheet, "from_an_extent", nn.SliceOp(x, [N, 0], [4, 10]))
    _exact(sheet, "columns", nn.SliceOp(x, [0, 3], [N + 4, 4]))
    _exact(sheet, "steps", nn.SliceOp(x, [1, 1], [N, 3], [1, 4]))
    _exact(sheet, "backwards", nn.SliceOp(x, [3, 9], [4, 10], [-1, -1]))
    _exact(sheet, "nothing", nn.SliceOp(x, [0, 5], [N, 0], [1, -1]))


def _look_ups(sheet: Sheet) -> None:
    table = sheet.given("table", f32, [7, 12], edges)
    halves = sheet.given("halves", f16, [7, 12], edges)
    numbers = sheet.given("numbers", i32, [7], edges)
    ids = sheet.given("ids", i32, ["N"], below(7))
    wide = sheet.given("wide", i64, ["N"], below(7))
    places = sheet.given("places", i32, ["N"], below(12))
    square = sheet.given("square", i32, ["N", 3], below(7))
    _exact(sheet, "rows", nn.GatherOp(table, ids))
    _exact(sheet, "by_64_bits", nn.GatherOp(table, wide))
    _exact(sheet, "columns", nn.GatherOp(table, places, 1))
    _exact(sheet, "numbers", nn.GatherOp(numbers, ids))
    _exact(sheet, "squares", nn.GatherOp(table, square))
    _exact(sheet, "embedding", nn.EmbeddingOp(table, ids, 12))
    _exact(sheet, "embedding_of_halves", nn.EmbeddingOp(halves, square, 12))


def _outside(value: int, sheet: Sheet) -> None:
    table = sheet.given("table", f32, [7, 5], edges)
    ids = sheet.given("ids", i32, ["N"], always(value))
    _exact(sheet, "outside", nn.GatherOp(table, ids))


def _places(sheet: Sheet) -> None:
    x = sheet.given("x", f32, [7, 5, 3], edges)
    batch = sheet.given("batch", i16, ["N", 7, 40], edges)
    rows = sheet.given("rows", i64, ["N", 1], below(7))
    pairs = sheet.given("pairs", i32, ["N", 2, 2], below(5))
    triples = sheet.given("triples", i64, ["N", 3], below(3))
    own = sheet.given("own", i32, ["N", 1], below(7))
    each = sheet.given("each", i32, [7, "N", 3], below(5))
    across = sheet.given("across", i64, ["N", 7, 33], below(40))
    few = sheet.given("few", i32, [2, 4, 2], below(3))
    _exact(sheet, "of_rows", nn.GatherNdOp(x, rows))
    _exact(sheet, "of_pairs", nn.GatherNdOp(x, pairs))
    _exact(sheet, "of_triples", nn.GatherNdOp(x, triples))
    _exact(sheet, "of_batches", nn.GatherNdOp(batch, own, 1))
    _exact(sheet, "elements_down", nn.GatherElementsOp(x, each, 1))
    _exact(sheet, "elements_across", nn.GatherElementsOp(batch, across, 2))
    _exact(sheet, "fewer_elements", nn.GatherElementsOp(x, few, 2))
    _exact(sheet, "elements_of_fewer", nn.GatherElementsOp(x, few, 0))


def _no_place(sheet: Sheet) -> None:
    x = sheet.given("x", f32, [7, 5], edges)
    updates = sheet.given("updates", f32, ["N", 5], edges)
    at = sheet.given("at", i64, ["N", 1], always(7))
    _exact(sheet, "outside", nn.ScatterNdOp(x, at, updates, "set"))


def _scatters(sheet: Sheet) -> None:
    x = sheet.given("x", f32, [7, 5], edges)
    counts = sheet.given("counts", i32, [7, 5], edges)
    updates = sheet.given("updates", f32, ["N", 5], edges)
    more = sheet.given("more", i32, ["N", 5], edges)
    at = sheet.given("at", i64, ["N", 1], below(7))
    for kind in nn_index.SCATTERS:
        _exact(sheet, kind, nn.ScatterNdOp(x, at, updates, kind))
    _exact(sheet, "add_of_integers", nn.ScatterNdOp(counts, at, more, "add"))
    pairs = sheet.given("pairs", i32, ["N", 2, 2], below(5))
    single = sheet.given("single", f32, ["N", 2], edges)
    _exact(sheet, "of_pairs", nn.ScatterNdOp(x, pairs, single, "add"))
    bytes = sheet.given("bytes", ui8, ["N", 40], edges)
    for axis, (name, size) in enumerate((("down", 1), ("across", 40))):
        there = sheet.given(f"there_{name}", i64, ["ceildiv(N, 2)", 33], below(size))
        put = sheet.given(f"put_{name}", ui8, ["ceildiv(N, 2)", 33], edges)
        for kind in ("set", "max"):
            op = nn.ScatterElementsOp(bytes, there, put, axis, kind)
            _exact(sheet, f"{kind}_{name}", op)
    cube = sheet.given("cube", f32, [3, 4, 5], edges)
    few = sheet.given("few", i32, [2, "M", 5], below(4))
    added = sheet.given("added", f32, [2, "M", 5], edges)
    _exact(sheet, "fewer", nn.ScatterElementsOp(cube, few, added, 1, "add"))


def _counts(sheet: Sheet) -> None:
    sheet.given("x", f32, ["N"], edges)
    _exact(sheet, "iota", nn.IotaOp(0, tensor(i32, [N])))
    _exact(sheet, "iota_of_floats", nn.IotaOp(1, tensor(f32, [N, 9])))
    _exact(sheet, "iota_down", nn.IotaOp(0, tensor(i64, [N, 9])))
    _exact(sheet, "one_value", nn.ConstantOp(FloatAttr(-0.0, f32), tensor(f32, [N, 3])))
    _exact(sheet, "infinite", nn.ConstantOp(FloatAttr(float("-inf"), f32), tensor(f32, [N])))
    _exact(sheet, "not_a_number", nn.ConstantOp(FloatAttr(float("nan"), f32), tensor(f32, [N])))
    _exact(sheet, "true", nn.ConstantOp(IntegerAttr(1, i1), tensor(i1, [N])))
    listed = DenseIntOrFPElementsAttr.from_list(tensor(i32, [4]), [3, -1, 4, -2147483648])
    sizes = nn.ExtentsOp([N * 2 + 1, 4, M], tensor(i64, [3]))
    sheet.given("m", f32, ["M"], edges)
    _exact(sheet, "extents", sizes)
    scalar = sheet.add(nn.ExtentsOp([N], tensor(i32, [])))
    _exact(sheet, "extent", nn.AddOp(scalar, scalar))
    _exact(sheet, "listed", nn.ConstantOp(listed, tensor(i32, [4])))
