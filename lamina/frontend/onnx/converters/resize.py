"""Operators that sample between positions: resizing, grids, regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.model import MOST_READ
from lamina.frontend.onnx.kinds import BOOL, FLOAT, INT64
from lamina.frontend.onnx.node import NeedsValueError, Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor

_TRANSFORMS: Final = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_NEAREST: Final = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class _Axis:
    """How one dimension is resized: its extents, the scale, and a region's start and end."""

    dim: int
    size: Dim
    wanted: Dim
    scale: float | None
    start: float = 0.0
    end: float = 1.0


@converts("Upsample", since=7)
def upsample(node: Node) -> Tensor:
    """A tensor enlarged by whole or broken factors."""
    scales = node.get_floats("scales") if node.given("scales") else node.known(1).tolist()
    x = node.x()
    mode = node.choice("mode", "nearest", ("nearest", "linear", "bilinear", "trilinear"))
    axes = [
        _Axis(d, n, _times(node, n, s), float(s))
        for d, (n, s) in enumerate(zip(x.shape, scales, strict=True))
    ]
    return _resized(
        node, x, axes, "nearest" if mode == "nearest" else "linear", "asymmetric", "floor"
    )


@converts("Resize", since=10)
def resize(node: Node) -> Tensor:
    """A tensor resized along some dimensions."""
    x = node.x()
    old = node.version < 11
    first = 1 if old else 2
    rank = len(x.shape)
    dims = [node.axis(a, rank) for a in node.get_ints("axes", range(rank))]
    mode = node.choice("mode", "nearest", ("nearest", "linear", "cubic"))
    transform = node.choice(
        "coordinate_transformation_mode", "asymmetric" if old else "half_pixel", _TRANSFORMS
    )
    nearest = node.choice("nearest_mode", "floor" if old else "round_prefer_floor", _NEAREST)
    region = node.known(1).astype(np.float64) if transform == "tf_crop_and_resize" else None
    if node.has(3) and node.value(3).shape != (Dim.of(0),):
        axes = _to_sizes(node, x, dims, node.dims(3))
    else:
        scales = node.known(first).astype(np.float64).tolist()
        axes = [
            _Axis(d, x.shape[d], _times(node, x.shape[d], s), s)
            for d, s in zip(dims, scales, strict=True)
        ]
    if region is not None:
        half = len(region) // 2
        axes = [
            _Axis(
                a.dim,
                a.size,
                _cropped(node, a, region[i], region[i + half]),
                a.scale,
                region[i],
                region[i + half],
            )
            for i, a in enumerate(axes)
        ]
    return _resized(node, x, axes, mode, transform, nearest)


def _cropped(node: Node, axis: _Axis, start: float, end: float) -> Dim:
    if axis.scale is None or axis.size.constant is None or not node.has(2):
        return axis.wanted
    return Dim.of(int(np.floor(axis.size.constant * (end - start) * axis.scale)))


def _times(node: Node, n: Dim, scale: float) -> Dim:
    """Return floor(n * scale)."""
    if n.constant is not None:
        return Dim.of(int(np.floor(n.constant * np.float32(scale).astype(np.float64) + 1e-9)))
    if float(scale).is_integer():
        return n * int(scale)
    inverse = 1 / scale
    if abs(inverse - round(inverse)) < 1e-6:
        return n // round(inverse)
    raise node.refuse(f"resizing an extent that is no number by {scale}")


def _to_sizes(node: Node, x: Tensor, dims: Sequence[int], sizes: Sequence[Dim]) -> list[_Axis]:
    policy = node.choice(
        "keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller")
    )
    if policy == "stretch":
        return [_Axis(d, x.shape[d], n, None) for d, n in zip(dims, sizes, strict=True)]
    pairs = [(x.shape[d].constant, n.constant) for d, n in zip(dims, sizes, strict=True)]
    ratios = [b / a for a, b in pairs if a and b]
    if len(ratios) != len(pairs):
        raise node.refuse(f"{policy} for extents that are no numbers")
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [
        _Axis(d, x.shape[d], Dim.of(int(np.floor((a or 0) * scale + 0.5))), scale)
        for d, (a, _) in zip(dims, pairs, strict=True)
    ]


