"""Say where the elements of each tile are: in which thread of a block, in which register."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    ModuleOp,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import tile
from lamina.dialects.layouts import (
    LAYOUT,
    Fragments,
    Layout,
    LayoutAttr,
    blocked,
    layouts_of,
    row_strides,
    spread,
)
from lamina.dialects.tile import element_of, shape_of, values
from lamina.errors import InputError
from lamina.passes.threads.runs import run_of
from lamina.passes.threads.tile_shapes import check_tiles

FRAGMENTS = "tile.fragments"
"""Marks a product that matrix units make, with the threads that share it."""

WARPGROUPS = "tile.warpgroups"
"""Marks one that four subgroups make together, with both operands in shared memory."""

DIRECT = "tile.direct"
"""Marks one whose operands threads load by themselves, each what it multiplies."""


STAGED = "tile.staged"
"""Marks one of which threads make their own parts, with both operands in shared memory."""

_UNIT_FLOATS = (f16, bf16, f32)


Wishes = list[tuple[SSAValue, Layout | None]]
"""Values, and where their users would like them to lie."""

LayoutOf = Callable[[SSAValue], Layout]


@dataclass(frozen=True)
class ChooseLayoutsPass(ModulePass):
    """Each operation of a kernel says how its tiles lie in the registers of `threads` threads.

    A kernel whose schedule names other threads has those, and what its builder says of a tile
    stays. A sum of products is spread so that a thread's registers span rows and columns; what is
    computed element by element lies as its operand does, and what is loaded lies as it is wanted.
    The rest is spread so that neighbouring threads hold neighbouring elements. With `fragments`,
    products of 16-bit floats and 8-bit integers lie as the matrix units of subgroups of 32 threads
    have them, where their sizes allow it (without `integers`, of floats alone); with `tf32`, so do
    those of f32, whose units take 10 bits of fraction; with `warpgroups`, those of 16-bit floats as
    four subgroups have them together.
    """

    name = "choose-layouts"

    threads: int = 64
    fragments: bool = False
    warpgroups: bool = False
    integers: bool = True
    tf32: bool = False

    def __post_init__(self) -> None:
        """Check the option."""
        if self.threads < 1:
            raise InputError(f"choose-layouts: threads is {self.threads}, expected at least 1")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Annotate the module's kernels in place."""
        for kernel in op.walk():
            if isinstance(kernel, tile.KernelOp):
                check_tiles(kernel)
                _Chooser(self, kernel).annotate()


def block_threads(kernel: tile.KernelOp, usual: int) -> int:
    """Return the threads of a kernel's block: as its schedule says, else as `usual`."""
    return usual if kernel.schedule is None else kernel.schedule.get("threads", usual)


