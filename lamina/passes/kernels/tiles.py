"""Compute tiles of a group's values on demand: `tile_of(value, index)`.

A group's operations that map elements to elements (arithmetic, broadcasts, transposes, slices,
gathers, …) have a rule that turns a tile of the result into tiles of the operands; a group's
arguments are loaded. So a chain of such operations becomes arithmetic on registers wherever a
builder needs a tile of its end: fusion is nothing but asking for a value that is not an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, StringAttr, i1
from xdsl.ir import Operation, OpResult, SSAValue

from lamina.dialects import tile
from lamina.dialects.dims import Dim
from lamina.errors import LoweringError
from lamina.passes.kernels.emit import Body, Emit
from lamina.passes.kernels.shared_checks import WHICH
from lamina.passes.kernels.subscripts import Index, Rows, Span, Subscript, sizes
from lamina.passes.known import KNOWN

Rule = Callable[["Tiles", Any, Index, SSAValue], SSAValue]
"""Emit the tile of one result of an operation: (tiles, op, index, result) -> vector."""

RULES: dict[type[Operation], Rule] = {}
"""How to compute a tile of each operation of the box that maps elements to elements."""


def rule(*kinds: type[Operation]) -> Callable[[Rule], Rule]:
    """Register the rule of some operations."""

    def register(function: Rule) -> Rule:
        for kind in kinds:
            if kind in RULES:
                raise LoweringError(f"two tile rules for {kind.name}")
            RULES[kind] = function
        return function

    return register


class Tiles:
    """The tiles of one group's values, and the memrefs that stand for its arguments."""

    def __init__(self, emit: Emit, memrefs: dict[SSAValue, SSAValue]) -> None:
        self.emit = emit
        self.memrefs = memrefs
        self._fixed: dict[SSAValue, SSAValue] = {}
        self._memo: dict[tuple[SSAValue, Index], SSAValue] = {}
        self.statistics: dict[Operation, tuple[SSAValue, ...]] = {}
        """What row operations (norms, softmax) know of the program's row, once computed."""
        self.rooms: dict[Operation, SSAValue] = {}
        """Where row operations may keep what they computed: memory of the program, or a result."""
        self.place = Span(emit.index(0), 1, inside=True)
        """Which of the program's rows is gone through."""
        self.ahead: list[SSAValue] = []
        """Memory of which the rows after the program's will be read before long."""
        self.stride = 1
        """The rows of a program."""

    def fix(self, value: SSAValue, tile_value: SSAValue) -> None:
        """Say that the only tile of `value` that will be asked for is `tile_value`."""
        self._fixed[value] = tile_value

    def loop(
        self,
        low: SSAValue,
        high: SSAValue,
        step: SSAValue,
        carried: Sequence[SSAValue],
        body: Body,
    ) -> list[SSAValue]:
        """`Emit.loop`, after which tiles that were computed inside are forgotten."""
        memo = dict(self._memo)
        results = self.emit.loop(low, high, step, carried, body)
        self._memo = memo
        return results

    def choose(
        self,
        condition: SSAValue,
        body: Callable[[], Sequence[SSAValue]],
        otherwise: Callable[[], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """`Emit.choose`, after which tiles that were computed on either way are forgotten."""

        def alone(way: Callable[[], Sequence[SSAValue]]) -> Sequence[SSAValue]:
            memo = dict(self._memo)
            results = way()
            self._memo = memo
            return results

        return self.emit.choose(condition, lambda: alone(body), lambda: alone(otherwise))

    def each(self, end: SSAValue | int, body: Callable[[SSAValue], None], step: int = 1) -> None:
        """Run `body` on 0, `step`, … below `end`: a loop that carries nothing."""
        emit = self.emit

        def one(i: SSAValue) -> Sequence[SSAValue]:
            body(i)
            return []

        high = emit.index(end) if isinstance(end, int) else end
        self.loop(emit.index(0), high, emit.index(step), [], one)

    def tile_of(self, value: SSAValue, index: Index) -> SSAValue:
        """Return the tile of `value` at `index`: a vector of the index's shape."""
        if value in self._fixed:
            return self.emit.reshape(self._fixed[value], sizes(index))
        key = (value, index)
        if key not in self._memo:
            self._memo[key] = self._compute(value, index)
        return self._memo[key]

    def _compute(self, value: SSAValue, index: Index) -> SSAValue:
        if value in self.memrefs:
            return self.load(self.memrefs[value], index)
        assert isinstance(value, OpResult)
        op = value.op
        rules = KNOWN.tile_rules()
        if type(op) not in rules:
            raise LoweringError(f"no tile rule for {op.name}: it cannot be fused")
        return rules[type(op)](self, op, index, value)

    def remember(self, value: SSAValue, index: Index, tile_value: SSAValue) -> None:
        """Keep a tile that was computed beside another one."""
        self._memo[(value, index)] = tile_value

    def load(
        self,
        memref: SSAValue,
        index: Index,
        *,
        shape: tuple[int, ...] | None = None,
        zip: tuple[int, ...] = (),
    ) -> SSAValue:
        """Load the elements of a memref at `index`, as a vector of `shape`."""
        kind = cast("MemRefType[Any]", memref.type)
        result = tile.vector(kind.element_type, sizes(index) if shape is None else shape)
        at, extent, options = _access(memref, index, zip)
        return self.emit.add(tile.LoadOp(memref, at, extent, result, **options))

    def prefetch(self, memref: SSAValue, index: Index) -> None:
        """Say that the elements of a memref at `index` will be loaded before long."""
        at, extent, _ = _access(memref, index, ())
        self.emit.effect(tile.PrefetchOp(memref, at, extent))

    def store(
        self,
        value: SSAValue,
        memref: SSAValue,
        index: Index,
        *,
        zip: tuple[int, ...] = (),
        nontemporal: bool = False,
    ) -> None:
        """Store a tile in a memref at `index`; what is outside is dropped.

        `nontemporal` says that it is not read soon.
        """
        at, extent, options = _access(memref, index, zip)
        options |= {"unique": True, "nontemporal": nontemporal}
        self.emit.effect(tile.StoreOp(value, memref, at, extent, **options))

    def room_of(self, op: Operation, index: Index) -> tuple[SSAValue, Index]:
        """Return where a row operation keeps what it computed for a tile of its row."""
        memref = self.rooms[op]
        own = isinstance(memref.owner, tile.ScratchOp)
        return memref, (self.place, index[-1]) if own else index

    def ask_ahead(self, index: Index, apart: int) -> None:
        """Ask for what lies at `index` in as many rows further on as a program has.

        Elements so far `apart` are named: as many as a line, or a pair of lines, has.
        """
        if not self.ahead:
            return
        *lead, row, columns = index
        assert isinstance(row, Span)
        assert isinstance(columns, Span)
        following = Span(self.emit.plus(row.start, self.stride), 1)
        for memref in self.ahead:
            for at in range(0, columns.size, apart):
                one = Span(self.emit.plus(columns.start, at), 1)
                self.prefetch(memref, (*lead, following, one))

    def clamped_rows(self, start: SSAValue, size: int, end: SSAValue) -> Subscript:
        """Return `size` rows from `start` on, those from `end` on replaced by the last one."""
        if size == 1:
            return Span(start, 1, inside=True)
        emit = self.emit
        rows = emit.add(tile.IotaOp(start.type, size))
        rows = emit.binary(arith.AddiOp, rows, emit.add(tile.SplatOp(start, [size])))
        last = emit.add(arith.SubiOp(end, emit.index(1)))
        return Rows(emit.binary(arith.MinSIOp, rows, emit.add(tile.SplatOp(last, [size]))), size)


def _access(
    memref: SSAValue, index: Index, zip: tuple[int, ...]
) -> tuple[list[SSAValue], list[int], dict[str, Any]]:
    static = cast("MemRefType[Any]", memref.type).get_shape()
    zip = zip or tuple(d for d, sub in enumerate(index) if isinstance(sub, Rows) and sub.zipped)
    at = [sub.indices if isinstance(sub, Rows) else sub.start for sub in index]
    extent = [1 if d in zip[1:] else sub.size for d, sub in enumerate(index)]
    limits = {
        d: sub.limit
        for d, sub in enumerate(index)
        if isinstance(sub, Span) and sub.limit is not None
    }
    inside = [d for d, sub in enumerate(index) if is_inside(sub, static[d]) and d not in limits]
    return at, extent, {"in_bounds": inside, "limits": limits, "zip": zip}


def is_inside(sub: Subscript, static: int) -> bool:
    """Whether a subscript needs no bounds check in a dimension of this static extent.

    A span as wide as the dimension, and without a limit, can only begin at its first element.
    """
    return sub.inside or (isinstance(sub, Span) and sub.size == static)


def splits(inner: tuple[Dim, ...], size: int) -> bool:
    """Whether spans of `size` elements, one after another, are boxes of these dimensions."""
    for dim in reversed(inner[1:]):
        extent = dim.constant
        if not extent or (size % extent and extent % size):
            return False
        size = max(1, size // extent)
    return True


def split_span(emit: Emit, inner: tuple[Dim, ...], span: Span) -> list[Subscript]:
    """Return a span of one dimension as subscripts of the several that it is split into.

    The span lies within the last dimension, or covers it whole. LoweringError otherwise.
    """
    result: list[Subscript] = []
    start, size = span.start, span.size
    for dim in reversed(inner[1:]):
        extent = dim.constant
        if extent is None:
            raise LoweringError(f"a dimension that is split by {dim} has no rule")
        if size % extent == 0:
            result.append(Span(emit.index(0), extent, inside=True))
            start, size = emit.over(start, extent), size // extent
        elif extent % size == 0:
            result.append(Span(emit.modulo(start, extent), size, inside=True))
            start, size = emit.over(start, extent), 1
        else:
            raise LoweringError(f"a span of {size} does not fit a dimension of {extent}")
    result.append(Span(start, size, span.inside))
    return result[::-1]


def check_rows(tiles: Tiles, ids: SSAValue, extent: Dim, nodes: Sequence[str]) -> SSAValue:
    """Return ids as indices, clamped to `[0, extent)`, recording the node if one was outside.

    Of several `nodes` it is the one that the symbol `WHICH` counts.
    """
    emit = tiles.emit
    size = tile.shape_of(ids.type)
    rows = emit.cast(ids, IndexType())
    zero = emit.full(0, IndexType(), size)
    last = emit.add(tile.SplatOp(emit.extent(extent - 1), size))
    clamped = emit.binary(arith.MaxSIOp, emit.binary(arith.MinSIOp, rows, last), zero)
    _check(tiles, emit.add(tile.CompareOp("eq", clamped, rows)), nodes)
    return clamped


def found_rows(tiles: Tiles, ids: SSAValue, extent: Dim, nodes: Sequence[str]) -> Rows:
    """Return where ids [n] say, recording the node if one is outside of `[0, extent)`."""
    emit, (size,) = tiles.emit, tile.shape_of(ids.type)
    rows = check_rows(tiles, ids, extent, nodes)
    if extent.constant:
        return Rows(rows, size)
    _check(tiles, emit.less(emit.index(0), emit.extent(extent)), nodes)
    return Rows(rows, size, inside=False)


def _check(tiles: Tiles, ok: SSAValue, nodes: Sequence[str]) -> None:
    emit = tiles.emit
    if len(nodes) == 1:
        emit.effect(_check_op(ok, nodes[0]))
        return
    shape = tile.shape_of(ok.type)
    if shape:
        ok = emit.reshape(emit.reduce(ok, "and", range(len(shape))), ())
    which = emit.extent(Dim.symbol(WHICH))

    def one_of_them() -> None:
        for i, node in enumerate(nodes):
            other = emit.add(tile.CompareOp("ne", which, emit.index(i)))
            emit.effect(_check_op(other, node))

    emit.when(emit.binary(arith.XOrIOp, ok, emit.scalar(1, i1)), one_of_them)


def _check_op(ok: SSAValue, node: str) -> tile.CheckOp:
    return tile.CheckOp(operands=[ok], properties={"node": StringAttr(node)})
