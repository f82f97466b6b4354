"""The recurrent networks of `nn`: one layer in one direction, all its steps in one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents, tensor

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""The cells, and how many gates each has: i, o, f, c of an LSTM; z, r, h of a GRU."""

ROLES = ("x", "r", "h", "c", "bias", "peepholes", "lengths")
"""What operands may be: the first three always are there, and `c` where the cell is an LSTM."""

ACTIVATIONS = {
    "affine": 2,
    "elu": 1,
    "hard_sigmoid": 2,
    "leaky_relu": 1,
    "relu": 0,
    "scaled_tanh": 2,
    "sigmoid": 0,
    "softplus": 0,
    "softsign": 0,
    "tanh": 0,
    "thresholded_relu": 1,
}
"""The functions of gates, and how many parameters (alpha, beta) each has."""

FUNCTIONS = {"rnn": 1, "gru": 2, "lstm": 3}
"""How many functions each cell has."""

Function = tuple[str, tuple[float, ...]]
"""An activation with its parameters."""


@irdl_op_definition
class RecurrentOp(IRDLOperation):
    """A layer of a recurrent network: what `x[T, B, gate, H]` gives to gates, then step by step.

    `r[H, gate, H]` are the weights of the state, `h[B, H]` and `c[B, H]` it is at first. Results:
    y[T, B, H] and the last states. With s = x_t + h r: an RNN is h = f(s). A GRU has z, r = f(s)
    and n = g(x_n + (r * h) r_n), with `linear` g(x_n + r * (h r_n + bias)) for `bias[H]`;
    h = (1 - z) n + z h. An LSTM has i, f = f(s + p c), with `coupled` f = 1 - i, c = f c + i g(s),
    o = f(s + p c) of the new c, h = o * h(c); `peepholes[3, H]` are p of i, o, f. `clip` bounds
    what the functions of gates are given. `lengths[B]` i32: beyond it states stay and y is 0.
    `reverse` begins at the end. With `levels` r meets (q - n) d for a row h: d = (max h - min h) /
    255 with 0 in the range, n = round(-min h / d), q = round(h / d) + n in [0, 255].
    (Hochreiter and Schmidhuber 1997; Cho et al. 2014.)

    %y, %h = nn.recurrent %x, %r, %h0 {cell = "rnn", roles = ["x", "r", "h"],
             functions = [["tanh"]]} : (tensor<5x2x1x8xf32>, tensor<8x1x8xf32>, tensor<2x8xf32>)
             -> (tensor<5x2x8xf32>, tensor<2x8xf32>)
    """

    name = "nn.recurrent"

    xs = var_operand_def(TensorType)
    cell = prop_def(StringAttr)
    roles = prop_def(ArrayAttr[StringAttr])
    functions = prop_def(ArrayAttr[ArrayAttr])
    clip = opt_prop_def(FloatAttr)
    reverse = opt_prop_def(UnitAttr)
    linear = opt_prop_def(UnitAttr)
    coupled = opt_prop_def(UnitAttr)
    levels = opt_prop_def(UnitAttr)
    ys = var_result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$xs attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        cell: str,
        operands: dict[str, SSAValue],
        functions: Sequence[Function],
        *,
        clip: float | None = None,
        reverse: bool = False,
        linear: bool = False,
        coupled: bool = False,
        levels: bool = False,
    ) -> None:
        x, h = operands["x"], operands["h"]
        shape = extents(x.type)
        element = cast("TensorType[Any]", x.type).get_element_type()
        states = [h.type] * (2 if cell == "lstm" else 1)
        super().__init__(
            operands=[list(operands.values())],
            properties={
                "cell": StringAttr(cell),
                "roles": ArrayAttr([StringAttr(role) for role in operands]),
                "functions": ArrayAttr([_function(each) for each in functions]),
                "clip": None if clip is None else FloatAttr(clip, f64),
                "reverse": UnitAttr() if reverse else None,
                "linear": UnitAttr() if linear else None,
                "coupled": UnitAttr() if coupled else None,
                "levels": UnitAttr() if levels else None,
            },
            result_types=[[tensor(element, (*shape[:2], shape[3])), *states]],
        )

    def role(self, name: str) -> SSAValue | None:
        """Return the operand of a role, None if there is none."""
        found = zip(self.roles, self.xs, strict=True)
        return next((x for role, x in found if role.data == name), None)

    @property
    def x(self) -> SSAValue:
        """What the inputs give to gates, [T, B, gate, H]."""
        return self.xs[0]

    @property
    def activations(self) -> tuple[Function, ...]:
        """The functions of gates, with their parameters."""
        rows = (list(row) for row in self.functions)
        return tuple(
            (
                cast("StringAttr", name).data,
                tuple(float(cast("FloatAttr[Any]", n).value.data) for n in numbers),
            )
            for name, *numbers in rows
        )

    def bound(self, number: int) -> float | None:
        """Return what a function's argument is cut to; that of an LSTM's new state is not."""
        if self.clip is None or (self.cell.data, number) == ("lstm", 2):
            return None
        return float(cast("FloatAttr[Any]", self.clip).value.data)

    @property
    def gates(self) -> int:
        """How many gates the cell has."""
        return GATES[self.cell.data]

    def verify_(self) -> None:
        """Check cell, roles, functions and all shapes."""
        cell = self.cell.data
        require(cell in GATES, f"recurrent {cell!r}: one of {', '.join(GATES)}")
        roles = [role.data for role in self.roles]
        require(roles[:3] == ["x", "r", "h"], f"operands {roles} begin with x, r, h")
        require(len(set(roles)) == len(roles) and {*roles} <= {*ROLES}, f"operands {roles}")
        require(("c" in roles) == (cell == "lstm"), f"operands {roles} of the cell {cell}")
        require(len(roles) == len(self.xs), f"{len(self.xs)} operands for {roles}")
        self._verify_functions()
        self._verify_shapes()

    def _verify_functions(self) -> None:
        for row in self.functions:
            known = len(row) > 0 and isinstance(row.data[0], StringAttr)
            require(known and all(isinstance(n, FloatAttr) for n in row.data[1:]), f"{row}")
        for name, parameters in self.activations:
            require(ACTIVATIONS.get(name) == len(parameters), f"function {name}{parameters}")
        require(len(self.functions) == FUNCTIONS[self.cell.data], "functions of the cell")

    def _verify_shapes(self) -> None:
        shape = extents(self.x.type)
        require(len(shape) == 4 and shape[2] == self.gates, f"x is {self.x.type}")
        steps, rows, gates, width = shape
        require(width.constant is not None, f"the state's width is {width}")
        element = cast("TensorType[Any]", self.x.type).get_element_type()
        require(isinstance(element, AnyFloat), f"a state of {element}")
        state = tensor(element, [rows, width])
        wanted: dict[str, Attribute] = {
            "r": tensor(element, [width, gates, width]),
            "h": state,
            "c": state,
            "bias": tensor(element, [width]),
            "peepholes": tensor(element, [3, width]),
            "lengths": tensor(i32, [rows]),
        }
        for role, x in zip(self.roles, self.xs, strict=True):
            type = wanted.get(role.data, x.type)
            require(x.type == type, f"{role.data} is {x.type}, expected {type}")
        results = [tensor(element, [steps, rows, width]), *[state] * (1 + ("c" in self._names))]
        require([y.type for y in self.ys] == results, f"results of {self.x.type}")

    @property
    def _names(self) -> set[str]:
        return {role.data for role in self.roles}


def _function(function: Function) -> ArrayAttr[Any]:
    name, parameters = function
    return ArrayAttr([StringAttr(name), *(FloatAttr(n, f64) for n in parameters)])
