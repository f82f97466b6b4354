"""Operations of `nn` that take or put elements at places that other tensors say."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from lamina.dialects.dims import Dim
from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import REDUCTIONS

FUNCTIONAL = "attr-dict `:` functional-type(operands, results)"

SCATTERS = ("set", *REDUCTIONS[:4])
"""How an update meets what was there: it takes its place, or both become one."""


def _element(type: Attribute) -> Attribute:
    return cast("TensorType[Any]", type).get_element_type()


def _require_places(indices: SSAValue) -> None:
    whole = isinstance(_element(indices.type), IntegerType)
    require(whole, f"indices are {indices.type}, expected integers")


class _Gather(IRDLOperation):
    """A tensor `x`, places in it, and the elements that are there."""

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$x `,` $indices {FUNCTIONAL}"


class _Scatter(IRDLOperation):
    """A tensor `x`, places in it, and what is put there: the new tensor."""

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    kind = prop_def(StringAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = f"$x `,` $indices `,` $updates {FUNCTIONAL}"

    def _verify_kind(self) -> None:
        """Check the kind and the elements."""
        require(self.kind.data in SCATTERS, f"{self.name} {self.kind.data!r}: one of {SCATTERS}")
        require(self.x.type == self.y.type, "a scatter keeps its type")
        same = _element(self.x.type) == _element(self.updates.type)
        require(same, f"updates are {self.updates.type}, x is {self.x.type}")
        _require_places(self.indices)


@irdl_op_definition
class GatherNdOp(_Gather):
    """`y[b…, i…, s…] = x[b…, indices[b…, i…, 0], indices[b…, i…, 1], …, s…]`.

    The last dimension of `indices` has a place in each dimension of x after the first
    `batch_dims`, or in the first few of those. An index outside of its dimension is an error of
    the call that names the source node.
    """

    name = "nn.gather_nd"

    batch_dims = prop_def(IntegerAttr)

    def __init__(self, x: SSAValue, indices: SSAValue, batch_dims: int = 0) -> None:
        super().__init__(
            operands=[x, indices],
            properties={"batch_dims": IntegerAttr(batch_dims, 64)},
            result_types=[tensor(_element(x.type), _gathered(x.type, indices.type, batch_dims))],
        )

    def verify_(self) -> None:
        """Check the result's shape."""
        x, indices, batch = self.x.type, self.indices.type, self.batch_dims.value.data
        depth = extents(indices)[-1].constant if extents(indices) else None
        fits = depth is not None and 0 <= batch <= batch + depth <= len(extents(x))
        require(fits and batch < len(extents(indices)), f"{indices} has no places in {x}")
        require(extents(x)[:batch] == extents(indices)[:batch], f"batches of {x} and {indices}")
        require(extents(self.y.type) == _gathered(x, indices, batch), f"result is {self.y.type}")
        require(_element(self.y.type) == _element(x), f"result is {self.y.type}")
        _require_places(self.indices)


def _gathered(x: Attribute, indices: Attribute, batch: int) -> tuple[Dim, ...]:
    depth = extents(indices)[-1].constant or 0
    return (*extents(indices)[:-1], *extents(x)[batch + depth :])


@irdl_op_definition
class GatherElementsOp(_Gather):
    """`y[…, i, …] = x[…, indices[…, i, …], …]` along `axis`; x and indices are of one rank.

    An index outside of `axis` is an error of the call that names the source node.
    """

    name = "nn.gather_elements"

    axis = prop_def(IntegerAttr)

    def __init__(self, x: SSAValue, indices: SSAValue, axis: int) -> None:
        super().__init__(
            operands=[x, indices],
            properties={"axis": IntegerAttr(axis, 64)},
            result_types=[tensor(_element(x.type), extents(indices.type))],
        )

    def verify_(self) -> None:
        """Check the axis and the result's shape."""
        rank = len(extents(self.x.type))
        require(0 <= self.axis.value.data < rank, f"no axis {self.axis.value.data} in {rank}")
        require(rank == len(extents(self.indices.type)), f"indices are {self.indices.type}")
        expected = tensor(_element(self.x.type), extents(self.indices.type))
        require(self.y.type == expected, f"result is {self.y.type}")
        _require_places(self.indices)


@irdl_op_definition
class ScatterNdOp(_Scatter):
    """`y = x` with `updates[i…, s…]` put at `x[indices[i…, 0], indices[i…, 1], …, s…]`.

    Duplicates: `add`, `mul`, `max`, `min` accumulate in ascending i; `set` keeps the last. An
    index outside of its dimension is an error of the call that names the source node.
    """

    name = "nn.scatter_nd"

    def __init__(self, x: SSAValue, indices: SSAValue, updates: SSAValue, kind: str) -> None:
        super().__init__(
            operands=[x, indices, updates],
            properties={"kind": StringAttr(kind)},
            result_types=[x.type],
        )

    def verify_(self) -> None:
        """Check kind and shapes."""
        self._verify_kind()
        x, indices = extents(self.x.type), extents(self.indices.type)
        depth = indices[-1].constant if indices else None
        require(depth is not None and depth <= len(x), f"{self.indices.type} has no places in x")
        shape = (*indices[:-1], *x[depth:])
        require(extents(self.updates.type) == shape, f"updates are {self.updates.type}")


@irdl_op_definition
class ScatterElementsOp(_Scatter):
    """`y = x` with `updates[…, i, …]` put at `x[…, indices[…, i, …], …]` along `axis`.

    Duplicates and indices outside are as in `nn.scatter_nd`; `indices` may be smaller than x.
    """

    name = "nn.scatter_elements"

    axis = prop_def(IntegerAttr)

    def __init__(
        self, x: SSAValue, indices: SSAValue, updates: SSAValue, axis: int, kind: str
    ) -> None:
        super().__init__(
            operands=[x, indices, updates],
            properties={"axis": IntegerAttr(axis, 64), "kind": StringAttr(kind)},
            result_types=[x.type],
        )

    def verify_(self) -> None:
        """Check kind, axis and shapes."""
        self._verify_kind()
        rank, indices = len(extents(self.x.type)), extents(self.indices.type)
        require(0 <= self.axis.value.data < rank, f"no axis {self.axis.value.data} in {rank}")
        require(len(indices) == rank, f"indices are {self.indices.type}")
        require(extents(self.updates.type) == indices, f"updates are {self.updates.type}")
