"""Elements that a mask picks: how many there are becomes an extent while the model runs."""

from __future__ import annotations

from lamina.dialects import nn
from lamina.dialects.dims import Dim, product
from lamina.frontend.onnx.kinds import BOOL, INT64
from lamina.frontend.onnx.node import NeedsValueError, Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor


@converts("NonZero")
def non_zero(node: Node) -> Tensor:
    """Where elements are not 0: a column of indices for each, in row-major order."""
    x = node.x()
    if not x.shape:
        raise NeedsValueError(f"{node.where}: a single element", 0)
    flat = node.reshape(x, [product(x.shape)])
    mask = flat if flat.kind == BOOL else node.compare("ne", flat, node.like(0, flat))
    places = _places(node, mask)
    rows = [_index(node, places, x.shape, d) for d in range(len(x.shape))]
    return node.concat([node.reshape(row, [1, *row.shape]) for row in rows], 0)


@converts("Compress")
def compress(node: Node) -> Tensor:
    """Those parts along an axis, or elements in row-major order, that a mask picks."""
    x, mask = node.x(), node.cast(node.x(1), BOOL)
    if not node.given("axis"):
        return node.gather(node.reshape(x, [product(x.shape)]), _places(node, mask), 0)
    axis = node.axis(node.get_int("axis"), len(x.shape))
    return node.gather(x, _places(node, mask), axis)


def _places(node: Node, mask: Tensor) -> Tensor:
    """Return where a vector of booleans is true, i64 [n] of a new extent n."""
    (size,) = mask.shape
    ones = node.cast(mask, INT64)
    (n,) = names = node.symbols(1)
    node.bind(node.reshape(node.reduce("add", ones, [0]), [1]), names)
    before = node.add(nn.ScanOp(ones.value, "add", 0, exclusive=True), INT64)
    # Whatever is not picked goes to one more place behind all others.
    last = node.reshape(node.extents([n]), [])
    target = node.select(mask, before, node.broadcast_to(last, mask.shape))
    y = nn.ScatterNdOp(
        node.full(0, INT64, [n + 1]).value,
        node.reshape(target, [size, 1]).value,
        node.iota(0, [size]).value,
        "set",
    )
    return node.part(node.add(y, INT64), 0, 0, n)


def _index(node: Node, places: Tensor, shape: tuple[Dim, ...], d: int) -> Tensor:
    """Return the index along a dimension of places in row-major order."""
    if shape[d] == 1:
        return node.like(0, places)
    after = product(shape[d + 1 :])
    if after != 1:
        places = node.binary(nn.DivOp, places, node.reshape(node.extents([after]), []))
    if d:
        places = node.binary(nn.ModOp, places, node.reshape(node.extents([shape[d]]), []))
    return places
