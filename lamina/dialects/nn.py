"""The `nn` dialect: whole tensor operations with value semantics, and groups of them.

Primitives are a small core; every composite (softmax, norms, rope, attention, …) has a
decomposition into it under `passes/`, which is its meaning. Elementwise operations never
broadcast by themselves: `nn.broadcast` says so. Extents may be symbols (`tensors.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FlatSymbolRefAttrConstr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i1,
    i32,
)
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SymbolOpInterface

from lamina.dialects.dims import Dim, parse_dim
from lamina.dialects.nn_bytes import BitcastOp, DecodeOp, EncodeOp
from lamina.dialects.nn_index import (
    GatherElementsOp,
    GatherNdOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from lamina.dialects.nn_recurrent import RecurrentOp
from lamina.dialects.nn_values import BindOp, ForeignOp
from lamina.dialects.nn_windows import ConvOp, ConvTransposeOp, PoolOp
from lamina.dialects.nn_winograd import WinogradOp
from lamina.dialects.requirements import require
from lamina.dialects.tensors import DimsAttr, extents, tensor
from lamina.dialects.tile import (
    COMPARISONS,
    REDUCTIONS,
    ScheduleAttr,
    ints,
    pair_list,
    pairs,
    values,
)
from lamina.dialects.traits import Elementwise

FUNCTIONAL = "attr-dict `:` functional-type(operands, results)"


def element(value: SSAValue) -> Attribute:
    """Return the element type of a tensor value."""
    return cast("TensorType[Any]", value.type).get_element_type()


class _Unary(IRDLOperation):
    """One tensor in, one of the same type out, element by element."""

    T: ClassVar = VarConstraint("T", TensorType.constr())

    x = operand_def(T)
    y = result_def(T)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), Elementwise())
    assembly_format: ClassVar[str | None] = "$x attr-dict `:` type($x)"

    def __init__(self, x: SSAValue) -> None:
        super().__init__(operands=[x], result_types=[x.type])


class _Binary(IRDLOperation):
    """Two tensors of one type in, one of that type out, element by element."""

    T: ClassVar = VarConstraint("T", TensorType.constr())

    a = operand_def(T)
    b = operand_def(T)
    y = result_def(T)

    traits = traits_def(Pure(), Elementwise())
    assembly_format: ClassVar[str | None] = "$a `,` $b attr-dict `:` type($a)"

    def __init__(self, a: SSAValue, b: SSAValue) -> None:
        super().__init__(operands=[a, b], result_types=[a.type])


@irdl_op_definition
class NegOp(_Unary):
    """`y = -x`."""

    name = "nn.neg"


@irdl_op_definition
class AbsOp(_Unary):
    """`y = |x|`."""

    name = "nn.abs"


@irdl_op_definition
class ExpOp(_Unary):
    """`y = e^x`."""

    name = "nn.exp"


@irdl_op_definition
class LogOp(_Unary):
    """`y = ln x`."""

    name = "nn.log"


@irdl_op_definition
class SqrtOp(_Unary):
    """`y = x^0.5`."""

    name = "nn.sqrt"


@irdl_op_definition
class RsqrtOp(_Unary):
    """`y = x^-0.5`."""

    name = "nn.rsqrt"


@irdl_op_definition
class TanhOp(_Unary):
    """`y = tanh x`."""

    name = "nn.tanh"


@irdl_op_definition
class ErfOp(_Unary):
    """`y = erf x`."""

    name = "nn.erf"


@irdl_op_definition
class SinOp(_Unary):
    """`y = sin x`."""

    name = "nn.sin"


@irdl_op_definition
class CosOp(_Unary):
    """`y = cos x`."""

    name = "nn.cos"


@irdl_op_definition
class TanOp(_Unary):
    """`y = tan x`."""

    name = "nn.tan"


@irdl_op_definition
class AsinOp(_Unary):
    """`y = asin x`; NaN beyond 1."""

    name = "nn.asin"


@irdl_op_definition
class AcosOp(_Unary):
    """`y = acos x`; NaN beyond 1."""

    name = "nn.acos"


@irdl_op_definition
class AtanOp(_Unary):
    """`y = atan x`."""

    name = "nn.atan"


@irdl_op_definition
class SinhOp(_Unary):
    """`y = (e^x - e^-x) / 2`."""

    name = "nn.sinh"


@irdl_op_definition
class CoshOp(_Unary):
    """`y = (e^x + e^-x) / 2`."""

    name = "nn.cosh"


@irdl_op_definition
class AsinhOp(_Unary):
    """`y` with `sinh y = x`."""

    name = "nn.asinh"


@irdl_op_definition
class AcoshOp(_Unary):
    """`y >= 0` with `cosh y = x`; NaN below 1."""

    name = "nn.acosh"


@irdl_op_definition
class AtanhOp(_Unary):
    """`y` with `tanh y = x`; NaN beyond 1."""

    name = "nn.atanh"


@irdl_op_definition
class SignOp(_Unary):
    """`y` is 1, 0 or -1 as x is above, at or below 0; NaN stays."""

    name = "nn.sign"


@irdl_op_definition
class SoftplusOp(_Unary):
    """`y = ln(1 + e^x)`."""

    name = "nn.softplus"


@irdl_op_definition
class FloorOp(_Unary):
    """`y` is the largest integer that is not above `x`."""

    name = "nn.floor"


@irdl_op_definition
class CeilOp(_Unary):
    """`y` is the smallest integer that is not below `x`."""

    name = "nn.ceil"


@irdl_op_definition
class RoundOp(_Unary):
    """`y` is the nearest integer, halves to even."""

    name = "nn.round"


@irdl_op_definition
class ReluOp(_Unary):
    """`y = max(x, 0)`; NaN stays. Composite."""

    name = "nn.relu"


@irdl_op_definition
class SigmoidOp(_Unary):
    """`y = 1 / (1 + e^-x)`. Composite."""

    name = "nn.sigmoid"


@irdl_op_definition
class SiluOp(_Unary):
    """`y = x * sigmoid(x)`. Composite."""

    name = "nn.silu"


@irdl_op_definition
class GeluOp(_Unary):
    """`y = x * (1 + erf(x / sqrt 2)) / 2`, or its tanh form with `approximate`. Composite."""

    name = "nn.gelu"

    approximate = opt_prop_def(UnitAttr)

    def __init__(self, x: SSAValue, *, approximate: bool = False) -> None:
        IRDLOperation.__init__(
            self,
            operands=[x],
            properties={"approximate": UnitAttr()} if approximate else {},
            result_types=[x.type],
        )


@irdl_op_definition
class AddOp(_Binary):
    """`y = a + b`; integers wrap."""

    name = "nn.add"


@irdl_op_definition
class SubOp(_Binary):
    """`y = a - b`; integers wrap."""

    name = "nn.sub"


@irdl_op_definition
class MulOp(_Binary):
    """`y = a * b`; integers wrap."""

    name = "nn.mul"


@irdl_op_definition
class DivOp(_Binary):
    """`y = a / b`; integers truncate towards zero, and division by zero gives 0."""

    name = "nn.div"


@irdl_op_definition
class ModOp(_Binary):
    """`y = a - b * trunc(a / b)`, which has the sign of a; for integers, 0 where `b` is 0.

    With `floor` rounded down instead, so that y has the sign of b:

    %y = nn.mod %a, %b {floor} : tensor<4xi32>
    """

    name = "nn.mod"

    floor = opt_prop_def(UnitAttr)

    irdl_options = (ParsePropInAttrDict(),)

    def __init__(self, a: SSAValue, b: SSAValue, *, floor: bool = False) -> None:
        IRDLOperation.__init__(
            self,
            operands=[a, b],
            properties={"floor": UnitAttr()} if floor else {},
            result_types=[a.type],
        )


@irdl_op_definition
class PowOp(_Binary):
    """`y = a ^ b`; integers wrap, and to a power below 0 they are 1, -1 or 0."""

    name = "nn.pow"


@irdl_op_definition
class MaxOp(_Binary):
    """The larger of `a` and `b`; NaN if either is."""

    name = "nn.max"


@irdl_op_definition
class MinOp(_Binary):
    """The smaller of `a` and `b`; NaN if either is."""

    name = "nn.min"


@irdl_op_definition
class AndOp(_Binary):
    """Bitwise and, of integers."""

    name = "nn.and"


@irdl_op_definition
class OrOp(_Binary):
    """Bitwise or, of integers."""

    name = "nn.or"


@irdl_op_definition
class XorOp(_Binary):
    """Bitwise exclusive or, of integers."""

    name = "nn.xor"


@irdl_op_definition
class ShlOp(_Binary):
    """`a` shifted left by `b` bits; 0 from the width on."""

    name = "nn.shl"


@irdl_op_definition
class ShrOp(_Binary):
    """`a` as unsigned, shifted right by `b` bits; 0 from the width on."""

    name = "nn.shr"


@irdl_op_definition
class CompareOp(IRDLOperation):
    """`y = a kind b` as i1: eq ne lt le gt ge; with NaN only `ne` holds.

    %y = nn.compare %a, %b {kind = "lt"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    """

    name = "nn.compare"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    kind = prop_def(StringAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), Elementwise())
    assembly_format = f"$a `,` $b {FUNCTIONAL}"

    def __init__(self, kind: str, a: SSAValue, b: SSAValue) -> None:
        super().__init__(
            operands=[a, b],
            properties={"kind": StringAttr(kind)},
            result_types=[tensor(i1, extents(a.type))],
        )

    def verify_(self) -> None:
        """Check kind and shapes."""
        require(self.kind.data in COMPARISONS, f"compare {self.kind.data!r}: one of {COMPARISONS}")
        require(self.a.type == self.b.type, f"compare {self.a.type} with {self.b.type}")
        require(self.y.type == tensor(i1, extents(self.a.type)), f"result is {self.y.type}")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`y = c ? a : b`, element by element."""

    name = "nn.select"

    c = operand_def(TensorType)
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure(), Elementwise())
    assembly_format = f"$c `,` $a `,` $b {FUNCTIONAL}"

    def __init__(self, c: SSAValue, a: SSAValue, b: SSAValue) -> None:
        super().__init__(operands=[c, a, b], result_types=[a.type])

    def verify_(self) -> None:
        """Check types."""
        require(self.a.type == self.b.type == self.y.type, "select of differing types")
        require(self.c.type == tensor(i1, extents(self.a.type)), f"mask is {self.c.type}")