class _Chooser:
    """What is settled so far, and what users of values would like."""

    def __init__(self, options: ChooseLayoutsPass, kernel: tile.KernelOp) -> None:
        self._options = options
        self._kernel = kernel
        self._threads = block_threads(kernel, options.threads)
        self._fixed: dict[SSAValue, Layout] = {}
        self._wanted: dict[SSAValue, Layout] = {}

    def annotate(self) -> None:
        """Annotate every operation that gives a vector."""
        kernel = self._kernel
        self._settle(kernel.body.block)
        self._ask(kernel.body.block)
        for op in kernel.body.walk():
            found = [self._layout(y) for y in op.results if isinstance(y.type, VectorType)]
            if found:
                op.attributes[LAYOUT] = ArrayAttr([LayoutAttr.of(each) for each in found])

    def _layout(self, value: SSAValue) -> Layout:
        """Return where a value lies, which stays so."""
        if value not in self._fixed:
            op = value.owner
            run = run_of(op) if isinstance(op, tile.LoadOp) else 1
            usual = spread(shape_of(value.type), self._threads, run)
            self._fixed[value] = self._wanted.get(value, usual)
        return self._fixed[value]

    def _settle(self, block: Block) -> None:
        """Fix the layouts that are given, those of sums of products, and of what they lead to."""
        for op in block.ops:
            if LAYOUT in op.attributes:
                vectors = (y for y in op.results if isinstance(y.type, VectorType))
                self._fixed |= zip(vectors, layouts_of(op.attributes[LAYOUT]), strict=True)
            if isinstance(op, scf.ForOp):
                carried = op.body.block.args[1:]
                self._same(zip(op.iter_args, carried, strict=True))
                self._settle(op.body.block)
                end = op.body.block.last_op
                assert end is not None
                self._same(zip(end.operands, op.results, strict=True))
                self._same(zip(carried, op.results, strict=True))
                self._same(zip(op.results, carried, strict=True))
            elif isinstance(op, scf.IfOp):
                for region in op.regions:
                    for inner in region.blocks:
                        self._settle(inner)
                        end = inner.last_op
                        assert end is not None
                        self._same(zip(end.operands, op.results, strict=True))
            elif isinstance(op, tile.DotOp):
                self._settle_sums(op)
            elif isinstance(op, tile.SliceOp):
                self._settle_part(op)
            elif is_elementwise(op) or isinstance(op, tile.ReshapeOp):
                self._same((x, y) for x in op.operands for y in op.results)

    def _settle_sums(self, op: tile.DotOp) -> None:
        options = self._options
        if options.warpgroups and _fragments(op, self._threads, warpgroups=True):
            op.attributes[WARPGROUPS] = UnitAttr()
        kind = element_of(op.a.type)
        asked = (kind != i8 or options.integers) and (kind != f32 or options.tf32)
        taken = options.fragments and asked and op.y not in self._fixed
        found = fragments_of(op, self._threads) if taken else None
        usual = blocked(shape_of(op.acc.type), self._threads)
        layout = found.sums() if found else self._fixed.get(op.y, usual)
        if not found and copies_rounds(self._kernel) and _is_matrix_product(op, kind):
            op.attributes[STAGED] = UnitAttr()
        if self._fixed.setdefault(op.acc, layout) == layout and found:
            op.attributes[FRAGMENTS] = IntegerAttr(self._threads, 64)
        self._fixed.setdefault(op.y, self._fixed[op.acc])

    def _settle_part(self, op: tile.SliceOp) -> None:
        """Let a part of what is settled lie as it lies there, if all threads have some of it."""
        x, y, start = shape_of(op.x.type), shape_of(op.y.type), values(op.start)
        cut = [d for d in range(len(x)) if x[d] != y[d]]
        if op.x not in self._fixed or len(cut) != 1 or start[cut[0]] % y[cut[0]]:
            return
        part = self._fixed[op.x].part(x, cut[0], y[cut[0]], row_strides(y))
        if part is not None and part.holds(prod(y)) and part.count * self._threads == prod(y):
            self._fixed.setdefault(op.y, part)

    def _same(self, pairs: Any) -> None:
        for x, y in pairs:
            if x in self._fixed and prod(shape_of(x.type)) == prod(shape_of(y.type)):
                self._fixed.setdefault(y, self._fixed[x])

    def _ask(self, block: Block) -> None:
        """Fix what is left, the last operation first, so that users come before what they use."""
        for op in reversed(list(block.ops)):
            if isinstance(op, scf.ForOp | scf.IfOp):
                self._ask_region(op)
            elif is_elementwise(op) or isinstance(op, tile.ReshapeOp):
                for y in op.results:
                    self._want(op.operands, self._layout(y) if shape_of(y.type) else None)
            elif isinstance(op, tile.StoreOp) and shape_of(op.v.type):
                self._want([op.v], spread(shape_of(op.v.type), self._threads, run_of(op)))
                self._want_all(_load(op, self._layout))
            elif type(op) in _WISHES:
                self._want_all(_WISHES[type(op)](op, self._layout))

    def _want_all(self, wishes: Wishes) -> None:
        for value, layout in wishes:
            self._want([value], layout)

    def _want(self, operands: Sequence[SSAValue], layout: Layout | None) -> None:
        for value in operands:
            if layout is not None and isinstance(value.type, VectorType):
                self._wanted.setdefault(value, layout)

    def _ask_region(self, op: scf.ForOp | scf.IfOp) -> None:
        vectors = [n for n, y in enumerate(op.results) if isinstance(y.type, VectorType)]
        if isinstance(op, scf.ForOp):
            self._ask_rounds(op, vectors)
        for n in vectors:
            layout = self._layout(op.results[n])
            if isinstance(op, scf.ForOp):
                self._fixed.setdefault(op.body.block.args[1 + n], layout)
                self._want([op.iter_args[n]], layout)
            for region in op.regions:
                for inner in region.blocks:
                    assert inner.last_op is not None
                    self._want([inner.last_op.operands[n]], layout)
        for region in op.regions:
            for inner in region.blocks:
                self._ask(inner)

    def _ask_rounds(self, op: scf.ForOp, vectors: Sequence[int]) -> None:
        """Have what a loop carries for its next round alone lie as that would like it."""
        carried = {
            op.results[n]: op.body.block.args[1 + n]
            for n in vectors
            if op.results[n] not in {*self._fixed, *self._wanted}
        }
        if not carried:
            return
        before = dict(self._fixed), dict(self._wanted)
        self._ask(op.body.block)
        found = self._wanted
        self._fixed, self._wanted = before
        self._wanted |= {y: found[arg] for y, arg in carried.items() if arg in found}


