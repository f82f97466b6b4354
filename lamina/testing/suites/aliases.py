"""Cases of values that share memory, or might: views, values used twice, outputs that coincide."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, f32
from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.suites.products import PRODUCT, numbers
from lamina.testing.values import normal

N = Dim.symbol("N")
SIZES = (0, 1, 3, 31)
OP = "aliases"


def cases() -> Iterator[Case]:
    """Yield the cases of shared memory."""
    yield Case("reuse", _reuse, SIZES)
    yield Case("views-kept-alive", _views, SIZES)
    yield Case("outputs", _outputs, SIZES)
    yield Case("parts-of-an-output", _parts, SIZES)


def _shifted(sheet: Sheet, x: SSAValue, by: float) -> SSAValue:
    return sheet.add(nn.AddOp(x, sheet.fill(by, x)))


def _reuse(sheet: Sheet) -> None:
    """x - (x + 1) may not overwrite x; an operand may stand on both sides."""
    x = sheet.given("x", f32, ["N", 8], normal)
    one = sheet.given("one", f32, [1], normal)
    sheet.check("minus", sheet.add(nn.SubOp(x, _shifted(sheet, x, 1.0))), of=OP, atol=1e-6)
    sheet.check("minus_one", sheet.add(nn.SubOp(one, _shifted(sheet, one, 1.0))), of=OP, atol=1e-6)
    twice = _turn(sheet, x)
    for _ in range(3):
        twice = _turn(sheet, sheet.add(nn.AddOp(twice, twice)))
    sheet.check("doubled", twice, of=OP)
    square = sheet.given("square", f32, [5, 5], normal)
    sum = sheet.add(nn.AddOp(square, sheet.add(nn.TransposeOp(square, [1, 0]))))
    sheet.check(
        "with_its_transpose", sheet.add(nn.DotGeneralOp(sum, sum, [(1, 1)])), of=OP, atol=PRODUCT
    )


def _turn(sheet: Sheet, x: SSAValue) -> SSAValue:
    return sheet.add(nn.TransposeOp(x, [1, 0]))


def _views(sheet: Sheet) -> None:
    """A view of a value keeps its memory, though the value itself is read no more."""
    x = sheet.given("x", f32, ["N", 8], normal)
    source = _turn(sheet, _shifted(sheet, x, 0.25))
    left = sheet.add(nn.ReshapeOp(source, [N * 8]))
    right = _turn(sheet, _shifted(sheet, x, 0.125))
    more = _turn(sheet, _shifted(sheet, x, 0.5))
    flat = [sheet.add(nn.ReshapeOp(y, [N * 8])) for y in (right, more)]
    total = sheet.add(nn.AddOp(sheet.add(nn.AddOp(left, flat[0])), flat[1]))
    sheet.check("sum_of_views", total, of=OP, atol=1e-6)
    w = sheet.stored("w", numbers(1, 8, 8))
    y = sheet.linear(x, w)
    view = sheet.add(nn.ReshapeOp(sheet.add(nn.ReshapeOp(y, [N, 2, 4])), [N * 2, 4]))
    other = sheet.linear(sheet.linear(x, w), w)
    sheet.check("late_view", sheet.add(nn.ExpOp(view)), of=OP, atol=PRODUCT)
    sheet.check("beside_it", sheet.add(nn.AddOp(other, y)), of=OP, atol=PRODUCT)


def _outputs(sheet: Sheet) -> None:
    """An output may be an input, a constant, another output, or a step towards one."""
    x = sheet.given("x", f32, ["N", 8], normal)
    w = sheet.stored("w", numbers(1, 8, 8))
    step = sheet.linear(x, w)
    end = sheet.add(nn.TanhOp(step))
    sheet.check("step", step, of=OP, atol=PRODUCT)
    sheet.check("end", end, of=OP, atol=PRODUCT)
    sheet.check("end_again", end, of=OP, atol=PRODUCT)
    sheet.check("input", x, of=OP)
    sheet.check("input_again", x, of=OP)
    sheet.check("view_of_input", sheet.add(nn.ReshapeOp(x, [N * 8])), of=OP)
    sheet.check("view_of_end", sheet.add(nn.ReshapeOp(end, [N, 2, 4])), of=OP, atol=PRODUCT)
    sheet.check("weight", w, of=OP)
    three = FloatAttr(3.0, f32)
    sheet.check("constant", sheet.add(nn.ConstantOp(three, tensor(f32, [N, 2]))), of=OP)
    listed = DenseIntOrFPElementsAttr.from_list(tensor(f32, [3]), [1.0, -2.0, 0.5])
    sheet.check("listed", sheet.add(nn.ConstantOp(listed, tensor(f32, [3]))), of=OP)


def _parts(sheet: Sheet) -> None:
    """A whole and its slices have the same numbers."""
    x = sheet.given("x", f32, ["N", 12], normal)
    w = sheet.stored("w", numbers(1, 10, 12))
    y = sheet.add(nn.TanhOp(sheet.linear(x, w)))
    sheet.check("whole", y, of=OP, atol=PRODUCT)
    first = sheet.add(nn.SliceOp(y, [0, 0], [N, 8]))
    rest = sheet.add(nn.SliceOp(y, [0, 8], [N, 2]))
    sheet.check("first", first, of=OP, atol=PRODUCT)
    sheet.check("rest", rest, of=OP, atol=PRODUCT)
    joined = sheet.add(nn.ConcatOp([rest, first], 1))
    assert extents(joined.type)[1] == 10
    sheet.check("joined", joined, of=OP, atol=PRODUCT)
