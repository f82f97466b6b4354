"""Launch kernels that need nothing of each other together, with one barrier for all."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import plan, tile
from lamina.dialects.areas import Area
from lamina.dialects.dims import Dim
from lamina.passes.functions import find_function
from lamina.passes.rewriting import add_source


@dataclass(frozen=True)
class FuseLaunchesPass(ModulePass):
    """Neighbouring launches without a conflict are one: the projections q, k and v, for example.

    Two kernels conflict if one writes memory that the other reads or writes; columns of a matrix
    that lie side by side are memories apart.
    """

    name = "fuse-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        kernels = {k.sym_name.data: k for k in op.ops if isinstance(k, tile.AnyKernelOp)}
        _block(function.body.block, kernels)


def _block(block: Block, kernels: dict[str, tile.AnyKernelOp]) -> None:
    open_launch: plan.LaunchOp | None = None
    for op in list(block.ops):
        if isinstance(op, plan.LaunchOp):
            if open_launch is not None and not _conflict(open_launch, op, kernels):
                _join(open_launch, op)
            open_launch = op
        elif not isinstance(op, plan.ViewOp | plan.AllocOp | plan.ArenaOp):
            open_launch = None
        for region in op.regions:
            if not isinstance(op, plan.LaunchOp):
                _block(region.block, kernels)


def _join(first: plan.LaunchOp, second: plan.LaunchOp) -> None:
    """Move the calls of the first into the second, ahead of its own."""
    head = second.body.block.first_op
    assert head is not None
    add_source(second, first)
    for call in list(first.body.block.ops):
        call.detach()
        second.body.block.insert_op_before(call, head)
    first.detach()
    first.erase()


_Place = tuple[SSAValue, Area]
"""What a buffer is a view of in the end, and which bytes of it."""


def _conflict(
    first: plan.LaunchOp, second: plan.LaunchOp, kernels: dict[str, tile.AnyKernelOp]
) -> bool:
    reads, writes = _touched(first, kernels)
    more_reads, more_writes = _touched(second, kernels)
    return _meet(writes, [*more_reads, *more_writes]) or _meet(reads, more_writes)


def _meet(some: list[_Place], others: list[_Place]) -> bool:
    roots = {root for root, _ in some} & {root for root, _ in others}
    return any(
        root is other and not area.apart(there)
        for root, area in some
        if root in roots
        for other, there in others
    )


def _touched(
    launch: plan.LaunchOp, kernels: dict[str, tile.AnyKernelOp]
) -> tuple[list[_Place], list[_Place]]:
    reads: list[_Place] = []
    writes: list[_Place] = []
    for call in launch.calls:
        access = kernels[call.callee.root_reference.data].access
        for buffer, how in zip(call.buffers, access, strict=True):
            if how.data != "write":
                reads.append(_place(buffer))
            if how.data != "read":
                writes.append(_place(buffer))
    return reads, writes


def _place(buffer: SSAValue) -> _Place:
    area = plan.area_of(buffer)
    while isinstance(buffer.owner, plan.ViewOp):
        buffer = buffer.owner.x
        if isinstance(buffer.owner, plan.ViewOp):
            area = area.moved(Dim.of(buffer.owner.offset.data))
    return buffer, area
