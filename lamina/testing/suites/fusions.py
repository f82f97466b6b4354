"""Cases of chains that targets fuse: what is fused computes what its parts compute."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import FloatAttr, f32, i1, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, quant
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.suites.products import PRODUCT, numbers
from lamina.testing.suites.quantised import EIGHT_BITS, stored
from lamina.testing.values import edges, normal, unit

N = Dim.symbol("N")
SIZES = (0, 1, 2, 31)


def cases() -> Iterator[Case]:
    """Yield the chains by what stands at their head."""
    yield Case("after-products", _after_products, SIZES)
    yield Case("before-products", _before_products, SIZES)
    yield Case("gated", _gated, SIZES)
    yield Case("gated-blocks", _gated_blocks, SIZES)
    yield Case("elementwise-chains", _chains, (0, 1, 3, 31, 1000))
    yield Case("around-rows", _around_rows, SIZES)


def _fused(sheet: Sheet, name: str, y: SSAValue, atol: float = PRODUCT) -> None:
    sheet.check(name, y, atol=atol, of="fused")


def _rows(sheet: Sheet, width: int = 48, name: str = "x") -> SSAValue:
    return sheet.given(name, f32, ["N", width], normal)


def _after_products(sheet: Sheet) -> None:
    x, residual = _rows(sheet), _rows(sheet, 48, "residual")
    w, bias = sheet.stored("w", numbers(1, 48, 48)), sheet.stored("b", numbers(2, 48))
    with_bias = sheet.linear(x, w, bias)
    gelu = sheet.add(nn.GeluOp(with_bias))
    _fused(sheet, "bias_gelu_residual", sheet.add(nn.AddOp(gelu, residual)))
    relu = sheet.add(nn.ReluOp(sheet.linear(residual, w, bias)))
    _fused(sheet, "bias_relu", relu)
    narrow = sheet.stored("narrow", numbers(3, 17, 48))
    thin = sheet.add(nn.TanhOp(sheet.linear(x, narrow)))
    _fused(sheet, "padded_tanh", thin)
    heads = sheet.add(nn.ReshapeOp(sheet.linear(gelu, w), [N, 3, 16]))
    cos, sin = (sheet.given(f, f32, ["N", 8], unit) for f in ("cos", "sin"))
    _fused(sheet, "rope", sheet.add(nn.RopeOp(heads, cos, sin, interleaved=False)))
    pairs = sheet.add(nn.ReshapeOp(sheet.linear(gelu, w, bias), [N, 3, 16]))
    _fused(sheet, "rope_of_pairs", sheet.add(nn.RopeOp(pairs, cos, sin, interleaved=True)))
    last = sheet.add(nn.SoftmaxOp(sheet.linear(relu, narrow), 1))
    _fused(sheet, "softmax", last)


def _before_products(sheet: Sheet) -> None:
    x = _rows(sheet)
    w, bias = sheet.stored("w", numbers(1, 32, 48)), sheet.stored("b", numbers(2, 48))
    scale = sheet.stored("scale", numbers(3, 48) + 1)
    rms = sheet.add(nn.RmsNormOp(x, scale, 1e-5))
    _fused(sheet, "rms_norm", sheet.linear(rms, w))
    layer = sheet.add(nn.LayerNormOp(x, scale, bias, 1e-5))
    y = sheet.linear(layer, w)
    _fused(sheet, "layer_norm", y)
    _fused(sheet, "layer_norm_again", sheet.add(nn.SiluOp(sheet.linear(layer, w))))
    blocks = stored(sheet, "blocks", "q4_1", 32, 64)
    wide = sheet.given("wide", f32, ["N", 64], normal)
    norm = sheet.add(nn.RmsNormOp(wide, sheet.stored("ones", numbers(4, 64) + 1), 1e-5))
    q = quant.QuantizeOp(norm)
    sheet.add(q)
    linear = sheet.add(quant.LinearOp([blocks], (q.q, q.d, q.s), 32))
    _fused(sheet, "quantised_norm", linear, EIGHT_BITS)


def _gated(sheet: Sheet) -> None:
    x, residual = _rows(sheet), _rows(sheet, 48, "residual")
    gate, up = (sheet.stored(n, numbers(i, 40, 48)) for i, n in enumerate(("gate", "up")))
    down = sheet.stored("down", numbers(5, 48, 40))
    silu = sheet.add(nn.SiluOp(sheet.linear(x, gate)))
    mixed = sheet.add(nn.MulOp(silu, sheet.linear(x, up)))
    _fused(sheet, "gate_and_up", mixed)
    y = sheet.add(nn.AddOp(residual, sheet.linear(mixed, down)))
    _fused(sheet, "down_and_residual", y)


def _gated_blocks(sheet: Sheet) -> None:
    x = _rows(sheet, 64)
    gate, up = (
        sheet.add(quant.DequantizeOp([stored(sheet, n, f, 96, 64)], 96, 64))
        for n, f in (("gate", "q4_0"), ("up", "q8_0"))
    )
    silu = sheet.add(nn.SiluOp(sheet.linear(x, gate)))
    mixed = sheet.add(nn.MulOp(silu, sheet.linear(x, up)))
    _fused(sheet, "gate_and_up", mixed, 4 * EIGHT_BITS)


def _chains(sheet: Sheet) -> None:
    a, b = (sheet.given(name, f32, ["N", 7], edges) for name in "ab")
    row = sheet.given("row", f32, [7], normal)
    y = a
    for _ in range(6):
        y = sheet.add(nn.AddOp(sheet.add(nn.MulOp(y, b)), a))
    _fused(sheet, "long", y, atol=0.0)
    wide = sheet.broadcast(row, a, [1])
    clipped = sheet.add(nn.MinOp(sheet.add(nn.MaxOp(a, wide)), b))
    _fused(sheet, "clip", clipped, atol=0.0)
    less = sheet.add(nn.CompareOp("lt", a, b))
    chosen = sheet.add(nn.SelectOp(less, sheet.add(nn.ExpOp(a)), sheet.add(nn.NegOp(b))))
    _fused(sheet, "choice", chosen, atol=1e-6)
    whole = sheet.add(nn.CastOp(sheet.add(nn.FloorOp(a)), i32))
    odd = sheet.add(nn.AndOp(whole, _ones(sheet, whole)))
    _fused(sheet, "odd", sheet.add(nn.CastOp(odd, i1)))


def _ones(sheet: Sheet, like: SSAValue) -> SSAValue:
    from xdsl.dialects.builtin import IntegerAttr

    return sheet.add(nn.ConstantOp(IntegerAttr(1, i32), like.type))


def _around_rows(sheet: Sheet) -> None:
    x, mask = _rows(sheet, 33), _rows(sheet, 33, "mask")
    scaled = sheet.add(nn.MulOp(x, sheet.fill(0.25, x)))
    masked = sheet.add(nn.AddOp(scaled, mask))
    _fused(sheet, "masked_softmax", sheet.add(nn.SoftmaxOp(masked, 1)), 1e-6)
    wide = sheet.add(nn.SoftmaxOp(_rows(sheet, 32, "wide"), 1))
    heads = sheet.add(nn.ReshapeOp(wide, [N, 2, 16]))
    _fused(sheet, "split_after_softmax", sheet.add(nn.MulOp(heads, heads)), 1e-6)
    mean = sheet.add(nn.ReduceOp(x, "add", [1]))
    mean = sheet.add(nn.MulOp(mean, sheet.fill(1 / 33, mean)))
    centred = sheet.add(nn.SubOp(x, sheet.broadcast(mean, x, [0])))
    square = sheet.add(nn.MulOp(centred, centred))
    _fused(sheet, "variance", sheet.add(nn.ReduceOp(square, "add", [1])), 1e-4)
    root = sheet.add(nn.SqrtOp(sheet.add(nn.ReduceOp(square, "max", [0]))))
    _fused(sheet, "column_maximum", root, 1e-5)
    image = sheet.given("image", f32, ["N", 3, 4, 5], normal)
    total = sheet.add(nn.ReduceOp(image, "add", [1, 2, 3]))
    count = sheet.add(nn.ConstantOp(FloatAttr(60.0, f32), total.type))
    _fused(sheet, "mean_of_images", sheet.add(nn.DivOp(total, count)), 1e-5)
    exponents = sheet.add(nn.ExpOp(x))
    turned = sheet.add(nn.TransposeOp(exponents, [1, 0]))
    assert extents(turned.type)[0] == 33
    _fused(sheet, "turned", sheet.add(nn.LogOp(turned)), 1e-5)
