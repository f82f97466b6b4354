"""Short ways to add operations to a graph, on tensors that know their ONNX element types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor, ui8
from lamina.dialects.text_codes import code_of
from lamina.dialects.traits import Elementwise
from lamina.errors import FormatError
from lamina.frontend.graph import Graph
from lamina.frontend.onnx.kinds import (
    BOOL,
    BY_NAME,
    FLOAT,
    INT32,
    INT64,
    KINDS,
    POWERS,
    Kind,
)
from lamina.frontend.onnx.values import Array, Known, Stored, Tensor, codes_of

Binary = Callable[[SSAValue, SSAValue], Operation]


class Emit:
    """Adds operations to a graph under construction; every method gives a new tensor."""

    def __init__(self, graph: Graph, where: str) -> None:
        """Take the graph; `where` begins the text of errors."""
        self.graph, self.where = graph, where

    # What is known already

    def tensor(self, value: Array) -> Tensor:
        """Return a value as a tensor of the graph."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Stored):
            return Tensor(self.graph.weight(value.weight, value.dims), value.kind)
        return self._texts(value) if value.kind.is_text else self._known(value)

    def _known(self, value: Known) -> Tensor:
        kind, array = value.kind, value.array
        if not value.is_plain:
            return self._extents(value)
        if kind.is_float and kind.element is None:
            codes = Known(array.view(np.uint8), BY_NAME["uint8"], value.weight)
            return Tensor(self._known(codes).value, kind)
        flat = array.ravel()
        numbers = flat.astype(np.float64).tolist() if kind.is_float else flat.tolist()
        if numbers and all(_same(each, numbers[0]) for each in numbers):
            return self.full(numbers[0], kind, array.shape)
        listed = kind.is_integer or kind.bits == 1 or bool(np.isfinite(array.astype(float)).all())
        if value.weight is not None and (kind.is_float or not listed):
            return Tensor(self.graph.weight(value.weight, array.shape), kind)
        if listed:
            return self.listed(array, kind)
        rows = [self._known(Known(flat[i : i + 1], kind)) for i in range(flat.size)]
        return self.reshape(self.concat(rows, 0), [Dim.of(n) for n in array.shape])

    def _texts(self, value: Known) -> Tensor:
        """Return known texts by their codes."""
        self.graph.take_texts(value.array.ravel().tolist())
        if value.weight is not None:
            return Tensor(self.graph.weight(value.weight, value.array.shape), value.kind)
        return Tensor(self._known(Known(codes_of(value.array), INT64)).value, value.kind)

    def _extents(self, value: Known) -> Tensor:
        dims = [n if isinstance(n, Dim) else Dim.of(int(n)) for n in value.array.ravel().tolist()]
        found = self.extents(dims, value.kind)
        return self.reshape(found, [Dim.of(n) for n in value.array.shape])

    def extents(self, dims: Sequence[Dim], kind: Kind = INT64) -> Tensor:
        """Return extents as a vector of integers."""
        wide = kind if kind.is_integer else INT64
        type = tensor(element_of(wide), [len(dims)])
        return self.cast(self.add(nn.ExtentsOp(dims, type), wide), kind)

    def full(self, number: Any, kind: Kind, shape: Sequence[Dim | int]) -> Tensor:
        """Return a tensor of one number, or one text; of texts, 0 is the empty one."""
        type = tensor(element_of(kind), shape)
        return self.add(nn.ConstantOp(self._scalar(number, kind), type), kind)

    def _scalar(self, number: Any, kind: Kind) -> Attribute:
        element = element_of(kind)
        if kind.is_float and kind.element is not None:
            return FloatAttr(float(number), cast("Any", element))
        if isinstance(number, str):
            self.graph.take_texts([number])
            number = code_of(number)
        return IntegerAttr(int(number), cast("Any", element))

    def like(self, number: Any, x: Tensor) -> Tensor:
        """Return a tensor of one number with the type of `x`."""
        return self.full(number, x.kind, x.shape)

    def listed(self, array: npt.NDArray[Any], kind: Kind) -> Tensor:
        """Return a constant of a few finite numbers."""
        type = tensor(element_of(kind), array.shape)
        numbers = [float(n) if kind.is_float else int(n) for n in array.ravel()]
        if not numbers:
            return self.add(nn.ConstantOp(self._scalar(0, kind), type), kind)
        return self.add(
            nn.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, numbers), type), kind
        )

    # Element by element

    def add(self, op: Operation, kind: Kind) -> Tensor:
        """Append an operation; its first result has elements of `kind`."""
        op.verify_()
        y, dropped = self.graph.add(op), self.graph.dropped
        for x in op.operands if dropped and op.has_trait(Elementwise) else ():
            if x in dropped and extents(x.type) == extents(y.type):
                dropped[y] = dropped[x]
        return Tensor(y, kind)

    def second(self, op: Operation) -> Tensor:
        """Return the second result of an operation that was added."""
        y = op.results[1]
        return Tensor(y, kind_of(nn.element(y)))

    def symbols(self, count: int) -> list[Dim]:
        """Return new symbols for extents that `bind` is to give values."""
        return [Dim.symbol(next(self.graph.fresh_symbols)) for _ in range(count)]

    def bind(
        self, x: Tensor, symbols: Sequence[Dim], equal: Sequence[tuple[Dim, Dim]] = ()
    ) -> None:
        """Have the integers of a vector be the values of symbols; calls with others are refused.

        So are calls in which the extents of a pair in `equal` differ.
        """
        if symbols:
            self.graph.effect(nn.BindOp(x.value, [str(n) for n in symbols], equal))

    def typed(self, op: Operation) -> Tensor:
        """Append an operation whose first result says itself what its elements are."""
        return self.add(op, kind_of(nn.element(op.results[0])))

    def unary(self, make: Callable[[SSAValue], Operation], x: Tensor) -> Tensor:
        """Return an operation on each element."""
        return self.add(make(x.value), x.kind)

    def binary(self, make: Binary, a: Tensor, b: Tensor) -> Tensor:
        """Return an operation on pairs of elements, broadcast as NumPy does."""
        a, b = self.broadcast(a, b)
        return self.add(make(a.value, b.value), a.kind)

    def scaled(self, make: Binary, x: Tensor, number: float) -> Tensor:
        """Return an operation on each element and one number."""
        return self.add(make(x.value, self.like(number, x).value), x.kind)

    def compare(self, kind: str, a: Tensor, b: Tensor) -> Tensor:
        """Return `a kind b` as booleans, broadcast."""
        a, b = self.broadcast(a, b)
        return self.add(nn.CompareOp(kind, a.value, b.value), BOOL)

    def select(self, mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return `mask ? a : b`, broadcast."""
        mask, a, b = self.broadcast(mask, a, b)
        return self.add(nn.SelectOp(mask.value, a.value, b.value), a.kind)

    def cast(self, x: Tensor, kind: Kind, *, saturate: bool = True) -> Tensor:
        """Return the elements as those of another type: booleans are whether they are not 0.

        Integers of less than a byte are the lowest bits. With `saturate`, floats of a byte or less
        end at the largest number.
        """
        if x.kind == kind:
            return x
        if x.kind == POWERS:
            return self.cast(self._power(x), kind)
        if kind == POWERS:
            return self._exponent(self.cast(x, FLOAT))
        if x.kind.code is not None:
            return self.cast(self.add(nn.DecodeOp(x.value, x.kind.code), FLOAT), kind)
        if kind.code is not None:
            number = self.cast(x, FLOAT)
            return self.add(nn.EncodeOp(number.value, kind.code, saturate=saturate), kind)
        return self._whole_cast(x, kind)

    def _whole_cast(self, x: Tensor, kind: Kind) -> Tensor:
        if kind.is_integer and kind.bits < 8:
            return self._lowest_bits(self._whole_cast(x, INT32), kind)
        if kind == BOOL:
            return self.compare("ne", x, self.like(0, x))
        if element_of(kind) == element_of(x.kind):
            return Tensor(x.value, kind)
        return self.add(nn.CastOp(x.value, element_of(kind)), kind)

    def _power(self, x: Tensor) -> Tensor:
        """Return 2 to the power of a byte less 127, as f32 has it; NaN of 255."""
        byte = self.cast(Tensor(x.value, BY_NAME["uint8"]), INT32)
        bits = self.scaled(nn.ShlOp, byte, 23)
        for value, other in ((0, 0x00400000), (255, 0x7FC00000)):
            here = self.compare("eq", byte, self.like(value, byte))
            bits = self.select(here, self.like(other, bits), bits)
        return self.add(nn.BitcastOp(bits.value, f32), FLOAT)

    def _exponent(self, x: Tensor) -> Tensor:
        """Return the byte of the next power of 2 from f32 on, at most 254; 255 of NaN."""
        bits = self.add(nn.BitcastOp(x.value, i32), INT32)
        byte = self.scaled(nn.AndOp, self.scaled(nn.ShrOp, bits, 23), 255)
        small = self.compare("eq", byte, self.like(0, byte))
        least = self.select(small, self.like(0x00400000, byte), self.like(0, byte))
        rest = self.compare("gt", self.scaled(nn.AndOp, bits, 0x007FFFFF), least)
        byte = self.scaled(nn.MinOp, self.binary(nn.AddOp, byte, self.cast(rest, INT32)), 254)
        byte = self.select(self.compare("ne", x, x), self.like(255, byte), byte)
        return Tensor(self.cast(byte, BY_NAME["uint8"]).value, POWERS)

    def _lowest_bits(self, x: Tensor, kind: Kind) -> Tensor:
        low = self.scaled(nn.AndOp, x, (1 << kind.bits) - 1)
        if not kind.is_unsigned:
            sign = 1 << (kind.bits - 1)
            low = self.scaled(nn.SubOp, self.scaled(nn.XorOp, low, sign), sign)
        return self.add(nn.CastOp(low.value, element_of(kind)), kind)

    # Shapes

    def broadcast(self, *xs: Tensor) -> list[Tensor]:
        """Return tensors repeated to their common shape."""
        shape = self.common_shape([x.shape for x in xs])
        return [self.broadcast_to(x, shape) for x in xs]

    def common_shape(self, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """Return the shape that all broadcast to; symbols that meet are assumed to be equal."""
        rank = max(len(shape) for shape in shapes)
        padded = [(Dim.of(1),) * (rank - len(shape)) + shape for shape in shapes]
        return tuple(self._common(column) for column in zip(*padded, strict=True))

    def _common(self, column: Sequence[Dim]) -> Dim:
        sizes = dict.fromkeys(n for n in column if n != 1)
        if not sizes:
            return Dim.of(1)
        chosen = next((n for n in sizes if n.constant is not None), next(iter(sizes)))
        for n in sizes:
            self.assume(n, chosen)
        return chosen

    def assume(self, a: Dim, b: Dim) -> None:
        """Have calls refused in which two extents differ; raise FormatError if they always do."""
        if a == b:
            return
        if a.constant is not None and b.constant is not None and not self.graph.is_branch:
            raise FormatError(f"{self.where}: extents {a} and {b} do not fit together")
        self.graph.assume(a, b)

    def broadcast_to(self, x: Tensor, shape: Sequence[Dim]) -> Tensor:
        """Return `x` repeated to `shape`, its dimensions being the last."""
        if x.shape == tuple(shape):
            return x
        if (number := _splat(x)) is not None:
            return self.add(nn.ConstantOp(number, tensor(element_of(x.kind), shape)), x.kind)
        first = len(shape) - len(x.shape)
        kept = [n if n == 1 else shape[first + i] for i, n in enumerate(x.shape)]
        x = self.retyped(x, kept)
        if tuple(kept) == tuple(shape):
            return x
        dims = range(first, len(shape))
        return self.add(nn.BroadcastOp(x.value, list(dims), shape), x.kind)

    def along(self, x: Tensor, dims: Sequence[int], shape: Sequence[Dim]) -> Tensor:
        """Return `x` repeated to `shape`, its dimension i being `dims[i]`."""
        kept = [n if n == 1 else shape[d] for n, d in zip(x.shape, dims, strict=True)]
        return self.add(nn.BroadcastOp(self.retyped(x, kept).value, dims, shape), x.kind)

    def retyped(self, x: Tensor, shape: Sequence[Dim]) -> Tensor:
        """Return `x` under extents that are assumed to be equal to its own."""
        if x.shape == tuple(shape):
            return x
        for a, b in zip(x.shape, shape, strict=True):
            self.assume(a, b)
        return self.add(nn.ReshapeOp(x.value, shape, assumed=True), x.kind)

    def reshape(self, x: Tensor, shape: Sequence[Dim | int]) -> Tensor:
        """Return the elements in row order under another shape."""
        dims = tuple(Dim.of(n) for n in shape)
        return x if x.shape == dims else self.add(nn.ReshapeOp(x.value, dims), x.kind)

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """Return `x` with dimension `perm[i]` as its dimension i."""
        if list(perm) == list(range(len(x.shape))):
            return x
        return self.add(nn.TransposeOp(x.value, perm), x.kind)

    def concat(self, xs: Sequence[Tensor], dim: int) -> Tensor:
        """Return tensors one after another along `dim`; other extents are assumed equal."""
        if len(xs) == 1:
            return xs[0]
        columns = list(zip(*(x.shape for x in xs), strict=True))
        common = [n[0] if d == dim else self._common(n) for d, n in enumerate(columns)]
        parts: list[SSAValue] = []
        for x in xs:
            shape = list(common)
            shape[dim] = x.shape[dim]
            shape = [n if x.shape[d] != 1 or d == dim else common[d] for d, n in enumerate(shape)]
            parts.append(self.retyped(x, shape).value)
        return self.add(nn.ConcatOp(parts, dim), xs[0].kind)

    def slice(
        self,
        x: Tensor,
        start: Sequence[Dim | int],
        shape: Sequence[Dim | int],
        step: Sequence[int] = (),
    ) -> Tensor:
        """Return elements `start + step * i` in each dimension."""
        if tuple(Dim.of(n) for n in shape) == x.shape and all(s == 1 for s in step):
            return x
        return self.add(nn.SliceOp(x.value, start, shape, step), x.kind)

    def part(self, x: Tensor, dim: int, start: Dim | int, count: Dim | int) -> Tensor:
        """Return `count` indices of one dimension from `start` on."""
        starts: list[Dim | int] = [0] * len(x.shape)
        shape: list[Dim | int] = list(x.shape)
        starts[dim], shape[dim] = start, count
        return self.slice(x, starts, shape)

    def pad(self, x: Tensor, low: Sequence[Any], high: Sequence[Any], number: Any = 0) -> Tensor:
        """Return `x` with elements of `number` around it."""
        if all(n == 0 for n in (*low, *high)):
            return x
        return self.add(nn.PadOp(x.value, low, high, self._scalar(number, x.kind)), x.kind)

    def iota(self, dim: int, shape: Sequence[Dim | int], kind: Kind = INT64) -> Tensor:
        """Return the position along `dim`."""
        return self.add(nn.IotaOp(dim, tensor(element_of(kind), shape)), kind)

    # Sums

    def reduce(self, kind: str, x: Tensor, axes: Sequence[int], *, keep: bool = False) -> Tensor:
        """Return `kind` over `axes`; argmax and argmin give i32."""
        result = INT32 if kind.startswith("arg") else x.kind
        y = self.add(nn.ReduceOp(x.value, kind, sorted(axes)), result) if axes else x
        if not keep:
            return y
        return self.reshape(y, [Dim.of(1) if d in axes else n for d, n in enumerate(x.shape)])

    def mean(self, x: Tensor, axes: Sequence[int], *, keep: bool = False) -> Tensor:
        """Return the sum over `axes` divided by the number of elements."""
        total = self.reduce("add", x, axes, keep=keep)
        count = self.count(x, axes, total)
        return self.binary(nn.DivOp, total, count)

    def count(self, x: Tensor, axes: Sequence[int], like: Tensor) -> Tensor:
        """Return how many elements `axes` have, as a tensor like `like`."""
        total = Dim.of(1)
        for axis in axes:
            total = total * x.shape[axis]
        if total.constant is not None:
            return self.like(total.constant, like)
        number = self.extents([total], like.kind)
        return self.broadcast_to(self.reshape(number, [1] * len(like.shape)), like.shape)

    def dot(
        self,
        a: Tensor,
        b: Tensor,
        contract: Sequence[tuple[int, int]],
        batch: Sequence[tuple[int, int]] = (),
    ) -> Tensor:
        """Return sums of products, as `nn.dot_general` gives them: f32 for narrow floats."""
        a_shape, b_shape = list(a.shape), list(b.shape)
        for i, j in (*contract, *batch):
            common = self._common([a_shape[i], b_shape[j]])
            a_shape[i], b_shape[j] = common, common
        a, b = self.retyped(a, a_shape), self.retyped(b, b_shape)
        op = nn.DotGeneralOp(a.value, b.value, contract, batch)
        return self.add(op, kind_of(nn.element(op.y)))

    def gather(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """Return rows of `x` along `axis`; negative indices count from the end."""
        return self.add(
            nn.GatherOp(x.value, self.from_start(indices, x.shape[axis]).value, axis), x.kind
        )

    def from_start(self, indices: Tensor, extent: Dim) -> Tensor:
        """Return indices in which those below 0 are counted from the end of an extent."""
        size = self.reshape(self.extents([extent], indices.kind), [])
        negative = self.compare("lt", indices, self.like(0, indices))
        return self.select(negative, self.binary(nn.AddOp, indices, size), indices)


def element_of(kind: Kind) -> Attribute:
    """Return the element type of tensors that hold a kind."""
    if kind.element is not None:
        return kind.element
    if kind.is_text:
        return i64
    return i8 if kind.name.startswith("int") else ui8


def is_bound(name: str) -> bool:
    """Whether a symbol is of those that are given values while the model runs."""
    return re.fullmatch(r"n\d+", name) is not None


def kind_of(element: Attribute) -> Kind:
    """Return the kind that tensors of an element type hold."""
    return next(kind for kind in KINDS.values() if kind.element == element)


def _same(a: Any, b: Any) -> bool:
    if a == b:
        return math.copysign(1, a) == math.copysign(1, b) if isinstance(a, float) else True
    return bool(np.isnan(a) and np.isnan(b))


def _splat(x: Tensor) -> Attribute | None:
    """Return the number that all elements of a constant are."""
    op = x.value.owner
    if not isinstance(op, nn.ConstantOp) or isinstance(op.value, DenseIntOrFPElementsAttr):
        return None
    return op.value
