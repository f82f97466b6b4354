"""Cases of what slides a window over spatial dimensions: convolutions and pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerType, Signedness, f16, f32, f64, i8, i32
from xdsl.ir import Attribute, SSAValue

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.targets.reference.dtypes import Array
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.values import distinct, edges, gaps, normal

How = dict[str, Any]
"""How windows lie, by the names of an operation's arguments."""

SIZES = (0, 1, 3, 31)
LARGE = (1, 3, 31)
"""Extents of what is not padded enough for none."""

SUM = 3e-5
"""The tolerance of sums of some dozen products of numbers around 1."""

UI8 = IntegerType(8, Signedness.UNSIGNED)


def cases() -> Iterator[Case]:
    """Yield the cases of convolutions and pools."""
    yield Case("convolutions", _images, SIZES, _batch)
    yield Case("convolutions-of-extents", _extents, LARGE)
    yield Case("convolutions-of-groups", _groups, (1, 9))
    yield Case("convolutions-of-lines", _lines, SIZES)
    yield Case("convolutions-of-volumes", _volumes, (1, 4))
    for kind in (f16, f64):
        yield Case(f"convolutions-{kind}", partial(_floats, kind), (0, 1, 3))
    yield Case("convolutions-of-integers", _integers, (1, 7))
    yield Case("convolutions-of-missing-numbers", _missing, (3, 31))
    yield Case("convolutions-with-ends", _ends, (1, 9))
    yield Case("convolutions-of-shuffled-channels", _shuffles, (0, 1, 9))
    yield Case("convolutions-of-channels-first", _channels_first, (1, 5))
    yield Case("transposed-convolutions", _transposed, (1, 3, 9))
    yield Case("pools", _pools, SIZES, _batch)
    yield Case("pools-of-extents", _pool_extents, LARGE)
    yield Case("pools-that-overhang", _overhangs, (4, 9, 17))
    yield Case("places-of-maxima", _maxima, LARGE)


def _batch(size: int) -> Mapping[str, int]:
    """Few images at the sizes of a batch, which cost much in the reference."""
    return {"N": min(size, 2) if size < 31 else 5, "M": min(size, 1), "K": size}


