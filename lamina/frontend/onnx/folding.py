"""What nodes give whose inputs are known: integers that shapes depend on, extents among them.

Only whole numbers and booleans are folded, and numbers with a point that came out of them or
were given as a few elements; the rest is computed by the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lamina.dialects.bounds import proves_at_most
from lamina.dialects.dims import Dim, product
from lamina.frontend.model import MOST_READ
from lamina.frontend.onnx.kinds import BOOL, INT64, KINDS, Kind, kind_of_array
from lamina.frontend.onnx.node import NeedsValueError, Node
from lamina.frontend.onnx.values import Array, Known, Several, Value, known_dims, known_integers

Elements = npt.NDArray[Any]
Fold = Callable[[Node, list[Known]], Elements | Known | None]


_FALSE, _TRUE = Dim.of(0), Dim.of(1)


class _UndecidedError(Exception):
    """What is asked of extents depends on their values."""


def fold(node: Node) -> Sequence[Value] | None:
    """Return the outputs of a node whose inputs are known, as far as that is possible."""
    if node.has(0) and (alone := _of_first(node)) is not None:
        return [alone]
    found = _FOLDS.get(node.op)
    inputs = [value for value in node.inputs if value is not None]
    if found is None or not inputs or len(node.proto.output) != 1:
        return None
    known = [value for value in inputs if isinstance(value, Known) and value.kind.bits]
    if len(known) != len(inputs):
        return None
    try:
        result = found(node, known)
    except (
        _UndecidedError,
        NeedsValueError,
        IndexError,
        ValueError,
        ZeroDivisionError,
        TypeError,
    ):
        return None
    if result is None or isinstance(result, Known):
        return None if result is None else [result]
    return None if result.size > MOST_READ else [_known(node, result, known)]


def _known(node: Node, elements: Elements, inputs: list[Known]) -> Known:
    if elements.dtype == np.bool_:
        return Known(elements, BOOL)
    kind = inputs[-1].kind if node.op == "Where" else inputs[0].kind
    if elements.dtype == np.object_:
        return known_integers(elements, kind)
    return Known(elements.astype(kind.dtype, copy=False), kind)


def _of_first(node: Node) -> Known | None:
    """Return what needs no more than the first input, or just the kinds of others."""
    if node.op in ("Shape", "Size"):
        return _shape(node) if node.op == "Shape" else _size(node)
    if node.op == "CastLike" and node.has(1) and isinstance(x := node.value(0), Known):
        return _as_kind(x, node.value(1).kind)
    return None


def _shape(node: Node) -> Known:
    shape = node.value(0).shape
    rank = len(shape)
    first, last = (node.get_int("start", 0), node.get_int("end", rank))
    first, last = (min(max(n + rank if n < 0 else n, 0), rank) for n in (first, last))
    return known_dims(shape[first:last])


def _size(node: Node) -> Known:
    return known_integers(np.array(product(node.value(0).shape), np.object_), INT64)


# Integers as Python's, or as extents


def _objects(value: Known) -> Elements:
    """Return elements as Python integers, extents or floats."""
    if value.array.dtype == np.object_:
        return value.array
    found = np.empty(value.array.shape, np.object_)
    found[...] = value.array.tolist()
    return found


def _mapped(function: Callable[..., Any]) -> Fold:
    """Return a fold that puts `function` to elements, broadcast."""
    each = np.frompyfunc(function, 2, 1)

    def run(node: Node, inputs: list[Known]) -> Elements | None:
        if any(value.kind.is_float for value in inputs):
            return None
        return reduce(lambda a, b: _array(each(a, b)), map(_objects, inputs))

    return run


def _array(value: Any) -> Elements:
    if isinstance(value, np.ndarray):
        return value  # pyright: ignore[reportUnknownVariableType]
    found = np.empty((), np.object_)
    found[()] = value
    return found


def _compared(function: Callable[[Any, Any], Any]) -> Fold:
    def run(node: Node, inputs: list[Known]) -> Elements | Known:
        if all(value.is_plain for value in inputs):
            a, b = (value.array for value in inputs)
            return np.asarray(_PLAIN[node.op](a, b))
        a, b = map(_objects, inputs)
        return _truths(_array(np.frompyfunc(function, 2, 1)(a, b)))

    return run


def _truths(elements: Elements) -> Known:
    """Return booleans; what extents decide is 1 or 0, as an extent."""
    return known_integers(elements, BOOL)


_PLAIN: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
}


def _equal(a: Any, b: Any) -> Dim:
    """Return 1 where two integers are equal, else 0."""
    a, b = (Dim.of(int(n) if isinstance(n, bool) else n) for n in (a, b))
    if a == b:
        return _TRUE
    if proves_at_most(a + 1, b) or proves_at_most(b + 1, a):
        return _FALSE
    return (_TRUE - (a - b).maximum(b - a)).maximum(_FALSE)


def _less(a: Any, b: Any) -> Dim:
    """Return 1 where an integer is below another, else 0."""
    a, b = Dim.of(a), Dim.of(b)
    if proves_at_most(a + 1, b):
        return _TRUE
    return _FALSE if proves_at_most(b, a) else (b - a).maximum(_FALSE).minimum(_TRUE)


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, Dim) or isinstance(b, Dim):
        a, b = Dim.of(a), Dim.of(b)
        if b.constant == 1:
            return a
        if not (proves_at_most(Dim.of(0), a) and proves_at_most(Dim.of(1), b)):
            raise _UndecidedError
        return a // b
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(node: Node, inputs: list[Known]) -> Elements | Known | None:
    truncated = bool(node.get_int("fmod", 0))

    def each(a: Any, b: Any) -> Any:
        if isinstance(a, Dim) or isinstance(b, Dim):
            if not (proves_at_most(Dim.of(0), Dim.of(a)) and proves_at_most(Dim.of(1), Dim.of(b))):
                raise _UndecidedError
            return Dim.of(a) % b
        if b == 0:
            return 0
        return a - b * _divide(a, b) if truncated else a % b

    return _mapped(each)(node, inputs)


def _extreme(name: str) -> Fold:
    def each(a: Any, b: Any) -> Any:
        a, b = Dim.of(a), Dim.of(b)
        low, high = (a, b) if name == "minimum" else (b, a)
        if proves_at_most(low, high):
            return a
        return b if proves_at_most(high, low) else getattr(a, name)(b)

    return _mapped(each)


def _where(node: Node, inputs: list[Known]) -> Elements:
    mask, a, b = inputs
    if not mask.is_plain:
        raise _UndecidedError
    shape = np.broadcast_shapes(mask.array.shape, a.array.shape, b.array.shape)
    plain = a.is_plain and b.is_plain
    left, right = (v.array if plain else _objects(v) for v in (a, b))
    found = np.empty(shape, left.dtype)
    found[...] = right
    chosen = np.broadcast_to(mask.array.astype(np.bool_), shape)
    found[chosen] = np.broadcast_to(left, shape)[chosen]
    return found


# Moves


def _cast(node: Node, inputs: list[Known]) -> Known | None:
    kind = node.get_kind("to")
    (x,) = inputs
    return _as_kind(x, kind)


def _as_kind(x: Known, kind: Kind) -> Known | None:
    if kind.element is None or x.kind.element is None:
        return None
    if not x.is_plain and kind == BOOL:
        return x if x.kind == BOOL else _truths(_array(_differs(x.array)))
    if not x.is_plain:
        return Known(x.array, kind) if kind.is_integer and kind.bits >= 32 else None
    if kind == BOOL or kind.is_float:
        return Known(x.array != 0 if kind == BOOL else x.array.astype(kind.dtype), kind)
    if not x.kind.is_float:
        return known_integers(_objects(x), kind)
    whole = np.trunc(x.array.astype(np.float64))
    fits = np.isfinite(whole).all() and (np.abs(whole) < 2.0 ** (kind.bits - 1)).all()
    return Known(whole.astype(kind.dtype), kind) if fits else None


def _gather(node: Node, inputs: list[Known]) -> Elements:
    x, indices = inputs
    axis = node.axis(node.get_int("axis", 0), x.array.ndim)
    return _array(np.take(x.array, indices.array.astype(np.int64), axis))


def _slice(node: Node, inputs: list[Known]) -> Elements | None:
    x = inputs[0].array
    if node.version < 10:
        starts, ends = node.get_ints("starts"), node.get_ints("ends")
        axes, steps = node.get_ints("axes", range(len(starts))), [1] * len(starts)
    else:
        starts, ends = node.integers(1), node.integers(2)
        axes = node.integers(3) if node.has(3) else list(range(len(starts)))
        steps = node.integers(4) if node.has(4) else [1] * len(starts)
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        last: int | None = end
        if step < 0 and end < -x.shape[axis]:
            last = None
        index[node.axis(axis, x.ndim)] = slice(start, last, step)
    return x[tuple(index)]


def _concat(node: Node, inputs: list[Known]) -> Elements:
    plain = all(value.is_plain for value in inputs)
    parts = [value.array if plain else _objects(value) for value in inputs]
    return np.concatenate(parts, node.get_int("axis"))


def _squeeze(node: Node, inputs: list[Known]) -> Elements:
    x = inputs[0].array
    axes = node.axes(1, x.ndim)
    return np.squeeze(x, None if axes is None else tuple(axes))


def _unsqueeze(node: Node, inputs: list[Known]) -> Elements | None:
    x = inputs[0].array
    count = len(node.get_ints("axes")) if node.given("axes") else inputs[1].array.size
    axes = node.axes(1, x.ndim + count)
    return None if axes is None else np.expand_dims(x, tuple(axes))


def _reshape(node: Node, inputs: list[Known]) -> Elements:
    x, shape = inputs[0].array, node.integers(1)
    if not node.get_int("allowzero", 0):
        shape = [x.shape[i] if n == 0 else n for i, n in enumerate(shape)]
    return x.reshape(shape)


def _transpose(node: Node, inputs: list[Known]) -> Elements:
    x = inputs[0].array
    return x.transpose(node.get_ints("perm", range(x.ndim)[::-1]))


def _expand(node: Node, inputs: list[Known]) -> Elements:
    x, shape = inputs[0].array, node.integers(1)
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))


def _range(node: Node, inputs: list[Known]) -> Elements | None:
    start, limit, delta = (value.array.item() for value in inputs)
    if isinstance(limit, Dim) or isinstance(start, Dim) or isinstance(delta, Dim):
        return None
    count = max(0, int(np.ceil((limit - start) / delta)))
    if count > MOST_READ:
        return None
    return np.array([start + i * delta for i in range(count)], inputs[0].kind.dtype)


def _constant_of_shape(node: Node, inputs: list[Known]) -> Known | None:
    shape = node.integers(0)
    if any(n < 0 for n in shape) or np.prod(shape, dtype=object) > MOST_READ:
        return None
    value = node.attribute("value").t if node.given("value") else None
    if value is None:
        return Known(np.zeros(shape, np.float32), KINDS[1])
    from lamina.frontend.onnx.tensors import TensorReader

    array, _ = TensorReader(node.where, None).array(value, "value")
    return Known(np.full(shape, array.ravel()[0]), kind_of_array(array))


def _identity(node: Node, inputs: list[Known]) -> Known:
    return inputs[0]


def _reduced(function: Callable[[Any, Any], Any]) -> Fold:
    def run(node: Node, inputs: list[Known]) -> Elements | None:
        x = inputs[0]
        axes = node.axes(1, x.array.ndim)
        if x.kind.is_float or (axes is not None and axes != list(range(x.array.ndim))):
            return None
        total = reduce(function, _objects(x).ravel().tolist())
        found = _array(total)
        return found.reshape([1] * x.array.ndim) if node.get_int("keepdims", 1) else found

    return run


def _unary(function: Callable[[Any], Any]) -> Fold:
    def run(node: Node, inputs: list[Known]) -> Elements | None:
        return (
            None
            if inputs[0].kind.is_float
            else _array(np.frompyfunc(function, 1, 1)(_objects(inputs[0])))
        )

    return run


def _float_unary(function: Callable[[Any], Any]) -> Fold:
    def run(node: Node, inputs: list[Known]) -> Elements | None:
        x = inputs[0]
        return function(x.array) if x.kind.is_float and x.array.size == 1 else None

    return run


_differs = np.frompyfunc(lambda n: _TRUE - _equal(n, 0), 1, 1)
_negated = np.frompyfunc(lambda n: _TRUE - Dim.of(int(n) if isinstance(n, bool) else n), 1, 1)


def _not(node: Node, inputs: list[Known]) -> Elements | Known:
    (x,) = inputs
    return ~x.array if x.is_plain else _truths(_array(_negated(x.array)))


def _logical(function: Callable[[Any, Any], Any]) -> Fold:
    """Return a fold of booleans; such as extents decide are left to the graph."""

    def run(node: Node, inputs: list[Known]) -> Elements | None:
        plain = all(value.is_plain for value in inputs)
        return function(inputs[0].array, inputs[1].array) if plain else None

    return run


def _either(integers: Fold, floats: Callable[[Any, Any], Any]) -> Fold:
    """Fold integers, and single numbers with a point."""

    def run(node: Node, inputs: list[Known]) -> Elements | Known | None:
        if inputs[0].kind.is_float:
            few = len(inputs) == 2 and all(value.array.size == 1 for value in inputs)
            with np.errstate(all="ignore"):
                return np.asarray(floats(*(v.array for v in inputs))) if few else None
        return integers(node, inputs)

    return run


_FOLDS: Final[dict[str, Fold]] = {
    "Abs": _unary(lambda a: a if isinstance(a, Dim) else abs(a)),
    "Add": _either(_mapped(operator.add), operator.add),
    "And": _logical(np.logical_and),
    "Cast": _cast,
    "Ceil": _float_unary(np.ceil),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _either(_mapped(_divide), lambda a, b: a / b),
    "Equal": _compared(_equal),
    "Expand": _expand,
    "Floor": _float_unary(np.floor),
    "Gather": _gather,
    "Greater": _compared(lambda a, b: _less(b, a)),
    "GreaterOrEqual": _compared(lambda a, b: _TRUE - _less(a, b)),
    "Identity": _identity,
    "Less": _compared(_less),
    "LessOrEqual": _compared(lambda a, b: _TRUE - _less(b, a)),
    "Max": _extreme("maximum"),
    "Min": _extreme("minimum"),
    "Mod": _modulo,
    "Mul": _either(_mapped(operator.mul), operator.mul),
    "Neg": _unary(operator.neg),
    "Not": _not,
    "Or": _logical(np.logical_or),
    "Range": _range,
    "ReduceMax": _reduced(lambda a, b: a.maximum(b) if isinstance(a, Dim) else max(a, b)),
    "ReduceProd": _reduced(operator.mul),
    "ReduceSum": _reduced(operator.add),
    "Reshape": _reshape,
    "Slice": _slice,
    "Sqrt": _float_unary(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _either(_mapped(operator.sub), operator.sub),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
"""What is computed at import, by operator; where a form of one is not, the graph computes it."""


def elements_of(value: Value) -> Elements | None:
    """Return the plain elements of a value that is known, else None."""
    if isinstance(value, Several) or not isinstance(value, Array):
        return None
    return value.array if isinstance(value, Known) and value.is_plain else None
