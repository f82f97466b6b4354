"""Operations that are an expression in each register, and the tests that languages agree on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation, SSAValue

from lamina.targets.shading.printer import Printer, Rule, count_of

Expression = Callable[[Any, Any, tuple[str, ...]], str]
"""Spells one register of a result, given the element of the first operand and its registers."""

UNORDERED: Final = "(is_nan({0}) || is_nan({1}))"
"""Holds where one of two floats is NaN: what comparisons say of it is not relied on."""

FLOAT_TESTS: Final = (
    "false",
    "{0} == {1}",
    "{0} > {1}",
    "{0} >= {1}",
    "{0} < {1}",
    "{0} <= {1}",
    "({0} < {1} || {0} > {1})",
    f"!{UNORDERED}",
    f"({UNORDERED} || {{0}} == {{1}})",
    f"({UNORDERED} || {{0}} > {{1}})",
    f"({UNORDERED} || {{0}} >= {{1}})",
    f"({UNORDERED} || {{0}} < {{1}})",
    f"({UNORDERED} || {{0}} <= {{1}})",
    "!({0} == {1})",
    UNORDERED,
    "true",
)
"""By the predicate of `arith.cmpf`."""

TESTS: Final = ("==", "!=", "<", "<=", ">", ">=")
"""The comparisons of integers, in the order of `tile.COMPARISONS`."""


def elementwise(expression: Expression) -> Rule:
    """Return the rule of an operation that is `expression` in every register."""

    def rule(p: Printer, op: Operation) -> None:
        define_lanes(p, op, expression, [p.registers(each) for each in op.operands])

    return rule


def define_lanes(
    p: Printer, op: Operation, expression: Expression, operands: list[list[str]]
) -> None:
    """Print the definition of an operation's registers from those of its operands."""
    kind, (result,) = p.language.element(op.operands[0].type), op.results
    size = count_of(result)
    lanes = [each * size if len(each) == 1 else each for each in operands]
    p.define(result, [expression(p, kind, each) for each in zip(*lanes, strict=True)])


def plain(template: str) -> Expression:
    """Return the expression that a template is, of the operands' registers."""
    return lambda p, kind, x: template.format(*x)


def called(function: str) -> Expression:
    """Return the call of a function on the operands' registers."""
    return lambda p, kind, x: p.call(function, *x)


def numbers_of(op: arith.ConstantOp) -> list[Any]:
    """Return the numbers of a constant, one where all registers have the same."""
    if isinstance(op.value, DenseIntOrFPElementsAttr):
        return list(cast("Any", op.value).get_values())
    return [cast("Any", op.value).value.data]


def as_float(name: str, number: float) -> float:
    """Return the number that a float type of this name holds for a constant."""
    import ml_dtypes
    import numpy as np

    types: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    with np.errstate(over="ignore"):
        return float(np.float32(types[name](number)))


def owner_behind_splats(value: SSAValue) -> Any:
    """Return the operation that a value's registers come from."""
    owner: Any = value.owner
    while getattr(owner, "name", "") == "tile.splat":
        owner = owner.operands[0].owner
    return owner