def _resized(
    node: Node, x: Tensor, axes: Sequence[_Axis], mode: str, transform: str, nearest: str
) -> Tensor:
    for axis in axes:
        same = axis.size == axis.wanted and axis.scale in (None, 1.0)
        if same and transform != "tf_crop_and_resize":
            continue
        x = _along(node, x, axis, mode, transform, nearest)
    return x


def _along(node: Node, x: Tensor, axis: _Axis, mode: str, transform: str, nearest: str) -> Tensor:
    """Return x resized along one dimension: elements gathered, and weighted where between."""
    if axis.size.constant is not None and axis.wanted.constant is not None:
        return _by_table(node, x, axis, mode, transform, nearest)
    places = _places(node, axis, transform)
    if mode == "nearest":
        return _gathered(node, x, axis, _rounded(node, places, nearest))
    if mode == "cubic":
        raise node.refuse("cubic resizing of extents that are no numbers")
    low = node.unary(nn.FloorOp, places)
    part = node.binary(nn.SubOp, places, low)
    a = _gathered(node, x, axis, low)
    b = _gathered(node, x, axis, node.scaled(nn.AddOp, low, 1))
    weight = node.cast(node.along(part, [axis.dim], a.shape), a.kind)
    moved = node.binary(nn.MulOp, node.binary(nn.SubOp, b, a), weight)
    return node.binary(nn.AddOp, a, moved)


def _places(node: Node, axis: _Axis, transform: str) -> Tensor:
    """Return, in f32, the places that results are sampled at, where extents are no numbers."""
    i = node.cast(node.iota(0, [axis.wanted]), FLOAT)
    wanted, size = (
        node.broadcast_to(node.extents([n], FLOAT), i.shape) for n in (axis.wanted, axis.size)
    )
    if axis.scale is not None:
        step = node.like(1 / axis.scale, i)
    else:
        step = node.binary(nn.DivOp, size, wanted)
    if transform == "asymmetric":
        return node.binary(nn.MulOp, i, step)
    if transform == "align_corners":
        last = node.scaled(nn.MaxOp, node.scaled(nn.SubOp, wanted, 1), 1)
        step = node.binary(nn.DivOp, node.scaled(nn.SubOp, size, 1), last)
        return node.binary(nn.MulOp, i, step)
    if transform in ("half_pixel", "pytorch_half_pixel"):
        moved = node.scaled(nn.AddOp, i, 0.5)
        return node.scaled(nn.SubOp, node.binary(nn.MulOp, moved, step), 0.5)
    raise node.refuse(f"{transform} for extents that are no numbers")


def _rounded(node: Node, places: Tensor, nearest: str) -> Tensor:
    if nearest == "floor":
        return node.unary(nn.FloorOp, places)
    if nearest == "ceil":
        return node.unary(nn.CeilOp, places)
    if nearest == "round_prefer_ceil":
        return node.unary(nn.FloorOp, node.scaled(nn.AddOp, places, 0.5))
    return node.unary(nn.CeilOp, node.scaled(nn.SubOp, places, 0.5))


def _gathered(node: Node, x: Tensor, axis: _Axis, places: Tensor) -> Tensor:
    index = node.cast(places, INT64)
    last = node.broadcast_to(node.extents([axis.size - 1]), index.shape)
    index = node.binary(nn.MinOp, node.scaled(nn.MaxOp, index, 0), last)
    return node.add(nn.GatherOp(x.value, index.value, axis.dim), x.kind)


def _by_table(
    node: Node, x: Tensor, axis: _Axis, mode: str, transform: str, nearest: str
) -> Tensor:
    """Return x resized along a dimension whose extents are numbers: which elements is known."""
    size, wanted = axis.size.constant or 0, axis.wanted.constant or 0
    places = _table(axis, size, wanted, transform)
    outside = (places < 0) | (places > size - 1) if transform == "tf_crop_and_resize" else None
    if mode == "nearest":
        index = np.clip(_round(places, nearest), 0, size - 1).astype(np.int64)
        y = _picked(node, x, axis, index)
    else:
        y = _weighted(node, x, axis, *_weights(node, axis, places, mode, size, wanted))
    if outside is None or not outside.any():
        return y
    mask = node.along(node.listed(outside, BOOL), [axis.dim], y.shape)
    return node.select(mask, node.like(node.get_float("extrapolation_value", 0.0), y), y)