def copies_rounds(kernel: tile.KernelOp) -> bool:
    """Tell whether a kernel's schedule has rounds of operands copied ahead."""
    return kernel.schedule is not None and "stages" in kernel.schedule.values.data


def _is_matrix_product(op: tile.DotOp, kind: Attribute) -> bool:
    shapes = (shape_of(op.a.type), shape_of(op.b.type))
    two = all(len(shape) == 2 for shape in shapes) and len(tile.pairs(op.contract)) == 1
    return two and kind == f32 and op.batch is None


def is_elementwise(op: Operation) -> bool:
    """Tell whether an element of the results needs that element of the operands, and no other."""
    own = (tile.CastOp, tile.CompareOp, tile.SelectOp)
    known = op.name.startswith(("arith.", "math.")) or isinstance(op, own)
    return known and not isinstance(op, arith.ConstantOp)


def broadcast_source(op: tile.BroadcastOp, layout: Layout) -> Layout | None:
    """Return where the operand should lie for the result to lie as `layout`."""
    x = shape_of(op.x.type)
    kept = zip(values(op.dims), x, row_strides(x), strict=True)
    return layout.mapped(shape_of(op.y.type), {d: stride for d, n, stride in kept if n > 1})


def transpose_source(op: tile.TransposeOp, layout: Layout) -> Layout | None:
    """Return where the operand should lie for the result to lie as `layout`."""
    strides = row_strides(shape_of(op.x.type))
    return layout.mapped(
        shape_of(op.y.type), {d: strides[p] for d, p in enumerate(values(op.perm))}
    )


def fragments_of(op: tile.DotOp, threads: int) -> Fragments | None:
    """Return how matrix units make a product; None where it is none of two matrices they take."""
    return _fragments(op, threads, warpgroups=WARPGROUPS in op.attributes)


def _fragments(op: tile.DotOp, threads: int, *, warpgroups: bool) -> Fragments | None:
    a, b, kind = shape_of(op.a.type), shape_of(op.b.type), element_of(op.a.type)
    contract, sums = tile.pairs(op.contract), element_of(op.acc.type)
    known = (kind in _UNIT_FLOATS and sums == f32) or (kind == i8 and sums == i32)
    if not known or len(a) != 2 or len(b) != 2 or len(contract) != 1 or op.batch is not None:
        return None
    ((i, j),) = contract
    bits = 8 if kind == i8 else 32 if kind == f32 else 16
    return Fragments.of(a[1 - i], b[1 - j], a[i], bits, threads, warpgroups=warpgroups)


def fragment_sources(op: tile.DotOp, fragments: Fragments) -> tuple[Layout, Layout]:
    """Return where the operands of matrix units lie."""
    ((i, j),) = tile.pairs(op.contract)
    a, b = row_strides(shape_of(op.a.type)), row_strides(shape_of(op.b.type))
    return fragments.left(a[1 - i], a[i]), fragments.right(b[j], b[1 - j])


def dot_sources(op: tile.DotOp, layout: Layout) -> tuple[Layout | None, Layout | None]:
    """Return where the operands should lie: a thread has what its sums need, all of it."""
    threads = op.attributes.get(FRAGMENTS)
    if isinstance(threads, IntegerAttr):
        found = fragments_of(op, threads.value.data)
        assert found is not None
        return fragment_sources(op, found)
    shape = shape_of(op.acc.type)
    contract, batch = tile.pairs(op.contract), tile.pairs(op.batch)
    sources: list[Layout | None] = []
    place = len(batch)
    for side, x in enumerate((op.a, op.b)):
        strides, used = row_strides(shape_of(x.type)), {pair[side] for pair in (*batch, *contract)}
        free = [d for d in range(len(strides)) if d not in used]
        mapped = {n: strides[pair[side]] for n, pair in enumerate(batch)}
        mapped |= {place + n: strides[d] for n, d in enumerate(free)}
        place += len(free)
        inner = [(shape_of(x.type)[pair[side]], strides[pair[side]]) for pair in reversed(contract)]
        source = layout.mapped(shape, mapped)
        sources.append(source and source.with_registers(inner))
    return sources[0], sources[1]


