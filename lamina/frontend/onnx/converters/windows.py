"""Operators that slide windows: convolutions and pools. Channels come last in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.kinds import FLOAT, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor

_AUTO: Final = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def pads_of(
    node: Node,
    extents: Sequence[Dim],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[Dim]:
    """Return low and high of each spatial dimension in turn, for the node's `auto_pad`."""
    rank = len(window)
    auto = node.choice("auto_pad", "NOTSET", _AUTO)
    if auto == "NOTSET":
        pads = node.get_ints("pads", [0] * 2 * rank)
        return [Dim.of(pads[d + side * rank]) for d in range(rank) for side in (0, 1)]
    if auto == "VALID":
        return [Dim.of(0)] * 2 * rank
    found: list[Dim] = []
    for n, w, s, d in zip(extents, window, strides, dilations, strict=True):
        total = ((n.ceildiv(s) - 1) * s + (w - 1) * d + 1 - n).maximum(0)
        half = total // 2
        found += [half, total - half] if auto == "SAME_UPPER" else [total - half, half]
    return found


def channels_last(node: Node, x: Tensor) -> Tensor:
    """Return [N, spatial…, C] for [N, C, spatial…]."""
    return node.transpose(x, [0, *range(2, len(x.shape)), 1])


def channels_first(node: Node, x: Tensor) -> Tensor:
    """Return [N, C, spatial…] for [N, spatial…, C]."""
    rank = len(x.shape)
    return node.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def sizes(node: Node, shape: Sequence[Dim]) -> list[int]:
    """Return extents of a window, which are numbers."""
    found = [n.constant for n in shape]
    if any(n is None for n in found):
        raise node.refuse("a window whose extents are no numbers")
    return [n or 0 for n in found]


def _padded(
    node: Node, x: Tensor, pads: Sequence[Dim], number: float = 0
) -> tuple[Tensor, list[int]]:
    """Return x and pads that an operation can have: others are put around x before."""
    if all(n.constant is not None and n.constant >= 0 for n in pads):
        return x, [n.constant or 0 for n in pads]
    low, high = [Dim.of(0), *pads[0::2], Dim.of(0)], [Dim.of(0), *pads[1::2], Dim.of(0)]
    return node.pad(x, low, high, number), [0] * len(pads)


@converts("Conv")
def conv(node: Node) -> Tensor:
    """A convolution."""
    x, w = node.x(0), node.x(1)
    y = convolved(node, x, w)
    if node.has(2):
        y = node.binary(nn.AddOp, y, node.broadcast_to(node.x(2), y.shape))
    return channels_first(node, y)


def convolved(node: Node, x: Tensor, w: Tensor) -> Tensor:
    """Return a convolution with the node's attributes, channels last, in the kind of x."""
    rank = len(x.shape) - 2
    window = sizes(node, w.shape[2:])
    strides = node.get_ints("strides", [1] * rank)
    dilations = node.get_ints("dilations", [1] * rank)
    pads = pads_of(node, x.shape[2:], window, strides, dilations)
    x, fixed = _padded(node, channels_last(node, x), pads)
    op = nn.ConvOp(
        x.value,
        channels_last(node, w).value,
        strides=strides,
        pads=fixed,
        dilations=dilations,
        groups=node.get_int("group", 1),
    )
    return node.typed(op)


@converts("ConvTranspose")
def conv_transpose(node: Node) -> Tensor:
    """A transposed convolution."""
    x, w = node.x(0), node.x(1)
    rank = len(x.shape) - 2
    window = sizes(node, w.shape[2:])
    strides = node.get_ints("strides", [1] * rank)
    dilations = node.get_ints("dilations", [1] * rank)
    extra = node.get_ints("output_padding", [0] * rank)
    pads, extra = _transposed_pads(node, x, window, strides, dilations, extra)
    crop = [max(0, -n) for n in pads]
    op = nn.ConvTransposeOp(
        channels_last(node, x).value,
        channels_last(node, w).value,
        strides=strides,
        pads=[max(0, n) for n in pads],
        dilations=dilations,
        extra=extra,
        groups=node.get_int("group", 1),
    )
    y = node.typed(op)
    if any(crop):
        low, high = [0, *crop[0::2], 0], [0, *crop[1::2], 0]
        y = node.pad(y, low, high)
    if node.has(2):
        y = node.binary(nn.AddOp, y, node.broadcast_to(node.x(2), y.shape))
    return channels_first(node, y)


