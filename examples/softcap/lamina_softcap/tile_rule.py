"""A soft cap in a kernel: one rational function, where tanh by itself takes two and an exp."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float64Type, f32
from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.dialects.tile import shape_of
from lamina.errors import LoweringError
from lamina.passes.kernels.emit import Emit
from lamina.passes.kernels.subscripts import Index
from lamina.passes.kernels.tiles import Tiles
from lamina_softcap.dialect import SoftcapOp

LARGEST = 7.90531110763549805
"""Beyond it tanh is 1 in f32."""

NUMERATOR = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
DENOMINATOR = (
    1.19825839466702e-06,
    1.18534705686654e-04,
    2.26843463243900e-03,
    4.89352518554385e-03,
)
"""Of tanh(u) = u * P(u^2) / Q(u^2) up to `LARGEST` (Eigen's `ptanh_float`), highest power first."""


def tile_of(tiles: Tiles, op: SoftcapOp, index: Index, result: SSAValue) -> SSAValue:
    """Return a tile of a soft cap, computed in f32."""
    if isinstance(nn.element(op.x), Float64Type):
        raise LoweringError("acme.softcap of f64 has no tile rule")
    emit = tiles.emit
    x = emit.cast(tiles.tile_of(op.x, index), f32)
    shape = shape_of(x.type)

    def number(value: float) -> SSAValue:
        return emit.full(value, f32, shape)

    u = emit.binary(arith.MulfOp, x, number(1.0 / op.limit))
    u = emit.binary(arith.MinimumfOp, u, number(LARGEST))
    u = emit.binary(arith.MaximumfOp, u, number(-LARGEST))
    square = emit.binary(arith.MulfOp, u, u)
    above = _polynomial(emit, square, [number(c * op.limit) for c in NUMERATOR])
    below = _polynomial(emit, square, [number(c) for c in DENOMINATOR])
    # The quotient first: the product of a denormal u and a small numerator would lose digits.
    y = emit.binary(arith.MulfOp, u, emit.binary(arith.DivfOp, above, below))
    return emit.cast(y, nn.element(op.y))


def _polynomial(emit: Emit, x: SSAValue, coefficients: Sequence[SSAValue]) -> SSAValue:
    """Return a polynomial by Horner's rule, the coefficient of the highest power first."""
    return reduce(lambda sum, coefficient: emit.fma(sum, x, coefficient), coefficients)
