"""Operations of `nn` whose results' extents depend on values that are known only when they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, IntegerType, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from lamina.dialects.dims import Dim, parse_dim, product
from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents


@irdl_op_definition
class BindOp(IRDLOperation):
    """Make the integers of `x` the values of symbols, which types may name from here on.

    A value below 0 is an error of the call, as are values for which the two extents of one of
    the pairs in `equal` differ; the error names the source node.

    nn.bind %x {symbols = ["n0", "n1"], equal = [["n0*n1", "4*T"]]} : tensor<2xi64>
    """

    name = "nn.bind"

    x = operand_def(TensorType)
    symbols = prop_def(ArrayAttr[StringAttr])
    equal = prop_def(ArrayAttr[ArrayAttr[StringAttr]])

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x)"

    def __init__(
        self, x: SSAValue, symbols: Sequence[str], equal: Sequence[tuple[Dim, Dim]] = ()
    ) -> None:
        rows = [ArrayAttr([StringAttr(str(a)), StringAttr(str(b))]) for a, b in equal]
        super().__init__(
            operands=[x],
            properties={
                "symbols": ArrayAttr([StringAttr(name) for name in symbols]),
                "equal": ArrayAttr(rows),
            },
        )

    def verify_(self) -> None:
        """Check that there is an integer for each symbol."""
        kind = cast("TensorType[Any]", self.x.type)
        require(isinstance(kind.get_element_type(), IntegerType), f"bind of {kind}")
        count = product(extents(kind))
        require(count == len(self.symbols), f"bind of {kind} to {len(self.symbols)} symbols")
        for a, b in self.equal:
            parse_dim(a.data)
            parse_dim(b.data)


@irdl_op_definition
class ForeignOp(IRDLOperation):
    """A node of a source graph, run by what its format says it means: it is correct, and slow.

    `kind` names the operator, such as "onnx.Loop"; `payload` is the node as its reader wrote it.
    Symbols of the results' types that nothing bound before are bound by the results. `texts` says
    that it reads texts or gives some: what their codes stand for is known during a call.

    %y = nn.foreign %x, %axes {kind = "onnx.ReduceSum", payload = "…"}
         : (tensor<3x4xf32>, tensor<1xi64>) -> tensor<?x?xf32, #nn.dims<["n0", "n1"]>>
    """

    name = "nn.foreign"

    xs = var_operand_def(TensorType)
    kind = prop_def(StringAttr)
    payload = prop_def(StringAttr)
    texts = opt_prop_def(UnitAttr)
    ys = var_result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$xs attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        xs: Sequence[SSAValue],
        kind: str,
        payload: str,
        types: Sequence[Attribute],
        *,
        texts: bool = False,
    ) -> None:
        super().__init__(
            operands=[xs],
            properties={
                "kind": StringAttr(kind),
                "payload": StringAttr(payload),
                "texts": UnitAttr() if texts else None,
            },
            result_types=[types],
        )