class _Map(IRDLOperation):
    """One tensor `x` in, one tensor `y` out, properties in the dictionary."""

    x = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format: ClassVar[str | None] = f"$x {FUNCTIONAL}"


@irdl_op_definition
class CastOp(_Map):
    """Convert elements; float to integer truncates, saturates, and gives 0 for NaN."""

    name = "nn.cast"

    traits = traits_def(Pure(), Elementwise())

    def __init__(self, x: SSAValue, to: Attribute) -> None:
        super().__init__(operands=[x], result_types=[tensor(to, extents(x.type))])

    def verify_(self) -> None:
        """Check that the shape stays."""
        require(extents(self.x.type) == extents(self.y.type), "a cast keeps its shape")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A tensor of one value, of any shape; or the listed values (at most 1,024).

    %y = nn.constant {value = 1.000000e+00 : f32} : tensor<?x4xf32, #nn.dims<["T"]>>
    """

    name = "nn.constant"

    value = prop_def(FloatAttr | IntegerAttr | DenseIntOrFPElementsAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($y)"

    def __init__(self, value: Attribute, type: Attribute) -> None:
        super().__init__(properties={"value": value}, result_types=[type])

    def verify_(self) -> None:
        """Check element type, and the size of a listed constant."""
        if isinstance(self.value, DenseIntOrFPElementsAttr):
            listed = cast("DenseIntOrFPElementsAttr[Any]", self.value)
            require(len(listed) <= 1024, "a constant has at most 1,024 elements")
            require(listed.get_type() == self.y.type, f"result is {self.y.type}")
        else:
            value = cast("FloatAttr[Any] | IntegerAttr[Any]", self.value)
            require(value.type == element(self.y), f"{value} in {self.y.type}")


@irdl_op_definition
class IotaOp(IRDLOperation):
    """`y[…, i, …] = i` along `dim`."""

    name = "nn.iota"

    dim = prop_def(IntegerAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($y)"

    def __init__(self, dim: int, type: Attribute) -> None:
        super().__init__(properties={"dim": IntegerAttr(dim, 64)}, result_types=[type])

    def verify_(self) -> None:
        """Check the dimension."""
        require(0 <= self.dim.value.data < len(extents(self.y.type)), "no such dimension")


@irdl_op_definition
class ExtentsOp(IRDLOperation):
    """The extents `dims` as integers: a list of them, or the one as a scalar.

    %y = nn.extents {dims = ["T + 1", "4"]} : tensor<2xi64>
    """

    name = "nn.extents"

    dims = prop_def(ArrayAttr[StringAttr])
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($y)"

    def __init__(self, dims: Sequence[Dim | int], type: Attribute) -> None:
        names = ArrayAttr([StringAttr(str(Dim.of(dim))) for dim in dims])
        super().__init__(properties={"dims": names}, result_types=[type])

    @property
    def extents(self) -> tuple[Dim, ...]:
        """The extents, in order."""
        return tuple(parse_dim(dim.data) for dim in self.dims)

    def verify_(self) -> None:
        """Check the shape and the element type."""
        shape, count = extents(self.y.type), len(self.dims)
        require(shape == (count,) or (shape == () and count == 1), f"{count} extents as {shape}")
        require(isinstance(element(self.y), IntegerType), f"extents as {self.y.type}")


@irdl_op_definition
class BroadcastOp(_Map):
    """Repeat `x`: its dimension i is dimension `dims[i]` of `y`, of equal extent or 1."""

    name = "nn.broadcast"

    dims = prop_def(DenseArrayBase)

    def __init__(self, x: SSAValue, dims: Sequence[int], shape: Sequence[Dim | int]) -> None:
        super().__init__(
            operands=[x],
            properties={"dims": ints(dims)},
            result_types=[tensor(element(x), shape)],
        )

    def verify_(self) -> None:
        """Check that kept dimensions agree."""
        x, y, dims = extents(self.x.type), extents(self.y.type), values(self.dims)
        require(len(dims) == len(x) and tuple(sorted(set(dims))) == dims, f"dims {dims} for {x}")
        fits = all(d < len(y) and n in (y[d], Dim.of(1)) for n, d in zip(x, dims, strict=True))
        require(fits, f"{self.x.type} does not broadcast to {self.y.type} over {dims}")


@irdl_op_definition
class ReshapeOp(_Map):
    """The same elements in row order under another shape.

    With `assumed` it is not seen from the extents that the number of elements stays: `@forward`
    says so (`lamina.equal`), and refuses calls in which it is not true.
    """

    name = "nn.reshape"

    assumed = opt_prop_def(UnitAttr)

    def __init__(self, x: SSAValue, shape: Sequence[Dim | int], *, assumed: bool = False) -> None:
        super().__init__(
            operands=[x],
            properties={"assumed": UnitAttr()} if assumed else {},
            result_types=[tensor(element(x), shape)],
        )

    def verify_(self) -> None:
        """Check that the number of elements stays."""
        if self.assumed is not None:
            return
        x, y = Dim.of(1), Dim.of(1)
        for n in extents(self.x.type):
            x = x * n
        for n in extents(self.y.type):
            y = y * n
        require(x == y, f"reshape of {x} elements to {y}")


@irdl_op_definition
class TransposeOp(_Map):
    """`y` has dimension `perm[i]` of `x` as its dimension i."""

    name = "nn.transpose"

    perm = prop_def(DenseArrayBase)

    def __init__(self, x: SSAValue, perm: Sequence[int]) -> None:
        shape = extents(x.type)
        super().__init__(
            operands=[x],
            properties={"perm": ints(perm)},
            result_types=[tensor(element(x), [shape[p] for p in perm])],
        )

    def verify_(self) -> None:
        """Check the permutation."""
        x, perm = extents(self.x.type), values(self.perm)
        require(sorted(perm) == list(range(len(x))), f"perm {perm} of rank {len(x)}")
        require(extents(self.y.type) == tuple(x[p] for p in perm), f"result is {self.y.type}")


@irdl_op_definition
class SliceOp(_Map):
    """`y[i, …] = x[start + step*i, …]`; the result's shape is the extent; starts are extents.

    %y = nn.slice %x {start = ["1"]} : (tensor<5xf32>) -> tensor<4xf32>
    """

    name = "nn.slice"

    start = prop_def(ArrayAttr[StringAttr])
    step = opt_prop_def(DenseArrayBase)

    def __init__(
        self,
        x: SSAValue,
        start: Sequence[Dim | int],
        shape: Sequence[Dim | int],
        step: Sequence[int] = (),
    ) -> None:
        properties: dict[str, Attribute | None] = {
            "start": ArrayAttr([StringAttr(str(Dim.of(s))) for s in start])
        }
        properties |= {"step": ints(step)} if step else {}
        super().__init__(
            operands=[x], properties=properties, result_types=[tensor(element(x), shape)]
        )

    @property
    def starts(self) -> tuple[Dim, ...]:
        """The first index in each dimension."""
        return tuple(parse_dim(s.data) for s in self.start)

    def verify_(self) -> None:
        """Check ranks."""
        rank = len(extents(self.x.type))
        require(len(self.start) == rank == len(extents(self.y.type)), f"slice of rank {rank}")
        require(len(values(self.step)) in (0, rank), f"steps for rank {rank}")


@irdl_op_definition
class PadOp(_Map):
    """`y[i, …] = x[i - low, …]`, and `value` where x has no such element.

    y has `low + n + high` elements in each dimension; `low` and `high` are extents, which may be
    below 0 and then cut off.

    %y = nn.pad %x {low = ["N", "0"], high = ["0", "-1"], value = 0.000000e+00 : f32} : …
    """

    name = "nn.pad"

    low = prop_def(DenseArrayBase | ArrayAttr[StringAttr])
    high = prop_def(DenseArrayBase | ArrayAttr[StringAttr])
    value = prop_def(FloatAttr | IntegerAttr)

    def __init__(
        self,
        x: SSAValue,
        low: Sequence[Dim | int],
        high: Sequence[Dim | int],
        value: Attribute,
    ) -> None:
        rows = zip(map(Dim.of, low), extents(x.type), map(Dim.of, high), strict=True)
        super().__init__(
            operands=[x],
            properties={"low": pad_widths(low), "high": pad_widths(high), "value": value},
            result_types=[tensor(element(x), [lo + n + hi for lo, n, hi in rows])],
        )

    @property
    def lows(self) -> tuple[Dim, ...]:
        """How many elements are put before those of x in each dimension."""
        return _read_widths(self.low)

    @property
    def highs(self) -> tuple[Dim, ...]:
        """How many elements are put after those of x in each dimension."""
        return _read_widths(self.high)

    def verify_(self) -> None:
        """Check the result's shape."""
        rank = len(extents(self.x.type))
        require(len(self.lows) == rank == len(self.highs), f"pad of rank {rank}")
        rows = zip(self.lows, extents(self.x.type), self.highs, strict=True)
        require(extents(self.y.type) == tuple(lo + n + hi for lo, n, hi in rows), "pad: shape")


