"""Run `@prepare`: what depends on weights alone, one result after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from lamina.dialects.tensors import extents
from lamina.errors import InputError
from lamina.targets.known import KNOWN
from lamina.targets.reference.dtypes import Array, dtype_of
from lamina.targets.reference.interpreter import Interpreter, Program, quiet
from lamina.targets.signature import arguments_of, results_of

PREPARE = "prepare"


def prepare(
    module: ModuleOp, weights: Mapping[str, Any], places: Mapping[str, Array] | None = None
) -> Iterator[tuple[str, Array]]:
    """Yield the name and value of each result of `@prepare`, computing no more than it needs.

    The largest come first, while there is least in memory beside them. A weight is an array, or
    has one as its attribute `array`. Values are dropped after their last use and the source pages
    of weights released, so a result must be copied to outlive the step if it is a weight itself.
    `places` has memory for results by name: what fits one may be made there, and is then that
    array. A module without the function gives nothing. InputError names a weight that is missing.
    """
    program = Program(KNOWN.meanings(), module)
    function = program.named.get(PREPARE)
    if not isinstance(function, FuncOp):
        return
    block = function.body.block
    assert block.last_op is not None
    results = tuple(block.last_op.operands)
    names = (attributes["lamina.weight"] for attributes, _ in arguments_of(function))
    packed = [attributes["lamina.packed"] for attributes, _ in results_of(function)]
    wanted = sorted(zip(packed, results, strict=True), key=lambda each: -_nbytes(each[1]))
    run = Interpreter(program)
    for name, result in wanted:
        place = (places or {}).get(name)
        if place is not None and (place.shape, place.dtype) == _form(result):
            run.rooms[result] = place
    values = _Values(
        run,
        {arg: weight_of(name, weights) for arg, name in zip(block.args, names, strict=True)},
        results,
    )
    for name, result in wanted:
        yield name, np.asarray(values.compute(result), order="C")
        values.drop((result,))


def weight_of(name: str, weights: Mapping[str, Any]) -> Any:
    """Return the weight `name`; InputError if there is none."""
    if name not in weights:
        raise InputError(
            f"the weight {name!r} is missing: a stage has its weights where the manifest.json "
            "beside it says, or is given them as weights="
        )
    return weights[name]


def _form(result: SSAValue) -> tuple[tuple[int, ...], np.dtype[Any]]:
    shape = tuple(extent.evaluate({}) for extent in extents(result.type))
    return shape, dtype_of(result.type)


def _nbytes(result: SSAValue) -> int:
    shape, dtype = _form(result)
    return prod(shape) * dtype.itemsize


def array_of(weight: Any) -> Array:
    """Return the array of a weight, which may be one itself."""
    return getattr(weight, "array", weight)


class _Values:
    """The values of a function, each computed when it is first asked for."""

    def __init__(
        self, run: Interpreter, weights: Mapping[SSAValue, Any], results: tuple[SSAValue, ...]
    ) -> None:
        self._run = run
        self._weights = weights
        self._known: dict[SSAValue, Any] = {arg: array_of(w) for arg, w in weights.items()}
        operands = (x for op in _producers(results, self._known) for x in op.operands)
        self._uses = Counter([*results, *operands])

    def compute(self, value: SSAValue) -> Array:
        """Return a value, after computing what it depends on."""
        for op in _producers((value,), self._known):
            with quiet():
                found = self._run.run_op(op, [self._known[operand] for operand in op.operands])
            self._known.update(zip(op.results, found, strict=True))
            self.drop(op.operands)
        return self._known[value]

    def drop(self, values: Iterable[SSAValue]) -> None:
        """Count one use of each value, and forget those that have no further one."""
        for value in values:
            self._uses[value] -= 1
            if self._uses[value]:
                continue
            del self._known[value]
            release = getattr(self._weights.get(value), "release", None)
            if release is not None:
                release()


def _producers(values: Iterable[SSAValue], known: Container[SSAValue]) -> list[Operation]:
    """Return the operations behind `values` that `known` does not cover, operands first."""
    ordered: dict[Operation, None] = {}
    pending = [value.owner for value in values if value not in known]
    while pending:
        op = pending[-1]
        assert isinstance(op, Operation)
        missing = [
            operand.owner
            for operand in op.operands
            if operand not in known and operand.owner not in ordered
        ]
        if missing:
            pending.extend(missing)
        else:
            ordered.setdefault(op)
            pending.pop()
    return list(ordered)
