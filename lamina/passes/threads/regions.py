"""What an access reaches of a memory, and which thread reaches what of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.layouts import Layout
from lamina.dialects.tile import shape_of
from lamina.passes.choose_layouts import is_elementwise

if TYPE_CHECKING:
    from lamina.passes.threads.lowering import Lowering

Access = tile.LoadOp | tile.StoreOp


class Region(NamedTuple):
    """The elements of a tile of `shape` from `at` on, `steps` apart; `memory` says the strides.

    Equal regions of one memory are the same elements. With `layout` no two threads reach one of
    them, and the layout says which thread reaches which.
    """

    memory: SSAValue | Attribute
    at: tuple[SSAValue, ...]
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    layout: Layout | None

    @property
    def whole(self) -> Region:
        """The region, whichever threads reach it."""
        return self._replace(layout=None)


def region_of(low: Lowering, op: Access) -> Region | None:
    """Return what an access reaches; None for elements that indices pick one by one.

    It is the same before the operation is lowered and behind that.
    """
    if any(shape_of(at.type) for at in op.at):
        return None
    layout = _of_one_thread_each(low, op)
    return Region(_memory(op.x), tuple(op.at), op.tile_shape, tuple(op.steps), layout)


def _of_one_thread_each(low: Lowering, op: Access) -> Layout | None:
    """Return the layout of an access by which no two threads reach an element, if it is such."""
    value = op.y if isinstance(op, tile.LoadOp) else op.v
    apart = all(n == 1 or step for n, step in zip(op.tile_shape, op.steps, strict=True))
    if not apart or not shape_of(value.type) or not _is_settled(value):
        return None
    layout = low.layout(value)
    alone = layout.span == low.threads and all(
        weight for size, weight in layout.threads if size > 1
    )
    return layout if alone else None


def _is_settled(value: SSAValue) -> bool:
    """Tell whether a value lies as its operation says: others may be at home elsewhere."""
    op = value.owner
    return isinstance(op, tile.LoadOp) or (isinstance(op, Operation) and is_elementwise(op))


def _memory(x: SSAValue) -> SSAValue | Attribute:
    """Return what accesses by several names to the same memory have in common."""
    kind = cast("MemRefType[Any]", x.type)
    known = isinstance(kind.layout, NoneAttr) and DYNAMIC_INDEX not in kind.get_shape()[1:]
    return kind if known else x