def _transposed_pads(
    node: Node,
    x: Tensor,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: list[int],
) -> tuple[list[int], list[int]]:
    """Return pads and output paddings: those given, or what leads to the wanted output."""
    rank = len(window)
    auto = node.choice("auto_pad", "NOTSET", _AUTO)
    wanted = node.get_ints("output_shape")[-rank:] if node.given("output_shape") else None
    if wanted is None and auto in ("NOTSET", "VALID"):
        pads = node.get_ints("pads", [0] * 2 * rank)
        return [pads[d + side * rank] for d in range(rank) for side in (0, 1)], extra
    found: list[int] = []
    for d, (w, s, reach) in enumerate(zip(window, strides, dilations, strict=True)):
        span = (w - 1) * reach + 1
        if wanted is None:
            total = span - s + extra[d]
        else:
            n = x.shape[2 + d].constant
            if n is None:
                raise node.refuse("output_shape for extents that are no numbers")
            total = (n - 1) * s + extra[d] + span - wanted[d]
        if total < 0:
            extra = [e - total if i == d else e for i, e in enumerate(extra)]
            total = 0
        half = total // 2
        found += [half, total - half] if auto == "SAME_UPPER" else [total - half, half]
    return found, extra


# Pools


@converts("MaxPool")
def max_pool(node: Node) -> list[Tensor]:
    """The largest element of each window, and where it is."""
    x = node.x()
    outputs = [pooled(node, x, "max")]
    if len([name for name in node.proto.output if name]) > 1:
        outputs.append(_places(node, x))
    return outputs


def _places(node: Node, x: Tensor) -> Tensor:
    """Return where the largest elements are, counted over all of x."""
    place = node.cast(pooled(node, x, "argmax"), INT64)
    images, channels, *spatial = x.shape
    if node.get_int("storage_order", 0):
        place = _column_major(node, place, spatial)
    volume = Dim.of(1)
    for n in spatial:
        volume = volume * n
    image, channel = node.iota(0, place.shape), node.iota(1, place.shape)
    size, depth = (node.broadcast_to(node.extents([n]), place.shape) for n in (volume, channels))
    first = node.binary(nn.AddOp, node.binary(nn.MulOp, image, depth), channel)
    assert images == place.shape[0]
    return node.binary(nn.AddOp, node.binary(nn.MulOp, first, size), place)


def _column_major(node: Node, place: Tensor, spatial: Sequence[Dim]) -> Tensor:
    rest, strides, stride = place, list[Dim](), Dim.of(1)
    for n in spatial:
        strides.append(stride)
        stride = stride * n
    total = node.like(0, place)
    for n, step in zip(reversed(spatial), reversed(strides), strict=True):
        size = node.broadcast_to(node.extents([n]), place.shape)
        digit = node.binary(nn.ModOp, rest, size)
        rest = node.binary(nn.DivOp, rest, size)
        weight = node.broadcast_to(node.extents([step]), place.shape)
        total = node.binary(nn.AddOp, total, node.binary(nn.MulOp, digit, weight))
    return total


@converts("AveragePool")
def average_pool(node: Node) -> Tensor:
    """The mean of each window."""
    return pooled(node, node.x(), "mean", include_pad=bool(node.get_int("count_include_pad", 0)))


@converts("LpPool")
def lp_pool(node: Node) -> Tensor:
    """The p-norm of each window."""
    return pooled(node, node.x(), "lp")


def pooled(node: Node, x: Tensor, kind: str, *, include_pad: bool = False) -> Tensor:
    """Return what becomes of windows with the node's attributes, channels first."""
    window = node.get_ints("kernel_shape")
    strides = node.get_ints("strides", [1] * len(window))
    dilations = node.get_ints("dilations", [1] * len(window))
    pads = pads_of(node, x.shape[2:], window, strides, dilations)
    wide = node.cast(x, FLOAT) if x.kind.bits == 16 and kind in ("mean", "lp") else x
    last = channels_last(node, wide)
    fixed = [n.constant for n in pads]
    if any(n is None for n in fixed):
        if kind != "max":
            raise node.refuse("auto_pad of extents that are no numbers")
        last, fixed = _padded(node, last, pads, float("-inf"))
    op = nn.PoolOp(
        last.value,
        kind,
        window,
        strides=strides,
        pads=[n or 0 for n in fixed],
        dilations=dilations,
        include_pad=include_pad,
        ceil=bool(node.get_int("ceil_mode", 0)),
        p=node.get_int("p", 2),
    )
    y = node.typed(op)
    return channels_first(node, y if kind == "argmax" else node.cast(y, x.kind))


