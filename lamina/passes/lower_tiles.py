"""Make the program of a block that of each of its threads: `tile` kernels become `simt`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, VectorType
from xdsl.ir import Operation, Region
from xdsl.passes import ModulePass

from lamina.dialects import simt, tile
from lamina.dialects.layouts import LAYOUT, Layout, layouts_of
from lamina.errors import InputError, LoweringError
from lamina.passes.choose_layouts import block_threads
from lamina.passes.threads import (
    control_rules,
    joint_rules,
    memory_rules,
    product_rules,
    reduce_rules,
)
from lamina.passes.threads.lowering import Lowering, Rule
from lamina.passes.threads.tile_shapes import check_tiles

RULES: Mapping[type[Operation], Rule] = {
    **control_rules.RULES,
    **joint_rules.RULES,
    **memory_rules.RULES,
    **product_rules.RULES,
    **reduce_rules.RULES,
}
"""What each operation of a block's program is for a thread."""


@dataclass(frozen=True)
class LowerTilesPass(ModulePass):
    """Kernels are programs of one of `threads` threads, in subgroups of `subgroup`.

    A kernel whose schedule names other threads or `stages` has those. Tiles lie where
    `tile.layout` says. Elements that a thread needs and does not have come from its subgroup by
    shuffles, or through shared memory, of which a kernel may take `memory` bytes. With `narrow`,
    elements of 8 and 16 bits take no more than that there, and operands of matrix units are copied
    there in `stages` rounds at a time, asynchronously; with `boxes`, those of several subgroups as
    boxes of their tensors.
    """

    name = "lower-tiles"

    threads: int = 64
    subgroup: int = 32
    memory: int = 32768
    narrow: bool = False
    stages: int = 1
    boxes: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        for name, least in (("threads", 1), ("subgroup", 1), ("memory", 0), ("stages", 1)):
            if getattr(self, name) < least:
                raise InputError(
                    f"lower-tiles: {name} is {getattr(self, name)}, expected at least {least}"
                )
        if self.subgroup & (self.subgroup - 1):
            raise InputError(f"lower-tiles: subgroup is {self.subgroup}, expected a power of two")
        if self.threads % self.subgroup:
            raise InputError(
                f"lower-tiles: {self.threads} threads are no whole number of subgroups of "
                f"{self.subgroup}"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module's kernels in place."""
        for kernel in list(op.ops):
            if isinstance(kernel, tile.KernelOp):
                self._lower(kernel)

    def _lower(self, kernel: tile.KernelOp) -> None:
        threads = block_threads(kernel, self.threads)
        check_tiles(kernel)
        _check_layouts(kernel, threads)
        asked = kernel.schedule.get("stages", self.stages) if kernel.schedule else self.stages
        low = Lowering(
            kernel,
            threads,
            self.subgroup,
            RULES,
            narrow=self.narrow,
            stages=asked,
            boxes=self.boxes,
        )
        low.lower(kernel.body.block)
        low.block.add_op(tile.ReturnOp())
        new = simt.KernelOp.create(
            properties={
                **kernel.properties,
                "threads": IntegerAttr(threads, 64),
                "subgroup": IntegerAttr(self.subgroup, 64),
            },
            attributes=dict(kernel.attributes),
            regions=[Region(low.block)],
        )
        parent = kernel.parent
        assert parent is not None
        parent.insert_op_before(new, kernel)
        kernel.detach()
        kernel.erase()
        if new.workgroup_bytes > self.memory:
            raise LoweringError(
                f"kernel {new.sym_name.data} takes {new.workgroup_bytes} bytes of shared memory, "
                f"expected at most {self.memory}: choose smaller tiles or scratch"
            )


def _check_layouts(kernel: tile.KernelOp, threads: int) -> None:
    """Raise LoweringError for a layout that does not hold its tile, or has too many threads."""
    known: set[tuple[Layout, int]] = set()
    for op in kernel.walk():
        if LAYOUT not in op.attributes:
            continue
        vectors = [y for y in op.results if isinstance(y.type, VectorType)]
        for layout, y in zip(layouts_of(op.attributes[LAYOUT]), vectors, strict=False):
            elements = prod(tile.shape_of(y.type))
            if (layout, elements) in known:
                continue
            known.add((layout, elements))
            if layout.span > threads or not layout.holds(elements):
                raise LoweringError(
                    f"kernel {kernel.sym_name.data}: the layout of {op.name} has {layout.span} "
                    f"threads for {elements} elements, expected all of these in {threads} threads: "
                    "run choose-layouts with the same number of threads"
                )