def pad_widths(widths: Sequence[Dim | int]) -> DenseArrayBase[Any] | ArrayAttr[StringAttr]:
    """Return the property of an `nn.pad` that holds these widths: numbers if all of them are."""
    numbers = [Dim.of(width).constant for width in widths]
    if all(number is not None for number in numbers):
        return ints([number or 0 for number in numbers])
    return ArrayAttr([StringAttr(str(Dim.of(width))) for width in widths])


def _read_widths(widths: Attribute) -> tuple[Dim, ...]:
    if isinstance(widths, DenseArrayBase):
        return tuple(Dim.of(width) for width in values(cast("DenseArrayBase[Any]", widths)))
    return tuple(parse_dim(each.data) for each in cast("ArrayAttr[StringAttr]", widths))


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """The tensors `xs` one after another along `dim`."""

    name = "nn.concat"

    xs = var_operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$xs {FUNCTIONAL}"

    def __init__(self, xs: Sequence[SSAValue], dim: int) -> None:
        shape = list(extents(xs[0].type))
        shape[dim] = sum((extents(x.type)[dim] for x in xs), Dim.of(0))
        super().__init__(
            operands=[xs],
            properties={"dim": IntegerAttr(dim, 64)},
            result_types=[tensor(element(xs[0]), shape)],
        )

    def verify_(self) -> None:
        """Check shapes."""
        dim, y = self.dim.value.data, extents(self.y.type)
        total = Dim.of(0)
        for x in self.xs:
            shape = extents(x.type)
            require(shape[:dim] + shape[dim + 1 :] == y[:dim] + y[dim + 1 :], f"concat {x.type}")
            total = total + shape[dim]
        require(total == y[dim], f"joined extent is {total}, the result has {y[dim]}")


