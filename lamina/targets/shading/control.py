"""Control flow, and what is only a matter of names: the same in every shading language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.targets.shading.printer import Printer, Rule, count_of


def _extent(p: Printer, op: simt.ExtentOp) -> None:
    p.set(op.n, [p.memories[op.x].extents[op.dim.value.data]])


def _stride(p: Printer, op: simt.StrideOp) -> None:
    p.set(op.n, [p.memories[op.x].strides[op.dim.value.data]])


def _pick(p: Printer, op: simt.PickOp) -> None:
    registers = p.registers(op.x)
    p.set(op.y, [registers[r] for r in tile.values(op.at)])


def _join(p: Printer, op: simt.JoinOp) -> None:
    p.set(op.y, [each for x in op.xs for each in p.registers(x)])


def _splat(p: Printer, op: tile.SplatOp) -> None:
    p.set(op.y, p.registers(op.x) * count_of(op.y))


def _select(p: Printer, op: tile.SelectOp) -> None:
    _choose(p, op.y, op.c, op.a, op.b)


def _select_all(p: Printer, op: arith.SelectOp) -> None:
    _choose(p, op.result, op.cond, op.lhs, op.rhs)


def _choose(p: Printer, y: SSAValue, c: SSAValue, a: SSAValue, b: SSAValue) -> None:
    """Print a choice by one condition, or one for each register."""
    conditions = p.registers(c) * (count_of(y) if count_of(c) == 1 else 1)
    lanes = zip(conditions, p.registers(a), p.registers(b), strict=True)
    choice = p.language.choice
    p.define(y, [choice.format(test=test, left=x, right=z) for test, x, z in lanes])


def _program_id(p: Printer, op: tile.ProgramIdOp) -> None:
    p.set(op.i, [p.programs[op.dim.value.data]])


def _for(p: Printer, op: scf.ForOp) -> None:
    counter, *carried = op.body.block.args
    names = [
        p.variables(y, p.registers(start))
        for y, start in zip(op.results, op.iter_args, strict=True)
    ]
    for value, registers in zip(carried, names, strict=True):
        p.set(value, registers)
    i = p.fresh()
    low, high, step = (p.scalar(x) for x in (op.lb, op.ub, op.step))
    p.open(f"for ({p.language.counter} {i} = {low}; {i} < {high}; {i} += {step})")
    p.define(counter, [i])
    p.block(op.body.block)
    _yield_to(p, names, op.body.block.last_op)
    p.close()


def _if(p: Printer, op: scf.IfOp) -> None:
    names = [p.variables(y) for y in op.results]
    p.open(f"if ({p.scalar(op.cond)})")
    p.block(op.true_region.block)
    _yield_to(p, names, op.true_region.block.last_op)
    p.close()
    if op.false_region.blocks:
        p.open("else")
        p.block(op.false_region.block)
        _yield_to(p, names, op.false_region.block.last_op)
        p.close()
    for y, registers in zip(op.results, names, strict=True):
        p.set(y, registers)


def _yield_to(p: Printer, names: Sequence[Sequence[str]], last: Operation | None) -> None:
    values = last.operands if last is not None else ()
    p.assign([name for each in names for name in each], values)


def _nothing(p: Printer, op: Operation) -> None:
    """Terminators say nothing by themselves."""


RULES: Final[dict[type[Operation], Rule]] = {
    simt.ExtentOp: _extent,
    simt.StrideOp: _stride,
    simt.PickOp: _pick,
    simt.JoinOp: _join,
    tile.SplatOp: _splat,
    tile.SelectOp: _select,
    arith.SelectOp: _select_all,
    tile.ProgramIdOp: _program_id,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.YieldOp: _nothing,
    tile.ReturnOp: _nothing,
}
"""Rules that need nothing of the language but what `Language` says."""
