"""Operations of `nn` that slide a window over the spatial dimensions of `x[N, spatial…, C]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i32,
)
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

from lamina.dialects.dims import Dim, product
from lamina.dialects.requirements import require
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import ints, values

FUNCTIONAL = "attr-dict `:` functional-type(operands, results)"

POOLS = ("max", "argmax", "mean", "add", "lp")


def _element(value: SSAValue) -> Attribute:
    return cast("TensorType[Any]", value.type).get_element_type()


class _Windowed(IRDLOperation):
    """What the operations of windows share: strides, pads and dilations by spatial dimension.

    `pads` are low and high for each dimension in turn. Where a result's positions are `[N,
    spatial…]`, its type may also have them as one dimension, in row order.
    """

    strides = prop_def(DenseArrayBase)
    pads = prop_def(DenseArrayBase)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    def _verify_result(self, y: Attribute, positions: Sequence[Dim], channels: Dim) -> None:
        """Check the extents of a result, whose positions may be one dimension."""
        check_positions(y, positions, channels)

    def _verify_windows(self, rank: int, *others: tuple[int, ...]) -> None:
        """Check how many numbers there are, and that they make sense."""
        name, strides, pads = self.name, values(self.strides), values(self.pads)
        require(rank >= 1, f"{name}: x has no spatial dimension")
        counts = {len(strides), *map(len, others)}
        require(counts == {rank} and len(pads) == 2 * rank, f"{name}: {rank} spatial dimensions")
        require(all(n >= 1 for each in (strides, *others) for n in each), f"{name}: sizes from 1")
        require(all(pad >= 0 for pad in pads), f"{name}: pads {pads} are not negative")


@irdl_op_definition
class ConvOp(_Windowed):
    """Convolution, channels last: `x[N, spatial…, C]`, `w[O, window…, C / groups]`.

    y[n, p, o] is the sum over window t and channel c of x[n, p * stride - pad + t * dilation, c]
    * w[o, t, c], outside 0; f16 and bf16 are summed in f32, integers in i32 or what y has.
    `pads` is low and high for each spatial dimension in turn. y[N, spatial…, O], or [positions, O],
    or, of several groups, [positions, groups, O / groups].
    `packed`: w[panels, window…, C / groups, L] has L neighbouring outputs in lanes; each group
    begins a panel, but where every channel is a group, and what fills the last panel is 0.
    """

    name = "nn.conv"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    dilations = prop_def(DenseArrayBase)
    groups = prop_def(IntegerAttr)
    packed = opt_prop_def(UnitAttr)
    y = result_def(TensorType)

    assembly_format: ClassVar[str | None] = f"$x `,` $w {FUNCTIONAL}"

    def __init__(
        self,
        x: SSAValue,
        w: SSAValue,
        *,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
        element: Attribute | None = None,
    ) -> None:
        size, *window, _ = extents(w.type)
        one = (1,) * len(window)
        strides, pads, dilations = strides or one, pads or (0, 0) * len(one), dilations or one
        places = _positions(x.type, _static(window), strides, pads, dilations)
        super().__init__(
            operands=[x, w],
            properties={
                "strides": ints(strides),
                "pads": ints(pads),
                "dilations": ints(dilations),
                "groups": IntegerAttr(groups, 64),
            },
            result_types=[tensor(element or _summed(_element(x)), (*places, size))],
        )

    @property
    def window(self) -> tuple[int, ...]:
        """The extents of the window."""
        w = extents(self.w.type)
        return _static(w[1:-1] if self.packed is None else w[1:-2])

    @property
    def depth(self) -> Dim:
        """The input channels of a group."""
        return extents(self.w.type)[-1 if self.packed is None else -2]

    @property
    def outputs(self) -> Dim:
        """The output channels, of all groups."""
        y = extents(self.y.type)
        return y[-2] * y[-1] if self.parted else y[-1]

    @property
    def parted(self) -> bool:
        """Whether the result has a dimension of groups."""
        y, groups = extents(self.y.type), self.groups.value.data
        if groups == 1 or len(y) != 3:
            return False
        count = product(self.positions)
        return y[:2] == (count, groups) and count != 0

    @property
    def positions(self) -> tuple[Dim, ...]:
        """The result's extents but for its channels: images, and windows in each dimension."""
        steps = values(self.strides), values(self.pads), values(self.dilations)
        return _positions(self.x.type, self.window, *steps)

    @property
    def depthwise(self) -> bool:
        """Whether every channel is a group of its own, of one input and one output."""
        groups = Dim.of(self.groups.value.data)
        return self.depth == 1 and self.outputs == groups

    def verify_(self) -> None:
        """Check ranks and every extent of the result."""
        x, w, groups = extents(self.x.type), extents(self.w.type), self.groups.value.data
        rank = len(x) - 2
        require(len(w) == len(x) + (self.packed is not None), "conv: ranks")
        self._verify_windows(rank, self.window, values(self.dilations))
        if not self.parted:
            self._verify_result(self.y.type, self.positions, self.outputs)
        require(self.depth * groups == x[-1], "conv: channels")
        require(self.outputs % groups == Dim.of(0), f"conv: {groups} groups of {self.outputs}")
        if self.packed is None:
            require(w[0] == self.outputs, f"conv: {w[0]} windows for {self.outputs} outputs")
        else:
            lanes, share = w[-1], self.outputs if self.depthwise else self.outputs // groups
            panels = share.ceildiv(lanes) * (1 if self.depthwise else groups)
            require(w[0] == panels, f"conv: {w[0]} panels, expected {panels}")


@irdl_op_definition
class ConvTransposeOp(_Windowed):
    """Transposed convolution: what `nn.conv` with this `w` takes back. Composite.

    `x[N, spatial…, C]`, `w[C, window…, O / groups]`: x[n, i, c] * w[c, t, o] is added at y[n, i *
    stride - pad + t * dilation, o]. `extra` are elements added behind each spatial dimension, to
    which windows may reach. y has (spatial - 1) * stride + window - pads + extra, the window
    dilated.
    """

    name = "nn.conv_transpose"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    dilations = prop_def(DenseArrayBase)
    extra = prop_def(DenseArrayBase)
    groups = prop_def(IntegerAttr)
    y = result_def(TensorType)

    assembly_format: ClassVar[str | None] = f"$x `,` $w {FUNCTIONAL}"

    def __init__(
        self,
        x: SSAValue,
        w: SSAValue,
        *,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        extra: Sequence[int] = (),
        groups: int = 1,
        element: Attribute | None = None,
    ) -> None:
        one = (1,) * (len(extents(x.type)) - 2)
        strides, pads, dilations = strides or one, pads or (0, 0) * len(one), dilations or one
        extra = extra or (0,) * len(one)
        shape = _transposed(x.type, w.type, strides, pads, dilations, extra, groups)
        super().__init__(
            operands=[x, w],
            properties={
                "strides": ints(strides),
                "pads": ints(pads),
                "dilations": ints(dilations),
                "extra": ints(extra),
                "groups": IntegerAttr(groups, 64),
            },
            result_types=[tensor(element or _summed(_element(x)), shape)],
        )

    @property
    def window(self) -> tuple[int, ...]:
        """The extents of the window."""
        return _static(extents(self.w.type)[1:-1])

    def verify_(self) -> None:
        """Check ranks and every extent of the result."""
        x, w = extents(self.x.type), extents(self.w.type)
        require(len(w) == len(x), "conv_transpose: ranks")
        self._verify_windows(len(x) - 2, self.window, values(self.dilations))
        extra = values(self.extra)
        require(len(extra) == len(x) - 2 and min(extra) >= 0, f"conv_transpose: extra {extra}")
        steps = values(self.strides), values(self.pads), values(self.dilations), extra
        groups = self.groups.value.data
        shape = _transposed(self.x.type, self.w.type, *steps, groups)
        require(extents(self.y.type) == shape, f"result is {self.y.type}")
        require(w[0] == x[-1] and x[-1] % groups == Dim.of(0), "conv_transpose: channels")


@irdl_op_definition
class PoolOp(_Windowed):
    """What becomes of each window, channels last: `x[N, spatial…, C]` to y[N, spatial…, C].

    `max` (NaN if there is one) and `argmax`, its i32 place in row order of x's spatial dimensions,
    the first one on ties; `mean` of the elements inside, with `include_pad` of the padding too;
    `add`; `lp`, the p-th root of the sum of |x|^p (composite). `pads` as in `nn.conv`. With `ceil`
    the last window may reach beyond the padding, whose elements are never counted, as long as it
    begins before. y may also be [positions, C].
    """

    name = "nn.pool"

    x = operand_def(TensorType)
    kind = prop_def(StringAttr)
    window = prop_def(DenseArrayBase)
    dilations = opt_prop_def(DenseArrayBase)
    include_pad = opt_prop_def(UnitAttr)
    ceil = opt_prop_def(UnitAttr)
    p = opt_prop_def(IntegerAttr)
    y = result_def(TensorType)

    assembly_format: ClassVar[str | None] = f"$x {FUNCTIONAL}"

    def __init__(
        self,
        x: SSAValue,
        kind: str,
        window: Sequence[int],
        *,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        include_pad: bool = False,
        ceil: bool = False,
        p: int = 2,
    ) -> None:
        one = (1,) * len(window)
        strides, pads, dilations = strides or one, pads or (0, 0) * len(one), dilations or one
        places = _positions(x.type, window, strides, pads, dilations, ceil=ceil)
        result = i32 if kind == "argmax" else _element(x)
        super().__init__(
            operands=[x],
            properties={
                "kind": StringAttr(kind),
                "window": ints(window),
                "strides": ints(strides),
                "pads": ints(pads),
                "dilations": ints(dilations) if any(d != 1 for d in dilations) else None,
                "include_pad": UnitAttr() if include_pad else None,
                "ceil": UnitAttr() if ceil else None,
                "p": IntegerAttr(p, 64) if kind == "lp" else None,
            },
            result_types=[tensor(result, (*places, extents(x.type)[-1]))],
        )

    @property
    def steps(self) -> tuple[int, ...]:
        """The distances between elements of a window."""
        return values(self.dilations) or (1,) * len(values(self.window))

    @property
    def positions(self) -> tuple[Dim, ...]:
        """The result's extents but for its channels."""
        steps = values(self.strides), values(self.pads), self.steps
        ceil = self.ceil is not None
        return _positions(self.x.type, values(self.window), *steps, ceil=ceil)

    def verify_(self) -> None:
        """Check kind and every extent of the result."""
        kind, x = self.kind.data, extents(self.x.type)
        require(kind in POOLS, f"pool {kind!r}: one of {POOLS}")
        require((self.p is not None) == (kind == "lp"), f"pool {kind}: p belongs to lp")
        self._verify_windows(len(x) - 2, values(self.window), self.steps)
        self._verify_result(self.y.type, self.positions, x[-1])
        result = i32 if kind == "argmax" else _element(self.x)
        require(_element(self.y) == result, f"result is {self.y.type}")


def pairs_of(pads: Sequence[int]) -> list[tuple[int, int]]:
    """Return low and high of each dimension."""
    return list(zip(pads[0::2], pads[1::2], strict=True))


def _positions(
    x: Attribute,
    window: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    *,
    ceil: bool = False,
) -> tuple[Dim, ...]:
    """Return how many images there are, and how many windows in each spatial dimension."""
    images, *spatial, _ = extents(x)
    geometry = zip(spatial, window, strides, pairs_of(pads), dilations, strict=True)
    return (images, *(window_count(*each, ceil=ceil) for each in geometry))


def check_positions(y: Attribute, positions: Sequence[Dim], channels: Dim) -> None:
    """Check the extents of a result of windows, whose positions may be one dimension."""
    rows = (product(positions), channels)
    require(extents(y) in ((*positions, channels), rows), f"result is {y}")


def window_count(
    extent: Dim,
    size: Dim | int,
    stride: int,
    pads: tuple[Dim | int, Dim | int],
    dilation: Dim | int,
    *,
    ceil: bool = False,
) -> Dim:
    """Return how many windows there are along a dimension of an extent.

    With `ceil` the last one may reach beyond the padding.
    """
    room = extent + pads[0] + pads[1] - ((size - 1) * dilation + 1)
    if not ceil:
        return room // stride + 1
    return room.ceildiv(stride).minimum((extent + pads[0] - 1) // stride) + 1


def _transposed(
    x: Attribute,
    w: Attribute,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    extra: Sequence[int],
    groups: int,
) -> tuple[Dim, ...]:
    """Return the extents of a transposed convolution."""
    images, *spatial, _ = extents(x)
    _, *window, outputs = extents(w)
    geometry = zip(spatial, window, strides, pairs_of(pads), dilations, extra, strict=True)
    sizes = (
        (n - 1) * stride + (size - 1) * dilation + 1 - sum(each) + more
        for n, size, stride, each, dilation, more in geometry
    )
    return (images, *sizes, outputs * groups)


def _static(window: Sequence[Dim]) -> tuple[int, ...]:
    """Return the extents of a window; -1 for one that is no number, which no window has."""
    return tuple(-1 if n.constant is None else n.constant for n in window)


def _summed(element: Attribute) -> Attribute:
    """Return the type of a convolution's result: integers are summed in i32."""
    return element if isinstance(element, AnyFloat) else i32
