"""The `acme` dialect: soft caps."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects.builtin import AnyFloatConstr, FloatAttr, TensorType, f64
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from lamina.dialects.traits import Elementwise


@irdl_op_definition
class SoftcapOp(IRDLOperation):
    """`y = cap * tanh(x / cap)`, element by element (Gemma 2, 2024, section 2).

    %y = acme.softcap %x {cap = 3.000000e+01 : f64} : tensor<4xf32>
    """

    name = "acme.softcap"

    T: ClassVar = VarConstraint("T", TensorType.constr(AnyFloatConstr))

    x = operand_def(T)
    cap = prop_def(FloatAttr)
    y = result_def(T)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), Elementwise())
    assembly_format = "$x attr-dict `:` type($x)"

    def __init__(self, x: SSAValue, cap: float) -> None:
        super().__init__(
            operands=[x], properties={"cap": FloatAttr(cap, f64)}, result_types=[x.type]
        )

    @property
    def limit(self) -> float:
        """The cap as a number."""
        cap: FloatAttr[Any] = self.cap
        return cap.value.data

    def verify_(self) -> None:
        """Check that the cap is a positive number."""
        if not 0.0 < self.limit < float("inf"):
            raise VerifyException(f"cap is {self.limit}, expected a positive number")


ACME = Dialect("acme", [SoftcapOp])
