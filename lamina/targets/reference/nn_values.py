"""What gives symbols their values while a module runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.ir import Operation

from lamina.dialects import nn, plan
from lamina.dialects.dims import parse_dim
from lamina.errors import InputError
from lamina.targets.reference.interpreter import Interpreter, Meaning, bind
from lamina.targets.signature import source_of

Args = tuple[Any, ...]


def bind_values(run: Interpreter, op: nn.BindOp | plan.BindOp, value: Any) -> None:
    """Give the symbols of a bind their values; InputError names the node if they cannot be."""
    names = [name.data for name in op.symbols]
    equal = [(a.data, b.data) for a, b in op.equal]
    run.learn(bound(names, value, equal, run.extents, source_of(op)))


def bound(
    names: Sequence[str],
    value: Any,
    equal: Sequence[tuple[str, str]],
    extents: Mapping[str, int],
    node: str,
) -> dict[str, int]:
    """Return values for symbols; InputError if one is negative, or extents differ that must not."""
    found = dict(zip(names, (int(n) for n in value.reshape(-1)), strict=True))
    if negative := [n for n in found.values() if n < 0]:
        raise InputError(f"{node}: an extent is {negative[0]}, expected at least 0")
    known = {**extents, **found}
    for a, b in equal:
        sizes = parse_dim(a).evaluate(known), parse_dim(b).evaluate(known)
        if sizes[0] != sizes[1]:
            raise InputError(f"{node}: {a} is {sizes[0]}, expected {b}, which is {sizes[1]}")
    return found


def bind_results(run: Interpreter, name: str, results: Sequence[Any]) -> dict[str, int]:
    """Return the values of symbols in the types of what a group gives, by its results' shapes."""
    end = run.symbol(name).regions[0].block.last_op
    assert end is not None
    return bind([y.type for y in end.operands], results, run.extents)


def _bind(run: Interpreter, op: nn.BindOp, args: Args) -> tuple[()]:
    bind_values(run, op, args[0])
    return ()


MEANINGS: dict[type[Operation], Meaning] = {nn.BindOp: _bind}