@converts("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(node: Node) -> Tensor:
    """One number for each channel."""
    x = node.x()
    axes = list(range(2, len(x.shape)))
    if node.op == "GlobalAveragePool":
        wide = node.cast(x, FLOAT) if x.kind.bits == 16 else x
        return node.cast(node.mean(wide, axes, keep=True), x.kind)
    if node.op == "GlobalMaxPool":
        return node.reduce("max", x, axes, keep=True)
    p = node.get_int("p", 2)
    size = node.unary(nn.AbsOp, x)
    total = node.reduce("add", node.scaled(nn.PowOp, size, p), axes, keep=True)
    return node.scaled(nn.PowOp, total, 1 / p)


@converts("LRN")
def local_response(node: Node) -> Tensor:
    """Elements divided by a power of the squares of neighbouring channels."""
    x = node.x()
    size = node.get_int("size")
    square = node.binary(nn.MulOp, x, x)
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    low[1], high[1] = (size - 1) // 2, size - 1 - (size - 1) // 2
    wide = node.pad(square, low, high)
    total = node.part(wide, 1, 0, x.shape[1])
    for i in range(1, size):
        total = node.binary(nn.AddOp, total, node.part(wide, 1, i, x.shape[1]))
    scaled = node.scaled(nn.MulOp, total, node.get_float("alpha", 1e-4) / size)
    base = node.scaled(nn.AddOp, scaled, node.get_float("bias", 1.0))
    return node.binary(nn.DivOp, x, node.scaled(nn.PowOp, base, node.get_float("beta", 0.75)))


@converts("Col2Im", since=18)
def columns_to_image(node: Node) -> Tensor:
    """Windows laid out as columns, added up where they overlap."""
    x, image, window = node.x(), node.integers(1), node.integers(2)
    rank = len(image)
    strides = node.get_ints("strides", [1] * rank)
    dilations = node.get_ints("dilations", [1] * rank)
    pads = node.get_ints("pads", [0] * 2 * rank)
    count = 1
    for n in window:
        count *= n
    n, rows, _ = x.shape
    channels = (rows // count).constant
    if channels is None:
        raise node.refuse("a number of channels that is no number")
    places = [
        (image[d] + pads[d] + pads[d + rank] - (window[d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d in range(rank)
    ]
    # A transposed convolution whose weights pick one element of a window for each input channel.
    columns = node.transpose(
        node.reshape(x, [n, channels, count, *places]), [0, 1, *range(3, 3 + rank), 2]
    )
    columns = node.reshape(columns, [n * channels, *places, count])
    element = node.iota(0, [count, *window, 1])
    index = node.like(0, element)
    for d in range(rank):
        index = node.scaled(nn.MulOp, index, window[d])
        index = node.binary(nn.AddOp, index, node.iota(1 + d, element.shape))
    chosen = node.cast(node.compare("eq", element, index), x.kind)
    op = nn.ConvTransposeOp(
        columns.value,
        chosen.value,
        strides=strides,
        pads=[pads[d + side * rank] for d in range(rank) for side in (0, 1)],
        dilations=dilations,
        extra=_missing(image, places, window, strides, dilations, pads),
    )
    return node.reshape(node.typed(op), [n, channels, *image])


def _missing(
    image: Sequence[int],
    places: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> list[int]:
    """Return how many elements of an image no window reaches, behind each dimension."""
    rank = len(image)
    return [
        image[d]
        + pads[d]
        + pads[d + rank]
        - (places[d] - 1) * strides[d]
        - (window[d] - 1) * dilations[d]
        - 1
        for d in range(rank)
    ]


@converts("MaxUnpool")
def max_unpool(node: Node) -> Tensor:
    """Elements put back where the largest ones were, zeros elsewhere."""
    x, places = node.x(0), node.x(1)
    rank = len(x.shape) - 2
    window = node.get_ints("kernel_shape")
    strides = node.get_ints("strides", [1] * rank)
    pads = node.get_ints("pads", [0] * 2 * rank)
    inner = [
        (n - 1) * strides[d] + window[d] - pads[d] - pads[d + rank]
        for d, n in enumerate(x.shape[2:])
    ]
    shape = [*x.shape[:2], *inner]
    wanted = node.dims(2) if node.has(2) else shape
    total = Dim.of(1)
    for n in shape:
        total = total * n
    count = Dim.of(1)
    for n in x.shape:
        count = count * n
    flat = node.reshape(x, [count])
    index = node.reshape(places, [count, 1])
    zeros = node.full(0, x.kind, [total])
    op = nn.ScatterNdOp(zeros.value, index.value, flat.value, "set")
    y = node.reshape(node.add(op, x.kind), shape)
    return node.pad(y, [0] * len(shape), [a - b for a, b in zip(wanted, shape, strict=True)])
