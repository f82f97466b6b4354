"""A module that NumPy runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from lamina.dialects.tensors import extents
from lamina.targets.base import (
    Array,
    Executable,
    Signature,
    bind,
    by_name,
    input_array,
    state_array,
)
from lamina.targets.known import KNOWN
from lamina.targets.memory_limit import check_memory
from lamina.targets.reference.interpreter import Interpreter, Meaning, Program, quiet
from lamina.targets.reference.prepare import array_of, prepare, weight_of
from lamina.targets.reference.tile import poison
from lamina.targets.signature import (
    arguments_of,
    equal_extents,
    forward_of,
    results_of,
    signature_of,
    tensor_of,
)

WORKERS = 2
"""The number of programs that kernels are told run at once."""


class ReferenceExecutable(Executable):
    """A module and its weights; every call is a run of its own, so threads may share it."""

    def __init__(
        self,
        module: ModuleOp,
        weights: Mapping[str, Any],
        rules: Mapping[type[Operation], Meaning] | None = None,
    ) -> None:
        """Take what `@forward` needs of `weights`, by way of `@prepare` if there is one.

        `rules` take the place of meanings: a target that compiles kernels alone has its plan
        walked here, with a rule of its own for `plan.call`.
        """
        self._signature = signature_of(module)
        self._forward = forward_of(module)
        self._equal = equal_extents(self._forward)
        self._program = Program({**KNOWN.meanings(), **(rules or {})}, module)
        packed = {name: np.array(value) for name, value in prepare(module, weights)}
        self._constants: dict[str, Array] = {}
        for attributes, _ in arguments_of(self._forward):
            if (name := attributes.get("lamina.weight")) is not None:
                self._constants[name] = array_of(weight_of(name, weights))
            elif (name := attributes.get("lamina.packed")) is not None:
                self._constants[name] = packed[name]

    @property
    def signature(self) -> Signature:
        """What a call takes and gives."""
        return self._signature

    def __call__(self, *args: Array, **kwargs: Array) -> dict[str, Array]:
        """Run once: inputs by position or name, states by name (updated in place).

        InputError names an argument that is missing, unknown or of the wrong dtype or shape, and
        the node at which a value is out of range.
        """
        arrays = self._named(args, kwargs)
        bindings = (*self._signature.inputs, *self._signature.states)
        run = Interpreter(self._program, {**bind(bindings, arrays), "workers": WORKERS})
        run.equal = list(self._equal)
        run.learn({})
        outputs: dict[str, Array] = {}
        for each in self._signature.outputs:
            if not all(dim.symbols <= run.extents.keys() for dim in each.dims):
                continue
            shape = tuple(dim.evaluate(run.extents) for dim in each.dims)
            check_memory(f"output {each.name!r} of shape {shape}", prod(shape))
        with quiet():
            results = run.run_region(self._forward.body, self._arguments(run, arrays, outputs))
        run.finish()
        for (attributes, _), result in zip(results_of(self._forward), results, strict=True):
            if (name := attributes.get("lamina.output")) is not None:
                outputs[name] = np.array(result)
            elif (state := arrays[attributes["lamina.state"]]) is not result:
                state[...] = result
        found = ((each, outputs[each.name]) for each in self._signature.outputs)
        return {each.name: each.shown(array) for each, array in found}

    def _arguments(
        self, run: Interpreter, arrays: Mapping[str, Array], outputs: dict[str, Array]
    ) -> list[Array]:
        """Return the values of `@forward`'s arguments; memory for results goes to `outputs`."""
        values: list[Array] = []
        arguments = self._forward.body.block.args
        for argument, (attributes, type) in zip(
            arguments, arguments_of(self._forward), strict=True
        ):
            ((key, name),) = ((k, v) for k, v in attributes.items() if k.startswith("lamina."))
            if key == "lamina.output":
                make = partial(_make_output, tensor_of(type), name, outputs)
                known = all(n.symbols <= run.extents.keys() for n in extents(tensor_of(type)))
                if not known:
                    run.late[argument] = make
                values.append(make(run) if known else np.empty(0))
            else:
                values.append((arrays if key in _GIVEN else self._constants)[name])
        return values

    def _named(self, args: Sequence[Array], kwargs: Mapping[str, Array]) -> dict[str, Array]:
        given = by_name(self._signature, args, kwargs)
        inputs = {each.name: input_array(each, given[each.name]) for each in self._signature.inputs}
        states = {each.name: state_array(each, given[each.name]) for each in self._signature.states}
        return inputs | states


def _make_output(
    kind: TensorType[Any], name: str, outputs: dict[str, Array], run: Interpreter
) -> Array:
    outputs[name] = poison(kind, run.shape(kind))
    return outputs[name]


_GIVEN = ("lamina.input", "lamina.state")
"""The attributes of arguments whose values come with a call."""
