"""What `scf` does: loops and branches over the interpreter's regions."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation

from lamina.errors import LaminaError
from lamina.targets.reference.dtypes import dtype_of
from lamina.targets.reference.interpreter import Interpreter, Meaning


def _for(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    start, end, step, *carried = args
    if step <= 0:
        raise LaminaError(f"scf.for has the step {step}: expected a positive one")
    body = op.regions[0].block
    kind = dtype_of(op.operands[0].type).type
    values = tuple(carried)
    for i in range(int(start), int(end), int(step)):
        values = run.run_block(body, (kind(i), *values))
    return values


def _if(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return run.run_region(op.regions[0] if args[0] else op.regions[1])


def _while(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    before, after = op.regions
    values = args
    while True:
        go_on, *values = run.run_region(before, values)
        if not go_on:
            return tuple(values)
        values = run.run_region(after, values)


def _index_switch(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    cases = cast("DenseArrayBase[Any]", cast("scf.IndexSwitchOp", op).cases).get_values()
    default, *regions = op.regions
    chosen = [r for case, r in zip(cases, regions, strict=True) if np.int64(case) == args[0]]
    return run.run_region(chosen[0] if chosen else default)


MEANINGS: dict[type[Operation], Meaning] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.IndexSwitchOp: _index_switch,
}
