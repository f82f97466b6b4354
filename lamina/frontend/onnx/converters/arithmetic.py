"""Operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import numpy as np
from xdsl.ir import Operation, SSAValue

from lamina.dialects import nn
from lamina.frontend.onnx.kinds import BOOL, BY_NAME, FLOAT, KINDS, POWERS, STRING
from lamina.frontend.onnx.node import NeedsValueError, Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Known, Tensor

Unary = Callable[[SSAValue], Operation]
Binary = Callable[[SSAValue, SSAValue], Operation]

_UNARY: Final[dict[str, Unary]] = {
    "Abs": nn.AbsOp,
    "Acos": nn.AcosOp,
    "Acosh": nn.AcoshOp,
    "Asin": nn.AsinOp,
    "Asinh": nn.AsinhOp,
    "Atan": nn.AtanOp,
    "Atanh": nn.AtanhOp,
    "Ceil": nn.CeilOp,
    "Cos": nn.CosOp,
    "Cosh": nn.CoshOp,
    "Erf": nn.ErfOp,
    "Exp": nn.ExpOp,
    "Floor": nn.FloorOp,
    "Log": nn.LogOp,
    "Neg": nn.NegOp,
    "Relu": nn.ReluOp,
    "Round": nn.RoundOp,
    "Sigmoid": nn.SigmoidOp,
    "Sin": nn.SinOp,
    "Sinh": nn.SinhOp,
    "Sqrt": nn.SqrtOp,
    "Tan": nn.TanOp,
    "Tanh": nn.TanhOp,
}

_BINARY: Final[dict[str, Binary]] = {
    "Add": nn.AddOp,
    "And": nn.AndOp,
    "BitwiseAnd": nn.AndOp,
    "BitwiseOr": nn.OrOp,
    "BitwiseXor": nn.XorOp,
    "Div": nn.DivOp,
    "Mul": nn.MulOp,
    "Or": nn.OrOp,
    "Sub": nn.SubOp,
    "Xor": nn.XorOp,
}

_COMPARED: Final = {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
}

_FOLDED: Final[dict[str, Binary]] = {"Max": nn.MaxOp, "Min": nn.MinOp, "Sum": nn.AddOp}


@converts(*_UNARY)
def unary(node: Node) -> Tensor:
    """An operation on each element."""
    x = node.x()
    if node.op == "Relu" and x.kind.is_integer:
        return node.scaled(nn.MaxOp, x, 0)
    return node.unary(_UNARY[node.op], x)


@converts(*_BINARY)
def binary(node: Node) -> Tensor:
    """An operation on pairs of elements."""
    return node.binary(_BINARY[node.op], node.x(0), node.x(1))


@converts(*_COMPARED)
def compared(node: Node) -> Tensor:
    """A comparison of pairs of elements."""
    return node.compare(_COMPARED[node.op], node.x(0), node.x(1))


@converts(*_FOLDED)
def folded(node: Node) -> Tensor:
    """An operation on elements of any number of tensors."""
    return reduce(lambda a, b: node.binary(_FOLDED[node.op], a, b), node.xs())


@converts("Mean")
def mean(node: Node) -> Tensor:
    """The mean of elements of any number of tensors."""
    total = reduce(lambda a, b: node.binary(nn.AddOp, a, b), node.xs())
    return node.scaled(nn.DivOp, total, len(node.inputs))


@converts("Not")
def inverted(node: Node) -> Tensor:
    """Whether a boolean is false."""
    return node.scaled(nn.XorOp, node.x(), 1)


@converts("BitwiseNot")
def bitwise_not(node: Node) -> Tensor:
    """All bits turned round."""
    x = node.x()
    ones = (1 << x.kind.bits) - 1 if x.kind.is_unsigned else -1
    return node.binary(nn.XorOp, x, node.like(ones, x))


@converts("Mod")
def modulo(node: Node) -> Tensor:
    """A remainder: with the sign of the divisor, or of the dividend with `fmod`."""
    a, b = node.broadcast(node.x(0), node.x(1))
    rest = node.add(nn.ModOp(a.value, b.value), a.kind)
    if node.get_int("fmod", 0) or a.kind.is_unsigned:
        return rest
    zero = node.like(0, rest)
    differ = node.binary(nn.XorOp, node.compare("lt", rest, zero), node.compare("lt", b, zero))
    wrong = node.binary(nn.AndOp, differ, node.compare("ne", rest, zero))
    return node.select(wrong, node.binary(nn.AddOp, rest, b), rest)


@converts("Pow")
def power(node: Node) -> Tensor:
    """A power: common ones by products and roots, others in f32 where they are of integers."""
    x, y = node.x(0), node.value(1)
    if isinstance(y, Known) and y.is_plain and y.array.size == 1:
        exponent = float(y.array.ravel()[0])
        found = _simple_power(node, x, exponent)
        if found is not None:
            return node.broadcast_to(found, node.common_shape([x.shape, y.shape]))
    wide = FLOAT if not x.kind.is_float else x.kind
    raised = node.binary(nn.PowOp, node.cast(x, wide), node.cast(node.tensor(y), wide))
    return node.cast(raised, x.kind)


def _simple_power(node: Node, x: Tensor, exponent: float) -> Tensor | None:
    if exponent == 1:
        return x
    if exponent in (2, 3):
        square = node.binary(nn.MulOp, x, x)
        return square if exponent == 2 else node.binary(nn.MulOp, square, x)
    if exponent == 0.5 and x.kind.is_float:
        return node.unary(nn.SqrtOp, x)
    return None


@converts("Reciprocal")
def reciprocal(node: Node) -> Tensor:
    """One divided by each element."""
    x = node.x()
    return node.binary(nn.DivOp, node.like(1, x), x)


@converts("Sign")
def sign(node: Node) -> Tensor:
    """-1, 0 or 1; NaN stays."""
    x = node.x()
    zero = node.like(0, x)
    negative = zero if x.kind.is_unsigned else node.like(-1, x)
    found = node.select(node.compare("lt", x, zero), negative, x)
    return node.select(node.compare("gt", x, zero), node.like(1, x), found)


@converts("Identity")
def identity(node: Node) -> Any:
    """The value itself."""
    return node.inputs[0]


@converts("Dropout", since=7)
def dropout(node: Node) -> list[Any]:
    """The value itself, and a mask of which all is kept; when training, the host drops some."""
    if node.version >= 12 and node.has(2) and bool(node.number(2)) and node.number(1, 0.5) != 0:
        raise NeedsValueError(f"{node.where}: what is dropped is drawn as it runs", 2)
    x = node.x()
    return [x, node.full(1, BOOL, x.shape)]


@converts("Where")
def where(node: Node) -> Tensor:
    """One of two elements, by a mask."""
    return node.select(node.x(0), node.x(1), node.x(2))


@converts("Clip", since=6)
def clip_fixed(node: Node) -> Tensor:
    """Elements cut to bounds that are attributes."""
    x = node.x()
    low, high = node.get_float("min", -math.inf), node.get_float("max", math.inf)
    x = x if low == -math.inf else node.scaled(nn.MaxOp, x, low)
    return x if high == math.inf else node.scaled(nn.MinOp, x, high)


@converts("Clip", since=11)
def clip(node: Node) -> Tensor:
    """Elements cut to bounds that are inputs; a bound of NaN is none."""
    x = node.x()
    for index, make, kind in ((1, nn.MaxOp, "lt"), (2, nn.MinOp, "gt")):
        if not node.has(index):
            continue
        value = node.value(index)
        if isinstance(value, Known) and value.is_plain and value.array.size == 1:
            number = value.array.ravel()[0]
            x = x if np.isnan(number) else node.scaled(make, x, number)
        else:
            bound = node.broadcast_to(node.reshape(node.tensor(value), []), x.shape)
            x = node.select(node.compare(kind, x, bound), bound, x)
    return x


@converts("Cast", "CastLike")
def cast(node: Node) -> Tensor:
    """Elements of another type."""
    kind = node.get_kind("to") if node.op == "Cast" else node.value(1).kind
    x = node.x()
    if kind.is_text != x.kind.is_text:
        raise NeedsValueError(f"{node.where}: a cast from {x.kind.name} to {kind.name}", 0)
    saturate = bool(node.get_int("saturate", 1))
    if kind == POWERS and (not saturate or node.get_text("round_mode", "up") != "up"):
        raise node.refuse("a cast to float8e8m0 but up, and saturated,")
    return node.cast(x, kind, saturate=saturate)


@converts("IsNaN")
def is_nan(node: Node) -> Tensor:
    """Whether elements are NaN."""
    x = _number(node, node.x())
    return node.compare("ne", x, x)


def _number(node: Node, x: Tensor) -> Tensor:
    """Return floats of a byte or less as numbers."""
    return node.cast(x, FLOAT) if x.kind.code is not None else x


@converts("IsInf")
def is_infinite(node: Node) -> Tensor:
    """Whether elements are infinite, of either sign."""
    x = _number(node, node.x())
    signs = [
        sign * math.inf
        for sign, name in ((1, "detect_positive"), (-1, "detect_negative"))
        if node.get_int(name, 1)
    ]
    if not signs:
        return node.full(0, BOOL, x.shape)
    found = [node.compare("eq", x, node.like(each, x)) for each in signs]
    return reduce(lambda a, b: node.binary(nn.OrOp, a, b), found)


# Activations


@converts("LeakyRelu", "ThresholdedRelu", "Elu", "Selu", "Celu")
def bent(node: Node) -> Tensor:
    """Activations that differ below and above 0."""
    given = node.x()
    x = node.cast(given, FLOAT) if given.kind.bits == 16 else given
    return node.cast(_bent(node, x), given.kind)


def _bent(node: Node, x: Tensor) -> Tensor:
    zero = node.like(0, x)
    positive = node.compare("gt", x, zero)
    if node.op == "LeakyRelu":
        return node.select(
            node.compare("lt", x, zero), node.scaled(nn.MulOp, x, node.get_float("alpha", 0.01)), x
        )
    if node.op == "ThresholdedRelu":
        above = node.compare("gt", x, node.like(node.get_float("alpha", 1.0), x))
        return node.select(above, x, zero)
    alpha = node.get_float("alpha", 1.6732632423543772 if node.op == "Selu" else 1.0)
    inner = node.scaled(nn.DivOp, x, alpha) if node.op == "Celu" else x
    below = node.scaled(nn.SubOp, node.unary(nn.ExpOp, inner), 1)
    below = node.scaled(nn.MulOp, below, alpha)
    y = node.select(positive, x, below)
    if node.op == "Selu":
        y = node.scaled(nn.MulOp, y, node.get_float("gamma", 1.0507009873554805))
    return y


@converts("PRelu")
def prelu(node: Node) -> Tensor:
    """Elements below 0 times a slope."""
    x = node.x()
    slope = node.broadcast_to(node.x(1), x.shape)
    below = node.binary(nn.MulOp, x, slope)
    return node.select(node.compare("lt", x, node.like(0, x)), below, x)


@converts("HardSigmoid")
def hard_sigmoid(node: Node) -> Tensor:
    """A line cut to [0, 1]."""
    x = node.scaled(nn.MulOp, node.x(), node.get_float("alpha", 0.2))
    x = node.scaled(nn.AddOp, x, node.get_float("beta", 0.5))
    return node.scaled(nn.MinOp, node.scaled(nn.MaxOp, x, 0), 1)


@converts("HardSwish")
def hard_swish(node: Node) -> Tensor:
    """Elements times a line cut to [0, 1]."""
    x = node.x()
    line = node.scaled(nn.AddOp, node.scaled(nn.MulOp, x, 1 / 6), 0.5)
    line = node.scaled(nn.MinOp, node.scaled(nn.MaxOp, line, 0), 1)
    return node.binary(nn.MulOp, x, line)


@converts("Softplus")
def softplus(node: Node) -> Tensor:
    """log(1 + e^x), without overflow."""
    return _softplus(node, node.x())


def _softplus(node: Node, x: Tensor) -> Tensor:
    far = node.unary(nn.NegOp, node.unary(nn.AbsOp, x))
    tail = node.unary(nn.LogOp, node.scaled(nn.AddOp, node.unary(nn.ExpOp, far), 1))
    return node.binary(nn.AddOp, node.scaled(nn.MaxOp, x, 0), tail)


@converts("Mish")
def mish(node: Node) -> Tensor:
    """X tanh(softplus x)."""
    x = node.x()
    return node.binary(nn.MulOp, x, node.unary(nn.TanhOp, _softplus(node, x)))


@converts("Softsign")
def softsign(node: Node) -> Tensor:
    """x / (1 + |x|)."""
    x = node.x()
    return node.binary(nn.DivOp, x, node.scaled(nn.AddOp, node.unary(nn.AbsOp, x), 1))


@converts("Shrink")
def shrink(node: Node) -> Tensor:
    """Elements near 0 made 0, the others moved towards it."""
    x = node.x() if node.value(0).kind.is_float else node.cast(node.x(), BY_NAME["double"])
    bias, limit = node.get_float("bias", 0.0), node.get_float("lambd", 0.5)
    y = node.select(
        node.compare("lt", x, node.like(-limit, x)), node.scaled(nn.AddOp, x, bias), node.like(0, x)
    )
    y = node.select(node.compare("gt", x, node.like(limit, x)), node.scaled(nn.SubOp, x, bias), y)
    return node.cast(y, node.value(0).kind)


@converts("Gelu", since=20)
@converts("Gelu", "FastGelu", domain=MICROSOFT)
def gelu(node: Node) -> Tensor:
    """Gaussian error linear units, exact or by tanh."""
    x = node.x()
    if node.op == "FastGelu" and node.has(1):
        x = node.binary(nn.AddOp, x, node.x(1))
    tanh = node.op == "FastGelu" or node.get_text("approximate", "none") == "tanh"
    return node.add(nn.GeluOp(x.value, approximate=tanh), x.kind)


@converts("Swish")
def swish(node: Node) -> Tensor:
    """X sigmoid(alpha x)."""
    x = node.x()
    alpha = node.get_float("alpha", 1.0)
    if alpha == 1:
        return node.unary(nn.SiluOp, x)
    return node.binary(nn.MulOp, x, node.unary(nn.SigmoidOp, node.scaled(nn.MulOp, x, alpha)))


@converts("Constant")
def constant(node: Node) -> Known:
    """A value that the node has itself."""
    from lamina.frontend.onnx.tensors import TensorReader

    forms: dict[str, Callable[[], Any]] = {
        "value_float": lambda: np.array(node.get_float("value_float"), np.float32),
        "value_floats": lambda: np.array(node.get_floats("value_floats"), np.float32),
        "value_int": lambda: np.array(node.get_int("value_int"), np.int64),
        "value_ints": lambda: np.array(node.get_ints("value_ints"), np.int64),
    }
    for name, read in forms.items():
        if node.given(name):
            return Known(read(), KINDS[1] if "float" in name else KINDS[7])
    for name in ("value_string", "value_strings"):
        if node.given(name):
            given = node.attribute(name)
            texts = [given.s] if name == "value_string" else given.strings
            found = np.array([n.decode("utf-8", "surrogateescape") for n in texts], np.object_)
            return Known(found.reshape(()) if name == "value_string" else found, STRING)
    if node.given("sparse_value"):
        raise node.refuse("a sparse tensor")
    proto = node.attribute("value").t
    reader = TensorReader(node.where, None)
    return Known(reader.array(proto, "value")[0], reader.kind(proto.data_type, "value"))
