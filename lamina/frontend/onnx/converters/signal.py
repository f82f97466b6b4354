"""Operators on signals: Fourier transforms, and sampling at the points of a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.kinds import FLOAT, INT64, Kind
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor


@converts("DFT", since=17)
def fourier(node: Node) -> Tensor:
    """A discrete Fourier transform along one axis, as products with sines and cosines."""
    x = node.x()
    rank = len(x.shape)
    given = node.number(2, -2) if node.version >= 20 else node.get_int("axis", 1)
    axis = node.axis(int(given), rank)
    length = node.dims(1)[0] if node.has(1) else x.shape[axis]
    inverse, half = bool(node.get_int("inverse", 0)), bool(node.get_int("onesided", 0))
    if inverse and half:
        return _inverse_half(node, x, axis, length)
    parts = [_fitted(node, part, axis, length) for part in _parts(node, x)]
    count = length // 2 + 1 if half else length
    real, imaginary = _transformed(node, parts, axis, length, count, inverse=inverse)
    return _joined(node, real, imaginary)


def _parts(node: Node, x: Tensor) -> list[Tensor]:
    """Return the real part and, if there is one, the imaginary part, without that dimension."""
    last = len(x.shape) - 1
    count = x.shape[last].constant
    if count not in (1, 2):
        raise node.fault(f"the last extent is {x.shape[last]}, expected 1 or 2")
    return [node.reshape(node.part(x, last, i, 1), x.shape[:-1]) for i in range(count)]


def _joined(node: Node, real: Tensor, imaginary: Tensor) -> Tensor:
    pair = [node.reshape(x, [*x.shape, 1]) for x in (real, imaginary)]
    return node.concat(pair, len(real.shape))


def _fitted(node: Node, x: Tensor, axis: int, length: Dim) -> Tensor:
    """Return x cut, or with zeros behind, to a length."""
    if x.shape[axis] == length:
        return x
    more = length - x.shape[axis]
    if more.constant is None:
        raise node.refuse("a length that may be more or less than there is")
    if more.constant < 0:
        return node.part(x, axis, 0, length)
    high = [more if d == axis else 0 for d in range(len(x.shape))]
    return node.pad(x, [0] * len(x.shape), high)


def _transformed(
    node: Node, parts: Sequence[Tensor], axis: int, length: Dim, count: Dim, *, inverse: bool
) -> tuple[Tensor, Tensor]:
    """Return real and imaginary parts of sums of x times e^(-2 pi i k n / length)."""
    cosine, sine = _waves(node, length, count, parts[0].kind)
    real, imaginary = (_along(node, parts[0], wave, axis) for wave in (cosine, sine))
    if not inverse:
        imaginary = node.unary(nn.NegOp, imaginary)
    if len(parts) == 2:
        a, b = (_along(node, parts[1], wave, axis) for wave in (cosine, sine))
        real = node.binary(nn.SubOp if inverse else nn.AddOp, real, b)
        imaginary = node.binary(nn.AddOp, imaginary, a)
    if inverse:
        size = node.broadcast_to(node.extents([length], real.kind), real.shape)
        real, imaginary = (node.binary(nn.DivOp, x, size) for x in (real, imaginary))
    return real, imaginary


def _waves(
    node: Node, length: Dim, count: Dim, kind: Kind, lines: Dim | None = None
) -> tuple[Tensor, Tensor]:
    """Return cos and sin of 2 pi k n / length as [lines, count], `lines` being the length."""
    shape = [length if lines is None else lines, count]
    places = node.binary(nn.MulOp, node.iota(0, shape), node.iota(1, shape))
    size = node.broadcast_to(node.extents([length]), places.shape)
    # The product may be large, the angle must not be.
    turns = node.binary(nn.ModOp, places, size)
    halves = node.cast(node.scaled(nn.MulOp, turns, 2), kind)
    angle = node.binary(nn.DivOp, halves, node.cast(size, kind))
    return _sine(node, node.scaled(nn.AddOp, angle, 0.5)), _sine(node, angle)


def _sine(node: Node, x: Tensor) -> Tensor:
    """Return sin(pi x) for x from 0 to 2.5, which is exactly 0 at whole numbers."""
    x = node.select(node.compare("gt", x, node.like(1, x)), node.scaled(nn.SubOp, x, 2), x)
    high = node.binary(nn.SubOp, node.like(1, x), x)
    low = node.binary(nn.SubOp, node.like(-1, x), x)
    x = node.select(node.compare("gt", x, node.like(0.5, x)), high, x)
    x = node.select(node.compare("lt", x, node.like(-0.5, x)), low, x)
    return node.unary(nn.SinOp, node.scaled(nn.MulOp, x, math.pi))


def _along(node: Node, x: Tensor, wave: Tensor, axis: int) -> Tensor:
    rank = len(x.shape)
    y = node.cast(node.dot(x, wave, [(axis, 0)]), x.kind)
    return node.transpose(y, [*range(axis), rank - 1, *range(axis, rank - 1)])


def _inverse_half(node: Node, x: Tensor, axis: int, length: Dim) -> Tensor:
    """Return the real signal of which the first half of a spectrum is given."""
    if not node.has(1):
        length = (x.shape[axis] - 1) * 2
    real, imaginary = _parts(node, x)
    count = x.shape[axis]
    cosine, sine = _waves(node, length, length, real.kind, count)
    weight = _hermitian(node, length, real.kind, cosine.shape)
    cosine, sine = (node.binary(nn.MulOp, x, weight) for x in (cosine, sine))
    y = node.binary(nn.SubOp, _along(node, real, cosine, axis), _along(node, imaginary, sine, axis))
    y = node.binary(nn.DivOp, y, node.broadcast_to(node.extents([length], y.kind), y.shape))
    return node.reshape(y, [*y.shape, 1])


def _hermitian(node: Node, length: Dim, kind: Kind, shape: Sequence[Dim]) -> Tensor:
    """Return how often each line of half a spectrum counts: twice, but the first and the middle."""
    place = node.iota(0, shape)
    middle = node.broadcast_to(node.extents([length]), place.shape)
    double = node.scaled(nn.MulOp, place, 2)
    once = node.binary(
        nn.OrOp,
        node.compare("eq", place, node.like(0, place)),
        node.compare("eq", double, middle),
    )
    one = node.full(1, kind, shape)
    return node.select(once, one, node.like(2, one))


@converts("STFT", since=17)
def short_time_fourier(node: Node) -> Tensor:
    """Fourier transforms of windows that step along a signal."""
    x, step = node.x(0), int(node.number(1))
    if node.has(3):
        length = node.dims(3)[0]
    elif node.has(2):
        length = node.value(2).shape[0]
    else:
        raise node.fault("neither a window nor frame_length is given")
    batch, signal = x.shape[0], x.shape[1]
    frames = (signal - length) // step + 1
    places = node.scaled(nn.MulOp, node.iota(0, [frames, length]), step)
    places = node.binary(nn.AddOp, places, node.iota(1, [frames, length]))
    parts: list[Tensor] = []
    whole = node.reshape(x, [batch, signal, 1]) if len(x.shape) == 2 else x
    for part in _parts(node, whole):
        framed = node.add(nn.GatherOp(part.value, places.value, 1), part.kind)
        if node.has(2):
            framed = node.binary(nn.MulOp, framed, node.x(2))
        parts.append(framed)
    half = bool(node.get_int("onesided", 1))
    count = length // 2 + 1 if half else length
    real, imaginary = _transformed(node, parts, 2, length, count, inverse=False)
    return _joined(node, real, imaginary)


@converts("GridSample", since=16)
def grid_sample(node: Node) -> Tensor:
    """Elements at the points of a grid, between positions."""
    x, grid = node.x(0), node.x(1)
    rank = len(x.shape) - 2
    modes = ("linear", "nearest", "cubic", "bilinear", "bicubic")
    mode = node.choice("mode", "linear" if node.version >= 20 else "bilinear", modes)
    mode = mode.removeprefix("bi")
    border = node.choice("padding_mode", "zeros", ("zeros", "border", "reflection"))
    aligned = bool(node.get_int("align_corners", 0))
    sizes = list(x.shape[2:])
    # The grid's last dimension has x first, the innermost dimension of the tensor.
    shape = grid.shape[:-1]
    points: list[Tensor] = []
    for d in range(rank):
        place = node.reshape(node.part(grid, rank + 1, rank - 1 - d, 1), shape)
        points.append(_unscaled(node, node.cast(place, FLOAT), sizes[d], aligned=aligned))
    last = node.transpose(x, [0, *range(2, rank + 2), 1])
    total: Tensor | None = None
    taps = [_taps(node, point, mode) for point in points]
    for chosen in itertools.product(*taps):
        part = _sampled(node, last, [place for place, _ in chosen], border, aligned=aligned)
        for _, weight in chosen:
            if weight is not None:
                factor = node.cast(weight, part.kind)
                part = node.binary(nn.MulOp, part, node.reshape(factor, [*shape, 1]))
        total = part if total is None else node.binary(nn.AddOp, total, part)
    assert total is not None
    return node.transpose(total, [0, rank + 1, *range(1, rank + 1)])


def _unscaled(node: Node, place: Tensor, size: Dim, *, aligned: bool) -> Tensor:
    """Return a coordinate of [-1, 1] as a position."""
    extent = node.broadcast_to(node.extents([size], place.kind), place.shape)
    moved = node.scaled(nn.AddOp, place, 1)
    if aligned:
        return node.scaled(
            nn.DivOp, node.binary(nn.MulOp, moved, node.scaled(nn.SubOp, extent, 1)), 2
        )
    return node.scaled(nn.DivOp, node.scaled(nn.SubOp, node.binary(nn.MulOp, moved, extent), 1), 2)


def _taps(node: Node, point: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """Return the positions that a sample is made of in one dimension, and their weights."""
    if mode == "nearest":
        return [(node.unary(nn.RoundOp, point), None)]
    low = node.unary(nn.FloorOp, point)
    part = node.binary(nn.SubOp, point, low)
    if mode == "linear":
        rest = node.binary(nn.SubOp, node.like(1, part), part)
        return [(low, rest), (node.scaled(nn.AddOp, low, 1), part)]
    return [
        (node.scaled(nn.AddOp, low, i), _cubic(node, node.scaled(nn.SubOp, part, i)))
        for i in (-1, 0, 1, 2)
    ]


def _cubic(node: Node, offset: Tensor) -> Tensor:
    """Return the weights of elements at these offsets (Keys 1981)."""
    a = -0.75
    x = node.unary(nn.AbsOp, offset)
    near = node.scaled(nn.SubOp, node.scaled(nn.MulOp, x, a + 2), a + 3)
    near = node.binary(nn.MulOp, node.binary(nn.MulOp, near, x), x)
    near = node.scaled(nn.AddOp, near, 1)
    far = node.scaled(nn.SubOp, node.scaled(nn.MulOp, x, a), 5 * a)
    far = node.scaled(nn.AddOp, node.binary(nn.MulOp, far, x), 8 * a)
    far = node.scaled(nn.SubOp, node.binary(nn.MulOp, far, x), 4 * a)
    return node.select(node.compare("le", x, node.like(1, x)), near, far)


def _sampled(
    node: Node, last: Tensor, places: Sequence[Tensor], border: str, *, aligned: bool
) -> Tensor:
    """Return the elements at whole positions; those outside as the border says."""
    rank, indices, inside = len(places), list[Tensor](), list[Tensor]()
    for d, given in enumerate(places):
        size = last.shape[1 + d]
        thrown = border == "reflection"
        place = _reflected(node, given, size, aligned=aligned) if thrown else given
        top = node.broadcast_to(node.extents([size - 1], place.kind), place.shape)
        zero = node.like(0, place)
        inside += [node.compare("ge", place, zero), node.compare("le", place, top)]
        cut = node.binary(nn.MinOp, node.binary(nn.MaxOp, place, zero), top)
        indices.append(node.reshape(node.cast(cut, INT64), [*place.shape, 1]))
    index = node.concat(indices, rank + 1)
    found = node.add(nn.GatherNdOp(last.value, index.value, 1), last.kind)
    if border != "zeros":
        return found
    mask = inside[0]
    for each in inside[1:]:
        mask = node.binary(nn.AndOp, mask, each)
    mask = node.reshape(mask, [*mask.shape, 1])
    return node.select(mask, found, node.like(0, found))


def _reflected(node: Node, place: Tensor, size: Dim, *, aligned: bool) -> Tensor:
    """Return positions thrown back into the tensor, as often as needed."""
    extent = node.broadcast_to(node.extents([size], place.kind), place.shape)
    if aligned:
        low, span = node.like(0, place), node.scaled(nn.SubOp, extent, 1)
    else:
        low, span = node.like(-0.5, place), extent
    span = node.scaled(nn.MaxOp, span, 1e-6)
    away = node.unary(nn.AbsOp, node.binary(nn.SubOp, place, low))
    times = node.unary(nn.FloorOp, node.binary(nn.DivOp, away, span))
    rest = node.binary(nn.SubOp, away, node.binary(nn.MulOp, times, span))
    half = node.scaled(nn.DivOp, times, 2)
    even = node.compare("eq", half, node.unary(nn.FloorOp, half))
    back = node.binary(nn.SubOp, span, rest)
    return node.binary(nn.AddOp, node.select(even, rest, back), low)