@irdl_op_definition
class ReduceOp(_Map):
    """`y = kind(x)` over `dims`, which vanish: add mul max min and or argmax argmin.

    NaN propagates; argmax and argmin give i32, the lowest position on ties. Of no elements the
    result is the neutral one (max of nothing is -inf); argmax of nothing is 0.
    """

    name = "nn.reduce"

    kind = prop_def(StringAttr)
    dims = prop_def(DenseArrayBase)

    def __init__(self, x: SSAValue, kind: str, dims: Sequence[int]) -> None:
        shape = [n for d, n in enumerate(extents(x.type)) if d not in dims]
        super().__init__(
            operands=[x],
            properties={"kind": StringAttr(kind), "dims": ints(dims)},
            result_types=[tensor(i32 if kind.startswith("arg") else element(x), shape)],
        )

    def verify_(self) -> None:
        """Check kind and shape."""
        kind, dims, x = self.kind.data, values(self.dims), extents(self.x.type)
        require(kind in REDUCTIONS, f"reduce {kind!r}: one of {REDUCTIONS}")
        require(all(0 <= d < len(x) for d in dims), f"dims {dims} of rank {len(x)}")
        rest = tuple(n for d, n in enumerate(x) if d not in dims)
        require(extents(self.y.type) == rest, f"result is {self.y.type}")


