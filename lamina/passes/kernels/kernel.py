"""One kernel under construction: its arguments, its tiles, and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from lamina.dialects import cache, nn, quant, tile
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, signless
from lamina.errors import LoweringError
from lamina.passes.kernels.emit import Emit
from lamina.passes.kernels.in_place import find_in_place
from lamina.passes.kernels.named_dims import named_dims
from lamina.passes.kernels.shared_checks import NODES, WHICH, sources_of
from lamina.passes.kernels.subscripts import Index, Rows, Span, Subscript
from lamina.passes.kernels.tiles import Tiles, check_rows, split_span
from lamina.passes.kernels.weights import quantized_span
from lamina.passes.kernels.work import work_of

_Op = TypeVar("_Op", bound=Operation)


class Kernel:
    """A `tile.kernel` that a builder fills from a scheduled group.

    Arguments: a memref for each of the group's operands, one for each result that is no page
    pool (a pool is updated where it is), one index for each symbol.
    """

    def __init__(self, group: nn.GroupOp, name: str) -> None:
        self.group = group
        self.name = name
        self.ops: list[Operation] = list(group.body.block.ops)[:-1]
        self.yields: tuple[SSAValue, ...] = tuple(cast("nn.YieldOp", group.body.block.last_op).ys)
        self.symbols = group_symbols(group)
        self.outputs = [y for y in self.yields if not isinstance(y.type, PagesType)]
        inputs = list(group.body.block.args)
        kinds = [memref_type(v.type) for v in (*inputs, *self.outputs)]
        names = [f"n{i}" for i in range(len(self.symbols))]
        self.block = Block(arg_types=[*kinds, *([IndexType()] * (len(names) + 1))])
        args: list[SSAValue] = list(self.block.args)
        indices = dict(zip([*self.symbols, tile.WORKERS], args[len(kinds) :], strict=True))
        self._names = dict(zip([*self.symbols, tile.WORKERS], [*names, tile.WORKERS], strict=True))
        self.emit = Emit(self.block, indices)
        self.tiles = Tiles(self.emit, dict(zip(inputs, args, strict=False)))
        self._stores = dict(zip(self.outputs, args[len(inputs) : len(kinds)], strict=True))
        self._inputs = inputs
        self.far: SSAValue | bool = False
        """Whether results are too large for a cache to keep, and are stored past it."""

    def only(self, kind: type[_Op]) -> _Op:
        """Return the group's one operation of a kind; LoweringError if it has none or several."""
        found = [op for op in self.ops if isinstance(op, kind)]
        if len(found) != 1:
            raise LoweringError(f"expected one {kind.name} in a group, got {len(found)}")
        return found[0]

    def finish(
        self, grid: Sequence[Dim], *, own: Collection[tuple[SSAValue, ...]] = ()
    ) -> tile.KernelOp:
        """Close the kernel with a grid in the group's symbols.

        `own` are the rows, by their first subscripts, that a program has for itself.
        """
        self.block.add_op(tile.ReturnOp())
        pools = {_pool_of(y) for y in self.yields if isinstance(y.type, PagesType)}
        access = ["update" if v in pools else "read" for v in self._inputs]
        access += ["write"] * len(self.outputs)
        renamed: dict[str, Dim | int | str] = {k: Dim.symbol(v) for k, v in self._names.items()}
        aliases = self._aliases(own)
        work = {
            kind: None if count is None else count.substitute(renamed)
            for kind, count in work_of(self.group).items()
        }
        return tile.KernelOp(
            properties={
                "sym_name": StringAttr(self.name),
                "symbols": _strings(self._names.values()),
                "grid": _strings(str(dim.substitute(renamed)) for dim in grid),
                "access": _strings(access),
                "aliases": tile.pair_list(aliases) if aliases else None,
                "schedule": self.group.schedule,
                "work": tile.WorkAttr.of(work),
                "joins": self._joins(),
            },
            regions=[Region(self.block)],
        )

    def _joins(self) -> IntegerAttr[Any] | None:
        """The dimension in which operands follow one another, where that is all there is."""
        match self.ops:
            case [nn.ConcatOp() as op] if (op.y,) == self.yields and [*op.xs] == self._inputs:
                return IntegerAttr(op.dim.value.data, 64)
            case _:
                return None

    def _aliases(self, own: Collection[tuple[SSAValue, ...]]) -> list[tuple[int, int]]:
        """The operands that results may overwrite, by the numbers of their arguments."""
        args: list[SSAValue] = list(self.block.args)
        pairs = [
            (args[i], self._stores[y])
            for i, x in enumerate(self._inputs)
            for y in self.outputs
            if x.type == y.type
        ]
        found = find_in_place(self.block, pairs, own=own)
        return [(args.index(x), args.index(y)) for x, y in found]

    def program(self, dim: int) -> SSAValue:
        """Return this program's coordinate."""
        return self.emit.add(tile.ProgramIdOp(dim))

    def unravel(self, flat: SSAValue, dims: Sequence[Dim]) -> list[SSAValue]:
        """Split a flat coordinate over `dims`, the last one fastest."""
        result: list[SSAValue] = []
        for dim in reversed(dims[1:]):
            extent = self.emit.extent(dim)
            result.append(self.emit.add(arith.RemUIOp(flat, extent)))
            flat = self.emit.add(arith.DivUIOp(flat, extent))
        return [flat, *reversed(result)][: len(dims)]

    def result(self, number: int) -> SSAValue:
        """Return the memref of a result, by its place among the group's results."""
        return self._stores[self.yields[number]]

    def store(self, lead: Sequence[Subscript], span: Span) -> None:
        """Compute every result for the tile at rows `lead` and columns `span`, and store it.

        A result whose shape differs from the anchor's is found by its own extents. Page pools
        take one row at a time.
        """
        for value in self.yields:
            if isinstance(value.type, PagesType):
                write_pages(self.tiles, _write_of(value), lead, span)
                continue
            where = self._index(value, lead, span)
            self._put(self.tiles.tile_of(value, where), self._stores[value], where)

    def store_at(self, where: Callable[[SSAValue], Index]) -> None:
        """Compute every result for its tile, and store it; none is a page pool."""
        for value in self.yields:
            index = where(value)
            self._put(self.tiles.tile_of(value, index), self._stores[value], index)

    def _put(self, value: SSAValue, memref: SSAValue, where: Index) -> None:
        def put(nontemporal: bool) -> None:
            self.tiles.store(value, memref, where, nontemporal=nontemporal)

        if isinstance(self.far, SSAValue):
            self.emit.when(self.far, lambda: put(True), lambda: put(False))
        else:
            put(self.far)

    def _index(self, value: SSAValue, lead: Sequence[Subscript], span: Span) -> Index:
        """Return where the columns `span` of rows `lead` lie in `value`."""
        rest = extents(value.type)[len(lead) :]
        if isinstance(value, OpResult) and isinstance(value.op, quant.QuantizeOp):
            return (*lead, quantized_span(self.tiles, value.op, value, span))
        if len(rest) <= 1:
            return (*lead, *([span] if rest else []))
        return (*lead, *split_span(self.emit, rest, span))


