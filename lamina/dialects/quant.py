"""The `quant` dialect: block-quantised weights, 8-bit activations, and products of the two.

A weight comes as `!quant.blocks<"q4_1", 576 : i64, 576 : i64>`: the file's bytes, K in blocks
along each of N rows. Two packed forms carry every format to the kernels, as three plain tensors:

- quants `tensor<N/16 x K/32 x J x 16 x 4 x i8>`: for 16 rows and 32 columns, groups of 4 columns;
  J = 8 holds one byte a weight; J = 4 holds two 4-bit weights a byte, the low half of group 2j
  and the high half of group 2j + 1;
- scales and, where the format has them, offsets: `tensor<N/16 x K/g x 16 x f16>`, or of f32;
  g = 32 or 16 columns share one.

A weight is `scale * (quant - zero) + offset`, its quant unsigned. N is padded with zeros to 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f16,
    f32,
    i8,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from lamina.dialects.dims import Dim
from lamina.dialects.nn import FUNCTIONAL
from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents, tensor

BLOCK = 32
"""Columns that share a scale in activations, and that a block of packed quants holds."""
GROUPS = (32, 16)
"""How many columns may share a scale in a packed weight."""
ROWS = 16
"""Rows that a packed tile holds side by side."""
TERMS = (1, 2)
"""How many quants may stand for an activation."""
LEAST_SCALE = 2.0**-126
"""The smallest scale of activations that has all its bits; below it x / d may exceed 127."""


@irdl_attr_definition
class BlocksType(ParametrizedAttribute, TypeAttribute):
    """A weight of `rows` x `columns` in the bytes of a file's block format."""

    name = "quant.blocks"

    format: StringAttr
    rows: IntegerAttr[IntegerType]
    columns: IntegerAttr[IntegerType]

    @staticmethod
    def of(format: str, rows: int, columns: int) -> BlocksType:
        """Return the type of a weight of this block format and shape."""
        return BlocksType(StringAttr(format), IntegerAttr(rows, 64), IntegerAttr(columns, 64))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows.value.data, self.columns.value.data


@irdl_op_definition
class QuantizeOp(IRDLOperation):
    """8-bit activations by blocks of 32 along the last dimension: `x[T, K]`, K a multiple of 32.

    d = max|x| / 127, q = round(x / d) to even, in [-127, 127]; where d < 2^-126, q = 0. A second
    term does the same to what is left, `fma(-q, d, x)`, which makes about 16 bits of the two.
    Results: q[T, n * K] i8, d[T, n * K/32] f32, the n terms of a block one after another, and
    s[T, K/32] f32, the sum over terms of d * sum(q), each a fused multiply-add after the first.
    """

    name = "quant.quantize"

    x = operand_def(TensorType)
    q = result_def(TensorType)
    d = result_def(TensorType)
    s = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = f"$x {FUNCTIONAL}"

    def __init__(self, x: SSAValue, terms: int = 1) -> None:
        super().__init__(operands=[x], result_types=_activations(extents(x.type), terms))

    @property
    def terms(self) -> int:
        """How many quants a number has, 1 or 2."""
        return terms_of(self.d, self.s)

    def columns(self, result: SSAValue) -> tuple[int, int]:
        """Return how many columns of a result stand for how many of `x`."""
        if result is self.q:
            return self.terms, 1
        return (self.terms, BLOCK) if result is self.d else (1, BLOCK)

    def verify_(self) -> None:
        """Check shapes."""
        shape = extents(self.x.type)
        require(len(shape) == 2 and shape[1] % BLOCK == 0, f"quantize of {self.x.type}")
        _verify_activations(shape, [self.q, self.d, self.s])


def terms_of(d: SSAValue, s: SSAValue) -> int:
    """Return how many quants a number has, given the scales and the sums of quantised rows."""
    scales, sums = extents(d.type)[1], extents(s.type)[1]
    return next((n for n in TERMS if sums * n == scales), 0)