def numbers(seed: int, *shape: int) -> Array:
    """Return the values of a weight: normal, of a size that sums of products keep."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, np.prod(shape[1:], dtype=float) ** -0.5, shape).astype(np.float32)


def _conv(sheet: Sheet, name: str, x: SSAValue, w: Array, **how: Any) -> SSAValue:
    return sheet.compute(name, nn.ConvOp(x, sheet.stored(f"{name}.w", w), **how), atol=SUM)


def _images(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N", 7, 6, 4], normal)
    wide = sheet.given("wide", f32, ["M", 3, 19, 20], normal)
    color = sheet.given("color", f32, ["M", 6, 9, 3], normal)
    _conv(sheet, "uneven", x, numbers(3, 6, 3, 2, 4), strides=(2, 1), pads=(0, 2, 1, 0))
    _conv(sheet, "whole", x, numbers(5, 33, 7, 6, 4))
    _conv(sheet, "place_stride", x, numbers(7, 17, 1, 1, 4), strides=(2, 3))
    _conv(sheet, "columns", wide, numbers(8, 70, 3, 3, 20), pads=(1, 1, 1, 1))
    _conv(sheet, "color", color, numbers(9, 16, 7, 7, 3), strides=(2, 2), pads=(3, 3, 3, 3))


def _extents(sheet: Sheet) -> None:
    x = sheet.given("x", f32, [2, "N", "N + 2", 5], normal)
    flat = sheet.given("flat", f32, ["M", "N", 1, 5], normal)
    w = sheet.given("w", f32, [19, 3, 3, 5], normal)
    _conv(sheet, "stride", x, numbers(2, 4, 3, 2, 5), strides=(3, 2), pads=(1, 1, 0, 1))
    _conv(sheet, "tall", flat, numbers(3, 12, 3, 1, 5), pads=(1, 1, 0, 0))
    sheet.compute("given", nn.ConvOp(x, w, pads=(1, 1, 1, 1)), atol=2e-4)


def _groups(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["M", "N", 5, 12], normal)
    many = sheet.given("many", f32, ["M", 6, "N", 48], normal)
    same = (1, 1, 1, 1)
    _conv(sheet, "uneven", x, numbers(2, 15, 3, 3, 4), pads=same, groups=3)
    _conv(
        sheet,
        "depthwise_stride",
        many,
        numbers(4, 48, 5, 3, 1),
        strides=(2, 2),
        pads=(2, 2, 1, 1),
        groups=48,
    )
    _conv(sheet, "twice", x, numbers(5, 24, 3, 3, 1), pads=same, groups=12)
    _conv(sheet, "wide", many, numbers(6, 80, 1, 3, 24), pads=(0, 0, 1, 1), groups=2)
    w = sheet.given("w", f32, [12, 3, 3, 1], normal)
    v = sheet.given("v", f32, [9, 3, 3, 4], normal)
    sheet.compute("given_depthwise", nn.ConvOp(x, w, pads=same, groups=12), atol=2e-4)
    sheet.compute("given", nn.ConvOp(x, v, pads=same, groups=3), atol=2e-4)


def _lines(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["M", "N", 3], normal)
    wave = sheet.given("wave", f32, [2, "N + 40", 1], normal)
    _conv(sheet, "dilated", x, numbers(2, 4, 3, 3), pads=(6, 6), dilations=(5,))
    _conv(sheet, "causal", x, numbers(3, 3, 4, 1), pads=(3, 0), groups=3)
    _conv(sheet, "long", wave, numbers(4, 34, 40, 1), strides=(7,))


def _volumes(sheet: Sheet) -> None:
    x = sheet.given("x", f32, [2, "N", 4, 5, 3], normal)
    same = (1, 1, 1, 1, 1, 1)
    _conv(sheet, "same", x, numbers(1, 7, 3, 3, 3, 3), pads=same)
    _conv(sheet, "depthwise", x, numbers(2, 3, 3, 3, 3, 1), pads=same, strides=(1, 2, 2), groups=3)


def _floats(kind: Attribute, sheet: Sheet) -> None:
    """Few channels of f64: machines that are imitated take long to multiply and add exactly."""
    channels, atol = (8, 1e-2) if kind != f64 else (2, 1e-12)
    x = sheet.given("x", kind, ["N", 3, 4, channels], normal)
    for name, shape, groups in (
        ("plain", (9 if channels > 2 else 3, 3, 2, channels), 1),
        ("depthwise", (channels, 2, 3, 1), channels),
    ):
        w = sheet.add(nn.CastOp(sheet.stored(f"{name}.w", numbers(1, *shape)), kind))
        op = nn.ConvOp(x, w, pads=(1, 1, 1, 0), groups=groups)
        sheet.compute(name, op, atol=atol)
    if kind == f16:
        w = sheet.add(nn.CastOp(sheet.stored("place.w", numbers(2, 5, 1, 1, channels)), kind))
        sheet.compute("place", nn.ConvOp(x, w), atol=atol)
    sheet.compute("mean", nn.PoolOp(x, "mean", (3, 2), pads=(1, 1, 0, 0)), atol=atol / 10)


def _integers(sheet: Sheet) -> None:
    same: How = {"pads": (1, 1, 1, 1)}
    for name, x_kind, w_kind in (
        ("bytes", i8, i8),
        ("unsigned", UI8, i8),
        ("words", i32, i32),
    ):
        x = sheet.given(f"{name}_x", x_kind, ["N", 3, 4, 7], edges)
        w = sheet.given(f"{name}_w", w_kind, [6, 3, 3, 7], edges)
        sheet.compute(name, nn.ConvOp(x, w, **same))
        if x_kind == UI8:
            sheet.compute("max", nn.PoolOp(x, "max", (2, 2), **same))
    v = sheet.given("v", UI8, [7, 3, 3, 1], edges)
    sheet.compute("depthwise", nn.ConvOp(x, v, groups=7, **same))
    stored = sheet.add(nn.CastOp(sheet.stored("stored", 64 * numbers(1, 4, 3, 3, 7)), i8))
    x = sheet.given("x", i8, ["N", 5, 6, 7], edges)
    sheet.compute("stored", nn.ConvOp(x, stored, **same))


def _missing(sheet: Sheet) -> None:
    """What is not finite goes where its windows are, and a weight's to the padding too."""
    x = sheet.given("x", f32, [1, "N", 5, 3], gaps)
    w = numbers(1, 4, 3, 3, 3)
    w[2, 0, 0, 1] = np.inf
    _conv(sheet, "conv", x, w, pads=(1, 1, 1, 1))
    for kind in ("max", "mean"):
        sheet.compute(kind, nn.PoolOp(x, kind, (2, 3), pads=(0, 1, 1, 1)), atol=1e-6, signed=False)


