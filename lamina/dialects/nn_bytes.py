"""Operations of `nn` between numbers and bits: those of small floats, and of other types."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from lamina.dialects.byte_floats import BYTE_FLOATS, ByteFloat
from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents, tensor, ui8
from lamina.dialects.traits import Elementwise

FUNCTIONAL = "attr-dict `:` functional-type(operands, results)"


class _Coded(IRDLOperation):
    """Numbers on one side, their codes in `format` on the other."""

    x = operand_def(TensorType)
    format = prop_def(StringAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), Elementwise())
    assembly_format = f"$x {FUNCTIONAL}"

    @property
    def code(self) -> ByteFloat:
        """The form of the codes."""
        return BYTE_FLOATS[self.format.data]

    def _verify(self, numbers: SSAValue, codes: SSAValue) -> None:
        """Check format, shapes and elements."""
        known = ", ".join(BYTE_FLOATS)
        require(self.format.data in BYTE_FLOATS, f"format {self.format.data!r}: one of {known}")
        require(extents(self.x.type) == extents(self.y.type), f"{self.name} keeps its shape")
        require(_element(codes) == ui8, f"codes are {codes.type}, expected ui8")
        floats = _element(numbers) in (f32, f16, bf16)
        require(floats, f"numbers are {numbers.type}, expected f32, f16 or bf16")


def _element(value: SSAValue) -> Attribute:
    return cast("TensorType[Any]", value.type).get_element_type()


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """The numbers of another type that have the same bits; both types have as many.

    %y = nn.bitcast %x : (tensor<4xf32>) -> tensor<4xi32>
    """

    name = "nn.bitcast"

    x = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), Elementwise())
    assembly_format = f"$x {FUNCTIONAL}"

    def __init__(self, x: SSAValue, to: Attribute) -> None:
        super().__init__(operands=[x], result_types=[tensor(to, extents(x.type))])

    def verify_(self) -> None:
        """Check shapes and widths."""
        require(extents(self.x.type) == extents(self.y.type), "a bitcast keeps its shape")
        widths = {cast("Any", _element(value)).bitwidth for value in (self.x, self.y)}
        require(len(widths) == 1, f"a bitcast of {self.x.type} to {self.y.type}")
        require(1 not in widths, "a bitcast is of whole bytes")


@irdl_op_definition
class DecodeOp(_Coded):
    """The numbers that codes of a float of 8 bits or fewer stand for.

    %y = nn.decode %x {format = "f8e4m3fn"} : (tensor<4xui8>) -> tensor<4xf32>
    """

    name = "nn.decode"

    def __init__(self, x: SSAValue, format: str) -> None:
        super().__init__(
            operands=[x],
            properties={"format": StringAttr(format)},
            result_types=[tensor(f32, extents(x.type))],
        )

    def verify_(self) -> None:
        """Check format, shapes and elements."""
        self._verify(self.y, self.x)


@irdl_op_definition
class EncodeOp(_Coded):
    """The codes of the nearest numbers in a float of 8 bits or fewer, halves to even.

    What is beyond the largest number becomes that with `saturate`, else infinity, or NaN where
    there is none.

    %y = nn.encode %x {format = "f8e5m2", saturate} : (tensor<4xf32>) -> tensor<4xui8>
    """

    name = "nn.encode"

    saturate = opt_prop_def(UnitAttr)

    def __init__(self, x: SSAValue, format: str, *, saturate: bool = True) -> None:
        super().__init__(
            operands=[x],
            properties={"format": StringAttr(format)}
            | ({"saturate": UnitAttr()} if saturate else {}),
            result_types=[tensor(ui8, extents(x.type))],
        )

    def verify_(self) -> None:
        """Check format, shapes and elements."""
        self._verify(self.x, self.y)
