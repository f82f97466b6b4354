"""What `nn` computes: the tables of its parts, calls of groups and functions, and switches."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from lamina.dialects import nn, tile
from lamina.dialects.dims import parse_dim
from lamina.dialects.tensors import extents
from lamina.targets.reference import (
    nn_bytes,
    nn_composites,
    nn_elementwise,
    nn_index,
    nn_recurrent,
    nn_shapes,
    nn_sums,
    nn_values,
    nn_windows,
    nn_winograd,
)
from lamina.targets.reference.interpreter import Interpreter, Meaning, bind

Args = tuple[Any, ...]


def _call(run: Interpreter, op: nn.CallOp | func.CallOp, args: Args) -> tuple[Any, ...]:
    results = run.call(op.callee.string_value(), args)
    if not run.fact(op, _result_symbols) <= run.extents.keys():
        run.learn(bind([y.type for y in op.results], results, run.extents))
    return results


def _result_symbols(op: Operation) -> set[str]:
    found = set[str]()
    for y in op.results:
        kind: Attribute = y.type
        if isinstance(kind, TensorType):
            found |= {name for extent in extents(y.type) for name in extent.symbols}
    return found


def _switch(run: Interpreter, op: nn.SwitchOp, args: Args) -> tuple[Any, ...]:
    return run.run_region(op.branches[branch_of(run, op.value.data, tile.values(op.bounds))])


def branch_of(run: Interpreter, value: str, bounds: tuple[int, ...]) -> int:
    """Return which branch a switch over the extent `value` takes: the first that holds it."""
    size = parse_dim(value).evaluate(run.extents)
    return sum(size > bound for bound in bounds)


MEANINGS: dict[type[Operation], Meaning] = {
    **nn_elementwise.MEANINGS,
    **nn_shapes.MEANINGS,
    **nn_bytes.MEANINGS,
    **nn_index.MEANINGS,
    **nn_recurrent.MEANINGS,
    **nn_sums.MEANINGS,
    **nn_values.MEANINGS,
    **nn_windows.MEANINGS,
    **nn_winograd.MEANINGS,
    **nn_composites.MEANINGS,
    nn.CallOp: _call,
    func.CallOp: _call,
    nn.SwitchOp: _switch,
}