def _ends(sheet: Sheet) -> None:
    """A bias, an activation and a residual follow the windows."""
    x = sheet.given("x", f32, ["M", "N", 7, 16], normal)
    bias, scale = sheet.stored("bias", numbers(7, 16)), sheet.stored("scale", numbers(8, 16))
    depthwise = sheet.stored("d", numbers(3, 16, 3, 3, 1))
    for name, op in (
        ("conv", nn.ConvOp(x, sheet.stored("w", numbers(1, 16, 3, 3, 16)), pads=(1, 1, 1, 1))),
        ("place", nn.ConvOp(x, sheet.stored("p", numbers(2, 16, 1, 1, 16)))),
        ("depthwise", nn.ConvOp(x, depthwise, pads=(1, 1, 1, 1), groups=16)),
        ("mean", nn.PoolOp(x, "mean", (3, 3), pads=(1, 1, 1, 1))),
    ):
        y = sheet.add(op)
        shape = extents(y.type)
        y = sheet.add(nn.MulOp(y, sheet.add(nn.BroadcastOp(scale, [3], shape))))
        y = sheet.add(nn.AddOp(y, sheet.add(nn.BroadcastOp(bias, [3], shape))))
        if name != "depthwise":
            sheet.compute(f"{name}_residual", nn.ReluOp(sheet.add(nn.AddOp(y, x))), atol=SUM)
        if name in ("conv", "depthwise"):
            sheet.compute(f"{name}_silu", nn.SiluOp(y), atol=SUM)


