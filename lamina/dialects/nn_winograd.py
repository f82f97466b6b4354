"""The operation of `nn` that convolves by transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType
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
from lamina.dialects.nn_windows import check_positions, pairs_of, window_count
from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents
from lamina.dialects.tile import ints, values


@irdl_op_definition
class WinogradOp(IRDLOperation):
    """Convolution of square windows, one place apart, by tiles: `x[N, H, W, C]`. Composite.

    A tile of `tile` x `tile` results of an image is A^T (w * (B^T d B)) A, summed over channels; d
    is what its windows meet, n x n elements, outside 0, and n is `tile` + window - 1. The weights
    come transformed, G g G^T, in panels of L output channels: w[n * n, panels, C, L]. `toom_cook`
    has the matrices. `pads` is low and high for each dimension in turn. y[N, H', W', O], or
    [positions, O].
    """

    name = "nn.winograd"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    tile = prop_def(IntegerAttr)
    window = prop_def(IntegerAttr)
    pads = prop_def(DenseArrayBase)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format: ClassVar[str | None] = (
        "$x `,` $w attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        x: SSAValue,
        w: SSAValue,
        y: Attribute,
        *,
        tile: int,
        window: int,
        pads: Sequence[int],
    ) -> None:
        super().__init__(
            operands=[x, w],
            properties={
                "tile": IntegerAttr(tile, 64),
                "window": IntegerAttr(window, 64),
                "pads": ints(pads),
            },
            result_types=[y],
        )

    @property
    def results_abreast(self) -> int:
        """The results of a tile in each dimension."""
        return self.tile.value.data

    @property
    def taps(self) -> int:
        """The extent of a window."""
        return self.window.value.data

    @property
    def reach(self) -> int:
        """The elements that a tile meets in each dimension."""
        return self.results_abreast + self.taps - 1

    @property
    def depth(self) -> Dim:
        """The input channels."""
        return extents(self.x.type)[-1]

    @property
    def outputs(self) -> Dim:
        """The output channels."""
        return extents(self.y.type)[-1]

    @property
    def positions(self) -> tuple[Dim, ...]:
        """The result's extents but for its channels: images, rows, columns."""
        images, *sides, _ = extents(self.x.type)
        each = zip(sides, pairs_of(values(self.pads)), strict=True)
        return (images, *(window_count(n, self.taps, 1, pads, 1) for n, pads in each))

    @property
    def tiles(self) -> tuple[Dim, ...]:
        """How many images there are, and tiles in each dimension of one."""
        images, *sides = self.positions
        return (images, *(n.ceildiv(self.results_abreast) for n in sides))

    def verify_(self) -> None:
        """Check ranks and extents."""
        x, w, y = (extents(value.type) for value in (self.x, self.w, self.y))
        require(len(x) == 4 and len(w) == 4, "winograd: x and w have four dimensions")
        require(len(values(self.pads)) == 4, "winograd: two pads for each of two dimensions")
        require(w[0] == self.reach**2 and w[2] == x[-1], f"winograd: weights {w}")
        require(w[1] == y[-1].ceildiv(w[-1]), f"winograd: {w[1]} panels for {y[-1]} outputs")
        check_positions(self.y.type, self.positions, y[-1])