def _table(axis: _Axis, size: int, wanted: int, transform: str) -> npt.NDArray[np.float64]:
    i = np.arange(wanted, dtype=np.float64)
    scale = axis.scale if axis.scale is not None else wanted / max(size, 1)
    if transform == "align_corners":
        reach = size * scale - 1
        places = i * ((size - 1) / reach) if reach > 0 else i * 0
    elif transform == "tf_crop_and_resize":
        span = (axis.end - axis.start) * (size - 1)
        middle = 0.5 * (axis.start + axis.end) * (size - 1)
        places = axis.start * (size - 1) + i * (span / (wanted - 1)) if wanted > 1 else i + middle
    elif transform == "pytorch_half_pixel" and wanted == 1:
        places = i * 0
    elif transform == "asymmetric":
        places = i / scale
    else:
        moved = 0.0 if transform == "tf_half_pixel_for_nn" else 0.5
        places = (i + 0.5) / scale - moved
        if transform == "half_pixel_symmetric":
            places += size / 2 * (1 - wanted / (size * scale))
    return places


def _round(places: npt.NDArray[np.float64], nearest: str) -> npt.NDArray[np.float64]:
    # Places are quotients: what is a half but for rounding counts as one.
    close = np.round(places * 2) / 2
    places = np.where(np.abs(places - close) < 1e-9, close, places)
    rules: dict[str, Callable[[], npt.NDArray[np.float64]]] = {
        "floor": lambda: np.floor(places),
        "ceil": lambda: np.ceil(places),
        "round_prefer_ceil": lambda: np.floor(places + 0.5),
        "round_prefer_floor": lambda: np.ceil(places - 0.5),
    }
    return rules[nearest]()


def _weights(
    node: Node, axis: _Axis, places: npt.NDArray[np.float64], mode: str, size: int, wanted: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the elements that each result is made of, and how much of each: [wanted, taps]."""
    scale = axis.scale if axis.scale is not None else wanted / max(size, 1)
    antialias = bool(node.get_int("antialias", 0)) and scale < 1
    shrink = scale if antialias else 1.0
    reach = (2 if mode == "cubic" else 1) / shrink
    a = node.get_float("cubic_coeff_a", -0.75)
    first = np.floor(places).astype(np.int64) - int(np.ceil(reach)) + 1
    index = first[:, None] + np.arange(2 * int(np.ceil(reach)))
    distance = np.abs(places[:, None] - index) * shrink
    weight = _cubic(distance, a) if mode == "cubic" else np.maximum(0.0, 1 - distance)
    if node.get_int("exclude_outside", 0):
        weight = np.where((index < 0) | (index >= size), 0.0, weight)
    weight = weight / weight.sum(1, keepdims=True)
    return np.clip(index, 0, size - 1), weight


def _cubic(x: npt.NDArray[np.float64], a: float) -> npt.NDArray[np.float64]:
    """Return the weights of elements at these distances (Keys 1981)."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _picked(node: Node, x: Tensor, axis: _Axis, index: npt.NDArray[np.int64]) -> Tensor:
    if index.size > MOST_READ:
        raise NeedsValueError(f"{node.where}: resizing to {index.size} elements", 0)
    table = node.listed(index, INT64)
    return node.add(nn.GatherOp(x.value, table.value, axis.dim), x.kind)


def _weighted(
    node: Node,
    x: Tensor,
    axis: _Axis,
    index: npt.NDArray[np.int64],
    weight: npt.NDArray[np.float64],
) -> Tensor:
    """Return the sum of elements times weights, one after another."""
    wide = node.cast(x, FLOAT) if not x.kind.is_float or x.kind.bits == 16 else x
    total: Tensor | None = None
    for i in range(index.shape[1]):
        if not weight[:, i].any():
            continue
        part = _picked(node, wide, axis, index[:, i])
        factor = node.along(node.listed(weight[:, i], wide.kind), [axis.dim], part.shape)
        part = node.binary(nn.MulOp, part, factor)
        total = part if total is None else node.binary(nn.AddOp, total, part)
    if total is None:
        raise node.fault("there is nothing to resize")
    if x.kind.is_float:
        return node.cast(total, x.kind)
    return node.cast(node.unary(nn.RoundOp, total), x.kind)