def _shuffles(sheet: Sheet) -> None:
    """Channels of groups one after another become the first of each group, the second, ..."""
    x = sheet.given("x", f32, ["M", "N", 5, 24], normal)
    line = sheet.given("line", f32, ["N", 9, 24], normal)
    same: How = {"pads": (1, 1, 1, 1)}
    shapes: tuple[tuple[str, int, tuple[int, ...], How], ...] = (
        ("place", 4, (136, 1, 1, 6), {}),
        ("two", 2, (10, 3, 3, 12), same),
        ("three", 3, (57, 1, 2, 8), {}),
        ("eight", 8, (72, 1, 1, 3), {"strides": (2, 2)}),
        ("twelve", 12, (36, 1, 1, 2), {}),
        ("square", 4, (16, 1, 1, 6), {}),
        ("lines", 4, (20, 3, 6), {}),
    )
    for name, groups, shape, how in shapes:
        w = sheet.stored(f"{name}.w", numbers(len(name), *shape))
        y = sheet.add(nn.ConvOp(line if name == "lines" else x, w, groups=groups, **how))
        end = nn.SiluOp(y) if name == "two" else nn.ReluOp(y)
        y = sheet.add(end) if name != "three" else y
        before = extents(y.type)
        parted = [*before[:-1], groups, shape[0] // groups]
        last = len(parted) - 1
        perm = [*range(last - 1), last, last - 1]
        z = sheet.add(nn.TransposeOp(sheet.add(nn.ReshapeOp(y, parted)), perm))
        sheet.compute(name, nn.ReshapeOp(z, before), atol=SUM)
        if name == "square":
            sheet.compute("unshuffled", nn.NegOp(y), atol=SUM)


def _channels_first(sheet: Sheet) -> None:
    """Images come with their channels first, and most of what is done to them sees them so."""
    x = sheet.given("x", f32, ["M", 3, "N", 6], normal)
    bias = sheet.stored("bias", numbers(1, 8))
    w, v = sheet.stored("w", numbers(2, 8, 3, 3, 3)), sheet.stored("v", numbers(3, 8, 3, 3, 16))
    last, first, same = (0, 2, 3, 1), (0, 3, 1, 2), (1, 1, 1, 1)
    y = sheet.add(nn.ConvOp(sheet.add(nn.TransposeOp(x, last)), w, pads=same))
    y = sheet.add(nn.TransposeOp(y, first))
    y = sheet.add(nn.AddOp(y, sheet.add(nn.BroadcastOp(bias, [1], extents(y.type)))))
    y = sheet.add(nn.ReluOp(y))
    part = sheet.add(nn.SliceOp(y, [0, 0, 0, 1], [*extents(y.type)[:3], 5]))
    zero = FloatAttr(0.0, f32)
    part = sheet.add(nn.PadOp(part, [0, 0, 0, 1], [0, 0, 0, 0], zero))
    both = sheet.add(nn.TransposeOp(sheet.add(nn.ConcatOp([y, part], 1)), last))
    z = sheet.add(nn.TransposeOp(sheet.add(nn.ConvOp(both, v, pads=same)), first))
    sheet.compute("residual", nn.AddOp(z, y), atol=SUM)
    sheet.compute("sums", nn.ReduceOp(z, "add", [2, 3]), atol=10 * SUM)
    line = sheet.given("line", f32, ["M", 2, "N"], normal)
    plate = sheet.given("plate", f32, ["N", 4, 3, 6], normal)
    for name, colors, shape, how in (
        ("stride", x, (33, 3, 3, 3), {"strides": (2, 2), "pads": (1, 2, 1, 1)}),
        ("line", line, (5, 4, 2), {"pads": (3, 0), "dilations": (1,)}),
        ("whole", plate, (7, 3, 6, 4), {}),
    ):
        rank = len(shape)
        turned = sheet.add(nn.TransposeOp(colors, [0, *range(2, rank), 1]))
        _conv(sheet, name, turned, numbers(rank, *shape), **how)


def _transposed(sheet: Sheet) -> None:
    x = sheet.given("x", f32, [1, "N", 4, 6], normal)
    line = sheet.given("line", f32, [2, "N", 4], normal)
    geometries: list[tuple[str, SSAValue, tuple[int, ...], How]] = [
        ("extra", x, (6, 3, 3, 5), {"strides": (2, 3), "pads": (1, 1, 0, 1), "extra": (1, 2)}),
        ("dilated_twice", x, (6, 3, 2, 5), {"strides": (2, 2), "dilations": (2, 3)}),
        ("groups", x, (6, 3, 3, 2), {"strides": (2, 1), "pads": (1, 1, 1, 1), "groups": 3}),
        ("depthwise", x, (6, 4, 4, 1), {"strides": (2, 2), "pads": (1, 1, 1, 1), "groups": 6}),
        ("cut", line, (4, 9, 3), {"strides": (2,), "pads": (5, 3)}),
    ]
    for name, value, shape, how in geometries:
        w = sheet.stored(f"{name}.w", numbers(len(name), *shape))
        sheet.compute(name, nn.ConvTransposeOp(value, w, **how), atol=SUM)


def _pools(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N", 7, 6, 4], edges)
    plain = sheet.given("plain", f32, ["N", 5, 6, 20], normal)
    how: How = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
    sheet.compute("max", nn.PoolOp(x, "max", (3, 3), **how), rtol=0.0, signed=False)
    with_padding = nn.PoolOp(plain, "mean", (3, 3), include_pad=True, **how)
    sheet.compute("mean_with_padding", with_padding, atol=1e-6)
    dilated = nn.PoolOp(plain, "mean", (3, 2), pads=(2, 1, 1, 2), dilations=(2, 3))
    sheet.compute("mean_dilated", dilated, atol=1e-6)
    sheet.compute("power_3", nn.PoolOp(plain, "lp", (2, 3), p=3, **how), atol=1e-5)


def _pool_extents(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N", "N + 1", 3], normal)
    image = sheet.given("image", f32, [1, "N", 6, 9], normal)
    volume = sheet.given("volume", f32, [1, 3, "N", 4, 2], normal)
    for kind in ("max", "mean"):
        line = nn.PoolOp(x, kind, (3,), strides=(2,), pads=(1, 1))
        sheet.compute(f"{kind}_line", line, atol=1e-6, signed=False)
    tall = nn.PoolOp(image, "mean", (3, 2), pads=(1, 1, 0, 0))
    sheet.compute("mean_image", tall, atol=1e-6)
    deep = nn.PoolOp(volume, "max", (2, 2, 2), strides=(1, 2, 1), pads=(1, 0, 1, 1, 0, 1))
    sheet.compute("max_volume", deep, rtol=0.0, signed=False)


def _overhangs(sheet: Sheet) -> None:
    """What a last window has beyond the padding counts nowhere."""
    x = sheet.given("x", f32, [1, "N", "N", 3], normal)
    geometries: list[tuple[str, tuple[int, int], How]] = [
        ("thirds", (3, 3), {"strides": (2, 2)}),
        ("sevenths", (7, 3), {"strides": (3, 2), "pads": (3, 3, 0, 1)}),
        ("dilated", (2, 2), {"strides": (3, 2), "dilations": (2, 1)}),
    ]
    for name, window, how in geometries:
        for kind, padding in (("mean", False), ("max" if name == "dilated" else "mean", True)):
            op = nn.PoolOp(x, kind, window, include_pad=padding, ceil=True, **how)
            sheet.compute(f"{name}_{kind}{'_padded' * padding}", op, atol=1e-6, signed=False)


def _maxima(sheet: Sheet) -> None:
    for name, draw in (("ties", distinct), ("gaps", gaps)):
        x = sheet.given(name, f32, [2, "N", 6, 5], draw)
        op = nn.PoolOp(x, "argmax", (3, 2), strides=(2, 1), pads=(1, 1, 0, 1), ceil=True)
        sheet.compute(f"{name}_image", op)
    line = sheet.given("line", i32, [1, "N", 4], distinct)
    sheet.compute("line", nn.PoolOp(line, "argmax", (3,), pads=(1, 1)))