@irdl_op_definition
class ScanOp(_Map):
    """`y[…, i, …] = kind(x[…, 0..i, …])` along `dim`: add, mul, max or min.

    With `exclusive` without element i (of none: the neutral one), with `reverse` from the end.
    """

    name = "nn.scan"

    kind = prop_def(StringAttr)
    dim = prop_def(IntegerAttr)
    exclusive = opt_prop_def(UnitAttr)
    reverse = opt_prop_def(UnitAttr)

    def __init__(
        self,
        x: SSAValue,
        kind: str,
        dim: int,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> None:
        properties: dict[str, Attribute] = {
            "kind": StringAttr(kind),
            "dim": IntegerAttr(dim, 64),
        }
        properties |= {"exclusive": UnitAttr()} if exclusive else {}
        properties |= {"reverse": UnitAttr()} if reverse else {}
        super().__init__(operands=[x], properties=properties, result_types=[x.type])

    def verify_(self) -> None:
        """Check kind and types."""
        require(self.kind.data in REDUCTIONS[:4], f"scan {self.kind.data!r}")
        require(self.x.type == self.y.type, "a scan keeps its type")


@irdl_op_definition
class SortOp(IRDLOperation):
    """`x` in ascending (or `descending`) order along `dim`, stable, with positions; NaN last.

    With `k`, an extent, only the first k: top-k is a descending sort of k.

    %y, %p = nn.sort %x {dim = 0 : i64, k = "K"} : (tensor<9xf32>)
             -> (tensor<?xf32, #nn.dims<["K"]>>, tensor<?xi32, #nn.dims<["K"]>>)
    """

    name = "nn.sort"

    x = operand_def(TensorType)
    dim = prop_def(IntegerAttr)
    descending = opt_prop_def(UnitAttr)
    k = opt_prop_def(IntegerAttr | StringAttr)
    y = result_def(TensorType)
    position = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$x {FUNCTIONAL}"

    def __init__(
        self, x: SSAValue, dim: int, k: Dim | int | None = None, *, descending: bool = False
    ) -> None:
        shape = list(extents(x.type))
        properties: dict[str, Attribute] = {"dim": IntegerAttr(dim, 64)}
        properties |= {"descending": UnitAttr()} if descending else {}
        if k is not None:
            shape[dim] = Dim.of(k)
            properties["k"] = StringAttr(str(k)) if isinstance(k, Dim) else IntegerAttr(k, 64)
        super().__init__(
            operands=[x],
            properties=properties,
            result_types=[tensor(element(x), shape), tensor(i32, shape)],
        )

    @property
    def kept(self) -> Dim | None:
        """How many elements are kept, None for all."""
        if isinstance(self.k, StringAttr):
            return parse_dim(self.k.data)
        return None if self.k is None else Dim.of(cast("IntegerAttr[Any]", self.k).value.data)

    def verify_(self) -> None:
        """Check shapes."""
        shape = list(extents(self.x.type))
        if self.kept is not None:
            shape[self.dim.value.data] = self.kept
        require(self.y.type == tensor(element(self.x), shape), f"result is {self.y.type}")
        require(self.position.type == tensor(i32, shape), f"positions are {self.position.type}")


@irdl_op_definition
class DotGeneralOp(IRDLOperation):
    """`y = sum(a * b)` over the `contract` pairs of dimensions; `batch` pairs stay.

    Result dimensions: batch, the rest of `a`, the rest of `b`. Sums in f32 for f16 and bf16, in
    i32 for integers of 8 and 16 bits; integers wrap. Contraction ascends in row order.

    %y = nn.dot_general %x, %w {contract = [[1, 1]]}
         : (tensor<?x8xf32, #nn.dims<["T"]>>, tensor<4x8xf32>) -> tensor<?x4xf32, #nn.dims<["T"]>>
    """

    name = "nn.dot_general"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    contract = prop_def(ArrayAttr)
    batch = opt_prop_def(ArrayAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$a `,` $b {FUNCTIONAL}"

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        contract: Sequence[tuple[int, int]],
        batch: Sequence[tuple[int, int]] = (),
    ) -> None:
        properties: dict[str, Attribute | None] = {"contract": pair_list(contract)}
        properties |= {"batch": pair_list(batch)} if batch else {}
        shape = _dot_shape(extents(a.type), extents(b.type), contract, batch)
        super().__init__(
            operands=[a, b],
            properties=properties,
            result_types=[tensor(_summed(element(a)), shape)],
        )

    def verify_(self) -> None:
        """Check contracted, batch and free extents."""
        a, b = extents(self.a.type), extents(self.b.type)
        contract, batch = pairs(self.contract), pairs(self.batch)
        for i, j in (*contract, *batch):
            require(a[i] == b[j], f"dimension {i} is {a[i]}, dimension {j} is {b[j]}")
        shape = _dot_shape(a, b, contract, batch)
        require(extents(self.y.type) == shape, f"result is {self.y.type}, expected {shape}")


def _summed(kind: Attribute) -> Attribute:
    """Return the type in which products of elements are summed."""
    if isinstance(kind, AnyFloat):
        return f64 if kind == f64 else f32
    width = cast("IntegerType[Any, Any]", kind).width.data
    return kind if width >= 32 else i32


def _dot_shape(
    a: tuple[Dim, ...],
    b: tuple[Dim, ...],
    contract: Sequence[tuple[int, int]],
    batch: Sequence[tuple[int, int]],
) -> tuple[Dim, ...]:
    used = (*batch, *contract)
    left, right = {i for i, _ in used}, {j for _, j in used}
    return (
        *(a[i] for i, _ in batch),
        *(n for i, n in enumerate(a) if i not in left),
        *(n for j, n in enumerate(b) if j not in right),
    )


@irdl_op_definition
class GatherOp(IRDLOperation):
    """`y[p…, i…, s…] = x[p…, indices[i…], s…]`: rows of `x` along `axis`, ids of any shape.

    An index outside `[0, n)` is an error of the call that names the source node.
    """

    name = "nn.gather"

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$x `,` $indices {FUNCTIONAL}"

    def __init__(self, x: SSAValue, indices: SSAValue, axis: int = 0) -> None:
        shape = extents(x.type)
        shape = (*shape[:axis], *extents(indices.type), *shape[axis + 1 :])
        super().__init__(
            operands=[x, indices],
            properties={"axis": IntegerAttr(axis, 64)},
            result_types=[tensor(element(x), shape)],
        )

    def verify_(self) -> None:
        """Check the result's shape."""
        axis, x = self.axis.value.data, extents(self.x.type)
        shape = (*x[:axis], *extents(self.indices.type), *x[axis + 1 :])
        require(extents(self.y.type) == shape, f"result is {self.y.type}")


@irdl_op_definition
class SoftmaxOp(_Map):
    """`y = e^(x - max x) / sum e^(x - max x)` along `axis`. Composite."""

    name = "nn.softmax"

    axis = prop_def(IntegerAttr)

    def __init__(self, x: SSAValue, axis: int) -> None:
        super().__init__(
            operands=[x], properties={"axis": IntegerAttr(axis, 64)}, result_types=[x.type]
        )

    def verify_(self) -> None:
        """Check axis and type."""
        require(0 <= self.axis.value.data < len(extents(self.x.type)), "no such axis")
        require(self.x.type == self.y.type, "a softmax keeps its type")


@irdl_op_definition
class LayerNormOp(IRDLOperation):
    """`y = (x - mean) / sqrt(var + eps) * w + b` over the last dimension. Composite.

    The variance is the mean of the squared deviations (Ba et al. 2016).
    """

    name = "nn.layer_norm"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    b = operand_def(TensorType)
    eps = prop_def(FloatAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$x `,` $w `,` $b {FUNCTIONAL}"

    def __init__(self, x: SSAValue, w: SSAValue, b: SSAValue, eps: float) -> None:
        super().__init__(
            operands=[x, w, b], properties={"eps": FloatAttr(eps, f32)}, result_types=[x.type]
        )

    def verify_(self) -> None:
        """Check types."""
        last = tensor(element(self.x), extents(self.x.type)[-1:])
        require(self.x.type == self.y.type, "a norm keeps its type")
        require(self.w.type == last == self.b.type, f"w and b must be {last}")


@irdl_op_definition
class RmsNormOp(IRDLOperation):
    """`y = x / sqrt(mean(x^2) + eps) * w` over the last dimension. Composite.

    Zhang and Sennrich 2019.
    """

    name = "nn.rms_norm"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    eps = prop_def(FloatAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$x `,` $w {FUNCTIONAL}"

    def __init__(self, x: SSAValue, w: SSAValue, eps: float) -> None:
        super().__init__(
            operands=[x, w], properties={"eps": FloatAttr(eps, f32)}, result_types=[x.type]
        )

    def verify_(self) -> None:
        """Check types."""
        last = tensor(element(self.x), extents(self.x.type)[-1:])
        require(self.x.type == self.y.type, "a norm keeps its type")
        require(self.w.type == last, f"w is {self.w.type}, expected {last}")


@irdl_op_definition
class RopeOp(IRDLOperation):
    """Rotate pairs of `x[T, H, D]` by the angles whose `cos` and `sin` are [T, R / 2]. Composite.

    Pair i of the first R elements is (2i, 2i + 1) with `interleaved`, else (i, i + R / 2); the
    rest stays: (a, b) -> (a*cos - b*sin, a*sin + b*cos). Su et al. 2021.
    """

    name = "nn.rope"

    x = operand_def(TensorType)
    cos = operand_def(TensorType)
    sin = operand_def(TensorType)
    interleaved = opt_prop_def(UnitAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$x `,` $cos `,` $sin {FUNCTIONAL}"

    def __init__(self, x: SSAValue, cos: SSAValue, sin: SSAValue, *, interleaved: bool) -> None:
        super().__init__(
            operands=[x, cos, sin],
            properties={"interleaved": UnitAttr()} if interleaved else {},
            result_types=[x.type],
        )

    def verify_(self) -> None:
        """Check types."""
        x, cos = extents(self.x.type), extents(self.cos.type)
        require(self.x.type == self.y.type, "a rotation keeps its type")
        require(self.cos.type == self.sin.type, "cos and sin differ in type")
        require(len(x) == 3 and len(cos) == 2 and cos[0] == x[0], f"rope of {x} by {cos}")
        width, half = x[2].constant, cos[1].constant
        require(width is not None and half is not None and 2 * half <= width, "rope: widths")


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """`softmax(scale * q k^T + mask) v` per head: q[B, H, L, D], k and v [B, G, M, D]. Composite.

    H is a multiple of G (grouped queries); `mask` [B, M] is added to the scores; with `causal`
    query i sees keys up to i + M - L. Vaswani et al. 2017.
    """

    name = "nn.attention"

    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    scale = prop_def(FloatAttr)
    causal = opt_prop_def(UnitAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$q `,` $k `,` $v (`mask` $mask^)? {FUNCTIONAL}"

    def verify_(self) -> None:
        """Check shapes."""
        q, k = extents(self.q.type), extents(self.k.type)
        require(len(q) == len(k) == 4 and self.k.type == self.v.type, "attention: ranks")
        require(self.y.type == self.q.type, "attention keeps the queries' type")
        require(q[0] == k[0] and q[3] == k[3], f"attention of {q} over {k}")


@irdl_op_definition
class EmbeddingOp(IRDLOperation):
    """`y[i…] = table[ids[i…]]` as f32; the table may be quantised (`quant.blocks`). Composite."""

    name = "nn.embedding"

    table = operand_def()
    ids = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$table `,` $ids {FUNCTIONAL}"

    def __init__(self, table: SSAValue, ids: SSAValue, width: int) -> None:
        super().__init__(
            operands=[table, ids], result_types=[tensor(f32, [*extents(ids.type), width])]
        )

    def verify_(self) -> None:
        """Check the result's shape."""
        y = extents(self.y.type)
        require(y[:-1] == extents(self.ids.type), f"result is {self.y.type}")


@irdl_op_definition
class GroupOp(IRDLOperation):
    """A fused group: operations that become one kernel, outlined under a name.

    `anchor` names the kernel builder; `schedule`, once chosen, how it is to be built. `host` says
    why a group that has it is to run on the host. The body ends in `nn.yield`.

    nn.group @g0 attributes {anchor = "matmul"} {^bb0(%x: …, %w: …): … nn.yield %y : …}
    """

    name = "nn.group"

    sym_name = prop_def(SymbolNameConstraint())
    anchor = prop_def(StringAttr)
    schedule = opt_prop_def(ScheduleAttr)
    host = opt_prop_def(StringAttr)
    body = region_def("single_block")

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = "$sym_name attr-dict-with-keyword $body"

    def __init__(
        self, name: str, anchor: str, body: Region, schedule: ScheduleAttr | None = None
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "anchor": StringAttr(anchor),
                "schedule": schedule,
            },
            regions=[body],
        )

    def verify_(self) -> None:
        """Check the terminator."""
        require(isinstance(self.body.block.last_op, YieldOp), "a group ends in nn.yield")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The results of a group or of a branch."""

    name = "nn.yield"

    ys = var_operand_def()

    traits = traits_def(IsTerminator())
    assembly_format = "($ys^ `:` type($ys))? attr-dict"

    def __init__(self, *ys: SSAValue) -> None:
        super().__init__(operands=[ys])


@irdl_op_definition
class CallOp(IRDLOperation):
    """The results of a group on these operands.

    %y = nn.call @g0(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "nn.call"

    callee = prop_def(FlatSymbolRefAttrConstr)
    xs = var_operand_def()
    ys = var_result_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$callee `(` $xs `)` {FUNCTIONAL}"

    def __init__(self, callee: str, xs: Sequence[SSAValue], types: Sequence[Attribute]) -> None:
        super().__init__(
            operands=[xs], properties={"callee": SymbolRefAttr(callee)}, result_types=[types]
        )


@irdl_op_definition
class SwitchOp(IRDLOperation):
    """One branch for each range of an extent: the first with `value <= bounds[i]`, else the last.

    Every branch computes the same values; they differ in how. Branches end in `nn.yield`.
    """

    name = "nn.switch"

    value = prop_def(StringAttr)
    bounds = prop_def(DenseArrayBase)
    ys = var_result_def()
    branches = var_region_def("single_block")

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def()
    assembly_format = "attr-dict `:` type($ys) $branches"

    def __init__(
        self,
        value: Dim,
        bounds: Sequence[int],
        branches: Sequence[Region],
        types: Sequence[Attribute],
    ) -> None:
        super().__init__(
            properties={"value": StringAttr(str(value)), "bounds": ints(bounds)},
            regions=[list(branches)],
            result_types=[types],
        )

    def verify_(self) -> None:
        """Check the branches' number, ends and types."""
        bounds = values(self.bounds)
        require(len(self.branches) == len(bounds) + 1, "a switch has one branch a range")
        require(list(bounds) == sorted(set(bounds)), f"bounds {bounds} do not ascend")
        types = [y.type for y in self.ys]
        for branch in self.branches:
            last = branch.block.last_op
            require(isinstance(last, YieldOp), "a branch ends in nn.yield")
            require([y.type for y in cast("YieldOp", last).ys] == types, "branches differ in type")


OPS: list[type[Operation]] = [
    AbsOp,
    AcosOp,
    AcoshOp,
    AddOp,
    AndOp,
    AsinOp,
    AsinhOp,
    AtanOp,
    AtanhOp,
    AttentionOp,
    BindOp,
    BitcastOp,
    BroadcastOp,
    CallOp,
    CastOp,
    CeilOp,
    CompareOp,
    ConcatOp,
    ConstantOp,
    ConvOp,
    ConvTransposeOp,
    CosOp,
    CoshOp,
    DecodeOp,
    DivOp,
    DotGeneralOp,
    EmbeddingOp,
    EncodeOp,
    ErfOp,
    ExpOp,
    ExtentsOp,
    FloorOp,
    ForeignOp,
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    GeluOp,
    GroupOp,
    IotaOp,
    LayerNormOp,
    LogOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    NegOp,
    OrOp,
    PadOp,
    PoolOp,
    PowOp,
    RecurrentOp,
    ReduceOp,
    ReluOp,
    ReshapeOp,
    RmsNormOp,
    RopeOp,
    RoundOp,
    RsqrtOp,
    ScanOp,
    ScatterElementsOp,
    ScatterNdOp,
    SelectOp,
    ShlOp,
    ShrOp,
    SigmoidOp,
    SignOp,
    SiluOp,
    SinOp,
    SinhOp,
    SliceOp,
    SoftmaxOp,
    SoftplusOp,
    SortOp,
    SqrtOp,
    SubOp,
    SwitchOp,
    TanOp,
    TanhOp,
    TransposeOp,
    WinogradOp,
    XorOp,
    YieldOp,
]

NN = Dialect("nn", OPS, [DimsAttr])
