"""Convolutions of any channels, images and windows, step by step more general.

First channels are symbols, then images whose extents are sums or products of others, then how
windows lie, then how many elements they have. What a schedule divides stays divided, as it does
in products.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from xdsl.ir import BlockArgument, Operation

from lamina.dialects import nn
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents
from lamina.passes.kernels.axes import Axes, Tie, axes_of
from lamina.passes.kernels.conv_kernel import COLUMNS, STEP, lanes_of, multiplies, panels_abreast
from lamina.passes.kernels.general_extents import generalised
from lamina.passes.kernels.general_geometry import Geometry, say_geometry
from lamina.passes.kernels.general_products import follows
from lamina.passes.kernels.named_axes import NamedAxes, Values, values_of
from lamina.passes.kernels.windows import positions_of, windows_of

General = tuple[nn.GroupOp, Values]


class Step(IntEnum):
    """What is any number, beside what was before."""

    CHANNELS = 0
    IMAGES = 1
    PLACES = 2
    SIZES = 3


def general_windows(step: Step) -> Callable[[nn.GroupOp], General | None]:
    """Return a rule for groups of convolutions, up to a step.

    It gives a group, and what its new symbols are in the group that it was made of; None where
    weights lie as they come, images are padded, or what follows needs numbers.
    """

    def rule(group: nn.GroupOp) -> General | None:
        base, values = generalised(group)
        new = base.clone()
        ops = list(new.body.block.ops)[:-1]
        found = [op for op in ops if isinstance(op, nn.ConvOp)]
        if len(found) != 1 or not _is_plain(new, found[0]):
            return None
        (op,) = found
        # A place in a window of channels apart is little work: a loop of a number is written out.
        if step >= Step.SIZES and op.depthwise:
            return None
        axes = axes_of(ops, _TIES)
        if axes is None or not all(follows(each) or each is op for each in ops):
            return None
        named = NamedAxes(axes)
        _General(op, new, named).name(step)
        if not named.clear:
            return None
        outer = {name: dim.substitute({**values}) for name, dim in named.values.items()}
        return new, {**values, **outer}

    return rule


def _is_plain(group: nn.GroupOp, op: nn.ConvOp) -> bool:
    schedule = group.schedule
    if schedule is None or "threads" in schedule.values.data or op.packed is None:
        return False
    sides = windows_of(op)
    # Borders of images are many, and checked row by row: addresses there are better numbers.
    if len(sides) > 1 and any(side.low != 0 or side.high != 0 for side in sides):
        return False
    arguments = isinstance(op.x, BlockArgument) and isinstance(op.w, BlockArgument)
    rows = len(extents(op.y.type)) == 2 and (op.groups.value.data == 1 or op.depthwise)
    return arguments and rows


class _General:
    """A convolution whose dimensions are given names."""

    def __init__(self, op: nn.ConvOp, group: nn.GroupOp, named: NamedAxes) -> None:
        self.op, self.group, self.named = op, group, named
        self.sides = windows_of(op)
        self.counts = positions_of(op)

    def name(self, step: Step) -> None:
        """Give names up to a step, and write them into the group."""
        if not self.op.depthwise:
            self._channels()
        if step >= Step.IMAGES:
            self._images()
        if step >= Step.PLACES:
            self.sides = tuple(self._side(d, side, step) for d, side in enumerate(self.sides))
            say_geometry(self.op, self.sides)
        images = [self.named.name((self.op.x, d)) for d in range(len(self.counts))]
        self.named.call((self.op.y, 0), product(positions_of(self.op, images)))
        self.named.write([*values_of(self.group)])

    def _channels(self) -> None:
        op, named, schedule = self.op, self.named, self.group.schedule
        assert schedule is not None
        step = schedule.get("k", STEP) if multiplies(op) else 1
        last, depth = len(self.counts), op.depth
        if depth % step == 0 and depth != step:
            named.call((op.x, last), named.symbol("steps", depth // step) * step)
        panels, lanes = extents(op.w.type)[0], lanes_of(op)
        if op.outputs == panels * lanes:
            count = panels_abreast(panels, max(1, schedule.get("n", COLUMNS) // lanes))
            bands = named.symbol("bands", panels // count)
            named.call((op.w, 0), bands * count)
            named.call((op.y, 1), bands * (count * lanes))

    def _images(self) -> None:
        for d, (count, extent) in enumerate(
            zip(self.counts, extents(self.op.x.type), strict=False)
        ):
            if count != 1:
                self.named.call((self.op.x, d), self.named.symbol(f"places{d}", extent))

    def _side(self, d: int, side: Geometry, step: Step) -> Geometry:
        symbol, size = self.named.symbol, side.size
        if step >= Step.SIZES and size != 1:
            size = symbol(f"size{d}", size)
            self.named.call((self.op.w, d + 1), size)
        return Geometry(
            size,
            symbol(f"low{d}", side.low),
            symbol(f"high{d}", side.high),
            symbol(f"step{d}", side.step) if side.size != 1 else side.step,
        )


def _tie(axes: Axes, op: nn.ConvOp) -> None:
    if not op.depthwise:
        x, w = (len(extents(v.type)) for v in (op.x, op.w))
        axes.tie((op.x, x - 1), (op.w, w - 2))


_TIES: Final[dict[type[Operation], Tie]] = {nn.ConvOp: _tie}
"""What convolutions tie: input channels. Output channels are panels in one place."""
