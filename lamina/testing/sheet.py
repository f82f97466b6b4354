"""A module under construction, with how its inputs are drawn and how its outputs are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.quant import BlocksType
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weight, Weights
from lamina.targets.reference.dtypes import Array, dtype_of
from lamina.testing.values import Draw

Arrays = Mapping[str, Array]

Calls = Callable[[np.random.Generator, int], Sequence[Arrays]]
"""The inputs of the calls of a case at a size; page pools live from one call to the next."""


@dataclass(frozen=True)
class Check:
    """One output: the operation it is a check of, and how far it may be off.

    A float may differ by `atol + rtol * |expected|`. With `signed`, a zero has to have its sign.
    """

    name: str
    op: str
    rtol: float
    atol: float
    signed: bool


PRECISION = 1e-6
"""The relative tolerance of results that are rounded to f32."""

ROUNDING: dict[type[Attribute], float] = {Float16Type: 2e-3, BFloat16Type: 1.6e-2}
"""The relative tolerance of results that are rounded to fewer bits."""


class Sheet(Graph):
    """`@forward` of a case: inputs that know how to be drawn, and outputs that are checks.

    With `only`, just the check of that name is in the module.
    """

    def __init__(self, only: str | None = None) -> None:
        super().__init__(Weights(()))
        self.checks: list[Check] = []
        self.calls: Calls | None = None
        self._adopted: ModuleOp | None = None
        self._only = only
        self._draws: list[tuple[str, np.dtype[Any], tuple[Dim, ...], Draw]] = []

    def given(
        self, name: str, element: Attribute, dims: Sequence[Dim | int | str], draw: Draw
    ) -> SSAValue:
        """Declare an input whose values `draw` makes."""
        self._draws.append((name, dtype_of(element), tuple(map(Dim.of, dims)), draw))
        return self.input(name, element, dims)

    def stored(self, name: str, array: Array, kind: BlocksType | None = None) -> SSAValue:
        """Declare a weight with these values, or with these bytes of blocks of `kind`."""
        weight = Weight.of(name, array)
        if kind is not None:
            weight = Weight(name, kind.format.data, kind.shape, array)
        self.weights = Weights([*self.weights.values(), weight], "the case")
        return self.weight(name, weight.shape)

    def check(
        self,
        name: str,
        y: SSAValue,
        *,
        rtol: float | None = None,
        atol: float = 0.0,
        of: str | None = None,
        signed: bool | None = None,
    ) -> None:
        """Make `y` an output that is to equal the reference's, up to a tolerance.

        Without `rtol`, that of its element type. `of` is what it is a check of: the operation
        that made `y`, if nothing is said. The sign of a zero counts where a result is to be
        exact, unless `signed` says otherwise.
        """
        if self._only not in (None, name):
            return
        owner = y.owner
        if of is None:
            of = owner.name if isinstance(owner, Operation) else "func.func"
        if rtol is None:
            rtol = ROUNDING.get(type(nn.element(y)), PRECISION)
        signed = rtol == atol == 0.0 if signed is None else signed
        self.checks.append(Check(name, of, rtol, atol, signed))
        self.output(name, y)

    def adopt(self, module: ModuleOp, weights: Weights) -> None:
        """Let a whole model be the module, whose outputs `declare` makes checks of."""
        self._adopted, self.weights = module, weights

    def declare(self, name: str, *, of: str, atol: float) -> None:
        """Make an output of the adopted module a check."""
        self.checks.append(Check(name, of, PRECISION, atol, signed=False))

    def compute(self, name: str, op: Operation, **tolerance: Any) -> SSAValue:
        """Append `op`, marked with its check's name, and check its first result."""
        with self.at(f"/{name}"):
            y = self.add(op)
        self.check(name, y, **tolerance)
        return y

    @cached_property
    def module(self) -> ModuleOp:
        """The module; what no output needs is not in it. Nothing can be added any more."""
        if self._adopted is not None:
            return self._adopted
        module = self.finish()
        for op in reversed([op for op in module.walk() if op.results]):
            if is_side_effect_free(op) and not any(y.uses for y in op.results):
                op.detach()
                op.erase()
        return module

    def draw(self, rng: np.random.Generator, symbols: Mapping[str, int]) -> Arrays:
        """Return the inputs of one call."""
        drawn: dict[str, Array] = {}
        for name, dtype, dims, draw in self._draws:
            shape = tuple(dim.evaluate(symbols) for dim in dims)
            drawn[name] = np.ascontiguousarray(draw(rng, dtype, shape))
        return drawn