def along(shape: Sequence[int], layout: Layout, dim: int) -> Layout | None:
    """Return where a vector along one dimension should lie beside a tile of `shape`."""
    return layout.mapped(shape, {dim: 1})


def whole(shape: Sequence[int], layout: Layout, dim: int, strides: Sequence[int], size: int) -> Any:
    """Return `layout` over other strides, with `size` elements along `dim` in registers."""
    kept = {d: stride for d, stride in enumerate(strides) if d != dim}
    found = layout.mapped(shape, kept)
    return found and found.with_registers([(size, strides[dim])])


def _load(op: tile.LoadOp | tile.StoreOp, layout_of: LayoutOf) -> Wishes:
    value = op.y if isinstance(op, tile.LoadOp) else op.v
    if not isinstance(value.type, VectorType):
        return []
    layout, zipped = layout_of(value), values(op.zip)
    return [
        (at, along(op.tile_shape, layout, zipped[0] if d in zipped else d))
        for d, at in enumerate(op.at)
        if isinstance(at.type, VectorType)
    ]


def _dot(op: tile.DotOp, layout_of: LayoutOf) -> Wishes:
    layout = layout_of(op.y)
    shared = FRAGMENTS in op.attributes or STAGED in op.attributes
    if shared and DIRECT not in op.attributes:
        # What comes through shared memory is loaded side by side.
        return [(op.acc, layout)]
    return [*zip((op.a, op.b), dot_sources(op, layout), strict=True), (op.acc, layout)]


def _join(op: tile.JoinOp, layout_of: LayoutOf) -> Wishes:
    return list(zip(op.xs, join_sources(op, layout_of(op.y)), strict=True))


def slice_source(op: tile.SliceOp, layout: Layout) -> Layout | None:
    """Return where the operand should lie: a thread has what its elements are parts of.

    Of a dimension that is cut into equal parts it has the same of each, else the whole.
    """
    x, y, start = shape_of(op.x.type), shape_of(op.y.type), values(op.start)
    cut = [d for d in range(len(x)) if x[d] != y[d]]
    parts = [d for d in cut if x[d] % y[d] == 0 and start[d] % y[d] == 0]
    strides = row_strides(x)
    kept = {d: strides[d] for d in range(len(x)) if d not in cut or d in parts}
    more = [
        (x[d] // y[d], strides[d] * y[d]) if d in parts else (x[d], strides[d])
        for d in reversed(cut)
    ]
    found = layout.mapped(y, kept)
    return found and found.with_registers(more)


def join_sources(op: tile.JoinOp, layout: Layout) -> list[Layout | None]:
    """Return where the operands should lie: as parts of the result, or whole in each thread."""
    dim, shape = op.dim.value.data, shape_of(op.y.type)
    found: list[Layout | None] = []
    for x in op.xs:
        own = shape_of(x.type)
        strides = row_strides(own)
        part = layout.part(shape, dim, own[dim], strides)
        if part is None or not part.holds(prod(own)):
            part = whole(shape, layout, dim, strides, own[dim])
        found.append(part)
    return found


def _scan(op: tile.ScanOp, layout_of: LayoutOf) -> Wishes:
    layout, shape = layout_of(op.y), shape_of(op.y.type)
    dim = op.dim.value.data
    return [(op.x, whole(shape, layout, dim, row_strides(shape), shape[dim]))]


_WISHES: dict[type[Operation], Callable[[Any, LayoutOf], Wishes]] = {
    tile.BroadcastOp: lambda op, of: [(op.x, broadcast_source(op, of(op.y)))],
    tile.TransposeOp: lambda op, of: [(op.x, transpose_source(op, of(op.y)))],
    tile.DotOp: _dot,
    tile.LoadOp: _load,
    tile.JoinOp: _join,
    tile.SliceOp: lambda op, of: [(op.x, slice_source(op, of(op.y)))],
    tile.ScanOp: _scan,
}
"""Where the operands of an operation should lie, given where its results do."""