def _activations(shape: Sequence[Dim], terms: int) -> list[TensorType]:
    rows, columns = shape
    blocks = columns // BLOCK
    sizes = ((i8, columns * terms), (f32, blocks * terms), (f32, blocks))
    return [tensor(element, [rows, size]) for element, size in sizes]


def _verify_activations(shape: Sequence[Dim], parts: Sequence[SSAValue]) -> None:
    for name, part, *kinds in zip(
        "qds", parts, *(_activations(shape, n) for n in TERMS), strict=True
    ):
        expected = " or ".join(map(str, dict.fromkeys(kinds)))
        require(part.type in kinds, f"{name} is {part.type}, expected {expected}")
    terms = terms_of(*parts[1:])
    require(parts[0].type == _activations(shape, terms)[0], "q and d differ in their terms")


@irdl_op_definition
class RowsOp(IRDLOperation):
    """Rows of a weight in blocks, from `start` on: as many as the result has."""

    name = "quant.rows"

    w = operand_def(BlocksType)
    y = result_def(BlocksType)
    start = prop_def(IntegerAttr[IntegerType])

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$w {FUNCTIONAL}"

    def __init__(self, w: SSAValue, start: int, count: int) -> None:
        kind = cast("BlocksType", w.type)
        super().__init__(
            operands=[w],
            properties={"start": IntegerAttr(start, 64)},
            result_types=[BlocksType.of(kind.format.data, count, kind.shape[1])],
        )

    def verify_(self) -> None:
        """Check that there are such rows."""
        whole, part = cast("BlocksType", self.w.type), self.y.type
        first, (count, columns) = self.start.value.data, part.shape
        same = (part.format, columns) == (whole.format, whole.shape[1])
        require(same, f"rows of {whole} are no {part}")
        inside = first >= 0 and count >= 0 and first + count <= whole.shape[0]
        require(inside, f"{whole} has no {count} rows from {first} on")