def write_pages(tiles: Tiles, op: cache.WriteOp, lead: Sequence[Subscript], span: Span) -> None:
    """Store columns of one row of `op.x` in the pages of its pool."""
    emit, kind = tiles.emit, cast("PagesType", op.pages.type)
    grain, row = kind.tile.value.data, lead[0]
    if row.size != 1:
        raise LoweringError("a cache write takes one token at a time")
    heads = list(lead[1:]) + ([span] if len(lead) > 1 else [])
    columns = heads or split_span(emit, extents(op.x.type)[1:], span)
    x = emit.cast(tiles.tile_of(op.x, (row, *columns)), kind.element)
    page, place = page_slot(tiles, op, kind, row)
    head, width = columns
    memref = tiles.memrefs[op.pages]
    if grain:
        in_tile = Span(emit.modulo(place, grain), 1, inside=True)
        of_tile = Span(emit.over(place, grain), 1, inside=True)
        tiles.store(x, memref, (page, head, of_tile, width, in_tile))
    else:
        tiles.store(x, memref, (page, head, Span(place, 1, inside=True), width))


def page_slot(
    tiles: Tiles, op: cache.WriteOp, kind: PagesType, token: Subscript
) -> tuple[Span, SSAValue]:
    """Return the page of a token's position, and the row in that page.

    A sequence or position without a page is an error of the call; the page is one of the pool.
    """
    emit, size = tiles.emit, kind.page.value.data

    nodes = sources_of(op)

    def checked(value: SSAValue, extent: Dim) -> SSAValue:
        return emit.reshape(check_rows(tiles, value, extent, nodes), ())

    sequences, blocks = extents(op.table.type)
    row = emit.reshape(tiles.tile_of(op.sequence, (token,)), [1])
    owner = Span(checked(row, sequences), 1, inside=True)
    place = tiles.tile_of(op.positions, (token,))
    position = emit.cast(emit.reshape(place, ()), IndexType())
    number = emit.broadcast(emit.over(position, size), [], [1])
    block = Span(checked(number, blocks), 1, inside=True)
    found = emit.reshape(tiles.tile_of(op.table, (owner, block)), [1])
    page = checked(found, extents(kind.storage)[0])
    return Span(page, 1, inside=True), emit.modulo(position, size)


def divided(tiles: Tiles, x: SSAValue, by: int, count: int) -> tuple[Rows, Rows]:
    """Return the quotients and remainders of a vector of indices."""
    emit = tiles.emit
    divisor = emit.full(by, IndexType(), [count])
    quotient = emit.binary(arith.DivUIOp, x, divisor)
    return Rows(quotient, count), Rows(emit.binary(arith.RemUIOp, x, divisor), count)


def memref_type(type: Attribute) -> MemRefType[Any]:
    """Return the memref that stands for a tensor or a page pool."""
    storage = type.storage if isinstance(type, PagesType) else cast("TensorType[Any]", type)
    return MemRefType(signless(storage.get_element_type()), storage.get_shape())


def _write_of(value: SSAValue) -> cache.WriteOp:
    if isinstance(value, OpResult) and isinstance(value.op, cache.WriteOp):
        return value.op
    raise LoweringError("a group that gives a page pool ends in its write")


def _pool_of(value: SSAValue) -> SSAValue:
    return _write_of(value).pages


def _strings(items: Any) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(str(item)) for item in items])


def group_symbols(group: nn.GroupOp) -> list[str]:
    """Return the symbols of a group's types, and of what its operations name: its kernel's."""
    found: dict[str, None] = {}
    body = (result for op in group.body.block.ops for result in op.results)
    for value in (*group.body.block.args, *body):
        kind = value.type.storage if isinstance(value.type, PagesType) else value.type
        if isinstance(kind, TensorType):
            for dim in extents(cast("Attribute", kind)):
                found |= dict.fromkeys(sorted(dim.symbols))
    for dim in (dim for op in group.body.block.ops for dim in named_dims(op)):
        found |= dict.fromkeys(sorted(dim.symbols))
    if any(NODES in op.attributes for op in group.body.block.ops):
        found[WHICH] = None
    return list(found)
