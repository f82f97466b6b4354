"""Spell the functions of `math` that targets have no instruction for in f32 arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import tile
from lamina.passes.formulas import (
    circular,
    doubles,
    exponentials,
    hyperbolic,
    inverse_circular,
    logarithms,
    powers,
)
from lamina.passes.formulas.constants import Constants
from lamina.passes.formulas.formula import Formula

FORMULAS: dict[type[Operation], Callable[..., SSAValue]] = {
    math.AcosOp: inverse_circular.acos,
    math.AcoshOp: hyperbolic.acosh,
    math.AsinOp: inverse_circular.asin,
    math.AsinhOp: hyperbolic.asinh,
    math.AtanOp: inverse_circular.atan,
    math.AtanhOp: hyperbolic.atanh,
    math.CosOp: circular.cos,
    math.CoshOp: hyperbolic.cosh,
    math.ErfOp: exponentials.erf,
    math.Exp2Op: exponentials.exp2,
    math.ExpM1Op: exponentials.expm1,
    math.ExpOp: exponentials.exp,
    math.Log1pOp: logarithms.log1p,
    math.Log2Op: logarithms.log2,
    math.LogOp: logarithms.log,
    math.PowFOp: powers.powf,
    math.RsqrtOp: powers.rsqrt,
    math.SinOp: circular.sin,
    math.SinhOp: hyperbolic.sinh,
    math.TanOp: circular.tan,
    math.TanhOp: exponentials.tanh,
}
"""The formula of each function, of its operands in f32."""

DOUBLES: dict[type[Operation], Callable[..., SSAValue]] = {
    math.ExpOp: doubles.exp,
    math.LogOp: doubles.log,
    math.RsqrtOp: doubles.rsqrt,
}
"""The formula of each function of f64 that has one."""


@dataclass(frozen=True)
class DecomposeMathPass(ModulePass):
    """Kernels call no function of `FORMULAS` on floats of at most 32 bits but those `keep` names.

    Errors are at most 2 units in the last place of f32 (powf, tan, acosh, atanh: 4; sin, cos and
    tan: |x| <= 2^17), and infinities, NaN, zeros and denormals are kept. f16 and bf16 go through
    f32. Functions of f64 that `DOUBLES` has are as near, the others stay. A `math.exp` with
    `lamina.nonpositive` has no operand above 0, and is 0 below 2^-126.
    """

    name = "decompose-math"

    keep: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module's kernels in place."""
        for kernel in [each for each in op.walk() if isinstance(each, tile.AnyKernelOp)]:
            decompose_functions(kernel, self.keep)


def decompose_functions(kernel: tile.AnyKernelOp, keep: Container[str] = ()) -> None:
    """Spell the functions that a kernel calls in arithmetic, in place."""
    called = [op for op in kernel.body.walk() if type(op) in FORMULAS and op.name not in keep]
    constants = Constants(kernel.body.block)
    for op in called:
        _replace(op, constants)


def _replace(op: Operation, constants: Constants) -> None:
    y, block = op.results[0], op.parent
    element = tile.element_of(y.type)
    double = element == f64 and type(op) in DOUBLES
    if not (double or isinstance(element, Float32Type | Float16Type | BFloat16Type)):
        return
    assert block is not None

    inherited = {k: v for k, v in op.attributes.items() if k != exponentials.NONPOSITIVE}

    def insert(new: Operation) -> SSAValue:
        new.attributes |= inherited
        block.insert_op_before(new, op)
        return new.results[0]

    kind = f64 if double else f32
    formula = Formula(insert, constants, tile.shape_of(y.type), kind)
    xs = list(op.operands)
    if element != kind:
        xs = [insert(tile.CastOp(x, f32)) for x in xs]
    result = DOUBLES[type(op)](formula, *xs) if double else _formula(op)(formula, *xs)
    if element != kind:
        result = insert(tile.CastOp(result, element))
    result.name_hint = y.name_hint
    y.replace_all_uses_with(result)
    op.detach()
    op.erase()


def _formula(op: Operation) -> Callable[..., SSAValue]:
    if exponentials.NONPOSITIVE in op.attributes:
        return exponentials.decay
    return FORMULAS[type(op)]