@irdl_op_definition
class PackOp(IRDLOperation):
    """A weight's blocks rearranged for the kernels (the module's docstring has the layout)."""

    name = "quant.pack"

    w = operand_def(BlocksType)
    q = result_def(TensorType)
    scale = result_def(TensorType)
    offset = opt_result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = f"$w {FUNCTIONAL}"

    def __init__(
        self,
        w: SSAValue,
        bits: int,
        *,
        offset: bool,
        group: int = BLOCK,
        scales: Attribute = f16,
    ) -> None:
        rows, columns = cast("BlocksType", w.type).shape
        tiles = -(-rows // ROWS)
        scales = tensor(scales, [tiles, columns // group, ROWS])
        super().__init__(
            operands=[w],
            result_types=[
                tensor(i8, [tiles, columns // BLOCK, bits, ROWS, 4]),
                scales,
                [scales] if offset else [],
            ],
        )

    def verify_(self) -> None:
        """Check shapes."""
        rows, columns = cast("BlocksType", self.w.type).shape
        _verify_packed(rows, columns, self.q.type, self.scale.type, self.offset)


def _verify_packed(
    rows: int, columns: int, q: Attribute, scale: Attribute, offset: SSAValue | None
) -> None:
    tiles = -(-rows // ROWS)
    quants = [tensor(i8, [tiles, columns // BLOCK, bits, ROWS, 4]) for bits in (4, 8)]
    scales = [tensor(kind, [tiles, columns // g, ROWS]) for kind in (f16, f32) for g in GROUPS]
    require(columns % BLOCK == 0, f"{columns} columns are no multiple of {BLOCK}")
    require(q in quants, f"quants are {q}, expected one of {', '.join(map(str, quants))}")
    require(scale in scales, f"scales are {scale}, expected one of {', '.join(map(str, scales))}")
    require(offset is None or offset.type == scale, f"offsets must be {scale}, as scales")


class _Weights(IRDLOperation):
    """Operands `w` that are a weight: its blocks, or its packed quants, scales and offsets."""

    w = var_operand_def()
    zero = prop_def(IntegerAttr)

    @property
    def packed(self) -> bool:
        """Whether the weight is in the packed form."""
        return not isinstance(self.w[0].type, BlocksType)

    @property
    def bits(self) -> int:
        """The size of a packed quant, 4 or 8."""
        return int(extents(self.w[0].type)[2].evaluate({}))

    @property
    def group(self) -> int:
        """How many columns share a scale of the packed form, 32 or 16."""
        blocks, groups = (extents(part.type)[1].evaluate({}) for part in self.w[:2])
        return blocks * BLOCK // groups

    @property
    def has_offset(self) -> bool:
        """Whether the packed form carries offsets."""
        return len(self.w) == 3

    def _verify_weight(self, rows: int, columns: int) -> None:
        if isinstance(kind := self.w[0].type, BlocksType):
            require(len(self.w) == 1, "blocks carry their own scales")
            require(kind.shape == (rows, columns), f"weight is {kind}")
            return
        require(len(self.w) in (2, 3), "a packed weight is quants, scales and maybe offsets")
        offset = self.w[2] if len(self.w) == 3 else None
        _verify_packed(rows, columns, self.w[0].type, self.w[1].type, offset)


@irdl_op_definition
class DequantizeOp(_Weights):
    """The weight as numbers: `y[n, k] = scale * (q - zero) + offset`, f32 [N, K]."""

    name = "quant.dequantize"

    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$w {FUNCTIONAL}"

    def __init__(self, w: Sequence[SSAValue], rows: int, columns: int, *, zero: int = 0) -> None:
        super().__init__(
            operands=[list(w)],
            properties={"zero": IntegerAttr(zero, 64)},
            result_types=[tensor(f32, [rows, columns])],
        )

    def verify_(self) -> None:
        """Check the weight against the result."""
        rows, columns = (_static(dim) for dim in extents(self.y.type))
        self._verify_weight(rows, columns)


@irdl_op_definition
class LinearOp(_Weights):
    """`y[t, n] = sum over groups of scale * d * sum(q * (w - zero)) + offset * s`: f32 [T, N].

    A group is the columns that share a scale of the weight: a block of 32, or half of one. Its
    sum of `q * w` is exact in i32; groups add up in f32 in ascending order, each by two fused
    multiply-adds: the product of quants by `scale * d`, then `offset * s` (a `zero` z is the
    offset `-z * scale`, instead or on top). `q`, `d`, `s` come from `quant.quantize`: of two terms
    each has its own product, the first one first. Half a block has an s of its own.
    """

    name = "quant.linear"

    q = operand_def(TensorType)
    d = operand_def(TensorType)
    s = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$q `,` $d `,` $s `,` $w {FUNCTIONAL}"

    def __init__(
        self,
        w: Sequence[SSAValue],
        activations: Sequence[SSAValue],
        rows: int,
        *,
        zero: int = 0,
    ) -> None:
        tokens = extents(activations[0].type)[0]
        super().__init__(
            operands=[*activations, list(w)],
            properties={"zero": IntegerAttr(zero, 64)},
            result_types=[tensor(f32, [tokens, rows])],
        )

    @property
    def terms(self) -> int:
        """How many quants an activation has, 1 or 2."""
        return terms_of(self.d, self.s)

    @property
    def depth(self) -> Dim:
        """The columns of the weight."""
        return extents(self.s.type)[1] * BLOCK

    def verify_(self) -> None:
        """Check activations, weight and result."""
        tokens, blocks = extents(self.s.type)
        columns = blocks * BLOCK
        _verify_activations((tokens, columns), [self.q, self.d, self.s])
        y = extents(self.y.type)
        require(len(y) == 2 and y[0] == tokens, f"result is {self.y.type}")
        self._verify_weight(_static(y[1]), _static(columns))


def _static(dim: Dim) -> int:
    if dim.constant is None:
        raise VerifyException(f"extent {dim} must be a number")
    return dim.constant


OPS: list[type[Operation]] = [DequantizeOp, LinearOp, PackOp, QuantizeOp, RowsOp]

QUANT = Dialect("quant", OPS, [BlocksType])
