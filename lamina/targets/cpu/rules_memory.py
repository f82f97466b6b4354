"""`tile.load`, `tile.prefetch`, `tile.store`, `tile.scratch` and `tile.check`."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType
from xdsl.ir import Operation

from lamina.dialects import tile
from lamina.targets.cpu.access import SEGMENT, SLACK, Access, piece
from lamina.targets.cpu.alternation import CHAINS, alternate
from lamina.targets.cpu.elements import ELEMENTS, I1, Element, element, literal, splat_literal
from lamina.targets.cpu.emitter import CACHE_LINE, ERROR_SLOT, Emitter, Rule
from lamina.targets.cpu.hidden import varying
from lamina.targets.cpu.shuffles import concat, gather, spread
from lamina.targets.cpu.values import Tile


class Load:
    """A load whose parts are fetched when they are asked for, as long as no store comes between."""

    def __init__(self, emitter: Emitter, op: tile.LoadOp) -> None:
        self.home = emitter.builder.level
        self._access = Access(emitter, op)
        self.memref = self._access.memref
        self.kind = element(op.y.type)
        self._emitter = emitter
        self._builder = emitter.builder
        self._pad = _pad(op)
        self._outside = self._missing() if self._access.conditional else None
        self._waiting = True
        self.tile = emitter.make(self.kind, tile.shape_of(op.y.type), self._part)
        self.tile.memory = self

    def settle(self) -> None:
        """Fetch everything now: a store is about to change the memory."""
        self.tile.force()
        self._waiting = False

    def splat(self, first: int, bits: int, lanes: int) -> str | None:
        """Return the `bits` from element `first` on, in every lane, straight from memory.

        A single element stays in its register.
        """
        if self.tile.size == 1:
            return None
        run, skip = divmod(first, self._access.run)
        last = skip + bits // self.kind.bits
        if not self._waiting or self._access.ragged or self.kind is I1 or last > self._access.run:
            return None
        if not self._emitter.unwritten_since(self.memref, self.home):
            return None
        kind = self.kind if bits == self.kind.bits else ELEMENTS[f"i{bits}"]
        pointer = varying(self._builder, self._access.pointer(run, skip, self._outside), self.home)
        text = f"load <1 x {kind.llvm}>, ptr {pointer}, align {self.kind.size}"
        # Nothing was written since the tile was made: in this scope the element is what it was.
        known = self._builder.scope.known
        if (text, self) not in known:
            known[text, self] = self._builder.value(text)
        return spread(self._builder, kind, known[text, self], 1, lanes, 0)

    def _part(self, part: int) -> str:
        width = self.tile.width
        size = piece(width, self._access.run)
        if not width:
            return self._scalar(0)
        if size == 1 < width:
            return self._lanes(part * width, width)
        pieces = [self._piece(part * width + at, size) for at in range(0, width, size)]
        return concat(self._builder, self.kind, [(name, size) for name in pieces])

    def _piece(self, first: int, width: int) -> str:
        run, skip = divmod(first, self._access.run)
        pointer = self._access.pointer(run, skip, self._outside)
        vector, align = f"<{width} x {self.kind.memory}>", self.kind.size
        if self._access.ragged:
            mask = self._access.mask(skip, width)
            name = f"@llvm.masked.load.v{width}{_suffix(self.kind)}.p0"
            self._builder.declare(f"{vector} {name}(ptr, <{width} x i1>, {vector})")
            pad = _memory_literal(self.kind, width, self._pad)
            text = (
                f"call {vector} {name}(ptr align {align} {pointer}, <{width} x i1> {mask}, "
                f"{vector} {pad})"
            )
        else:
            text = f"load {vector}, ptr {pointer}, align {align}"
        return self._read(self._builder.value(text), width)

    def _scalar(self, first: int) -> str:
        run, skip = divmod(first, self._access.run)
        pointer = self._access.pointer(run, skip, self._outside)
        text = f"load {self.kind.memory}, ptr {pointer}, align {self.kind.size}"
        return self._read(self._builder.value(text), 0)

    def _lanes(self, first: int, width: int) -> str:
        vector, name = self.kind.of(width), "poison"
        for lane in range(width):
            scalar = self._scalar(first + lane)
            text = f"insertelement {vector} {name}, {self.kind.llvm} {scalar}, i64 {lane}"
            name = self._builder.pure(text, name, scalar)
        return name

    def _read(self, name: str, width: int) -> str:
        if self.kind is not I1:
            return name
        vector = f"<{width} x i8>" if width else "i8"
        zero = "zeroinitializer" if width else "0"
        return self._builder.pure(f"icmp ne {vector} {name}, {zero}", name)

    def _missing(self) -> str:
        lane = _memory_literal(self.kind, 0, self._pad)
        count = -(-self._access.reserve() // self.kind.size)
        zero = lane in ("0", "false", "0x0000000000000000")
        pattern = "zero" if zero else lane.replace("-", "m")
        name = f"@pad.{self.kind.memory}.{pattern}.{count}"
        array = f"[{count} x {self.kind.memory}]"
        each = ", ".join(f"{self.kind.memory} {lane}" for _ in range(count))
        value = "zeroinitializer" if zero else f"[{each}]"
        self._builder.globals[name] = f"private unnamed_addr constant {array} {value}, align 64"
        return name


def _load(emitter: Emitter, op: tile.LoadOp) -> None:
    load = Load(emitter, op)
    if not load.memref.constant:
        emitter.pending.append(load)
    if not load.kind.floating and load.kind.bits > 1:
        emitter.bound(op.y, emitter.range(op.y))
    emitter.set(op.y, load.tile)


def _prefetch(emitter: Emitter, op: tile.PrefetchOp) -> None:
    """Ask for each line of a tile, into the second level: the first holds what is read now."""
    access, builder = Access(emitter, op), emitter.builder
    builder.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    line = max(1, CACHE_LINE // access.memref.element.size)
    for run in range(access.size // access.run):
        for skip in range(0, access.run, line):
            place = access.pointer(run, skip, None)
            builder.effect(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 2, i32 1)")


def _store(emitter: Emitter, op: tile.StoreOp) -> None:
    access, value = Access(emitter, op), emitter.tile(op.v)
    outside = emitter.ditch(SEGMENT + SLACK) if access.conditional else None
    width = min(value.width, access.run) if value.width else 1
    size = piece(width, access.run)
    emitter.writes(access.memref)
    if size == value.width:
        _fetch(emitter, value)
    for first in range(0, access.size, size):
        _store_piece(emitter, access, value, first, size, outside, op)


def _fetch(emitter: Emitter, value: Tile) -> None:
    """Compute the parts of a value, a few at a time."""
    for first in range(0, value.count, CHAINS):
        some = range(first, min(first + CHAINS, value.count))
        alternate(emitter.builder, value.home, [partial(value.part, part) for part in some])


def _store_piece(
    emitter: Emitter,
    access: Access,
    value: Tile,
    first: int,
    width: int,
    outside: str | None,
    op: tile.StoreOp,
) -> None:
    builder, kind = emitter.builder, value.element
    run, skip = divmod(first, access.run)
    if width == 1 and not access.ragged:
        name = _written(emitter, kind, value.lane(first), 0)
        vector = kind.memory
    else:
        name = gather(builder, value, list(range(first, first + width)))
        name = _written(emitter, kind, name, width)
        vector = f"<{width} x {kind.memory}>"
    pointer = access.pointer(run, skip, outside)
    if access.ragged:
        mask = access.mask(skip, width)
        call = f"@llvm.masked.store.v{width}{_suffix(kind)}.p0"
        builder.declare(f"void {call}({vector}, ptr, <{width} x i1>)")
        place = f"ptr align {kind.size} {pointer}"
        builder.effect(f"call void {call}({vector} {name}, {place}, <{width} x i1> {mask})")
        return
    streamed = op.nontemporal is not None
    align = min(access.align, CACHE_LINE) if streamed else kind.size
    if streamed and width * kind.size > align:
        streamed = False
    hint = ", !nontemporal !1" if streamed else ""
    builder.effect(
        f"store {vector} {name}, ptr {pointer}, align {kind.size if not streamed else align}{hint}"
    )


def _written(emitter: Emitter, kind: Element, name: str, width: int) -> str:
    if kind is not I1:
        return name
    wide = f"<{width} x i8>" if width else "i8"
    return emitter.builder.pure(f"zext {kind.of(width)} {name} to {wide}", name)


def _scratch(emitter: Emitter, op: tile.ScratchOp) -> None:
    shape = cast("MemRefType[Any]", op.y.type).get_shape()
    emitter.scratch(op.y, element(op.y.type), shape)


def _check(emitter: Emitter, op: tile.CheckOp) -> None:
    builder, ok = emitter.builder, emitter.tile(op.ok)
    name = _all(emitter, ok)
    error = emitter.worker("ptr", ERROR_SLOT)
    number = emitter.nodes.number(op.node.data)
    failed, after = builder.fresh(), builder.fresh()
    builder.effect(f"br i1 {name}, label %{after}, label %{failed}")
    builder.block(failed)
    builder.effect(
        f"{'%' + builder.fresh()} = cmpxchg ptr {error}, i32 0, i32 {number} monotonic monotonic"
    )
    builder.effect(f"br label %{after}")
    builder.block(after)


def _all(emitter: Emitter, ok: Tile) -> str:
    builder, name = emitter.builder, ok.part(0)
    for part in ok.force()[1:]:
        name = builder.pure(f"and {ok.type} {name}, {part}", name, part)
    if not ok.width:
        return name
    call = f"@llvm.vector.reduce.and.v{ok.width}i1"
    builder.declare(f"i1 {call}({ok.type})")
    return builder.pure(f"call i1 {call}({ok.type} {name})", name)


def _pad(op: tile.LoadOp) -> float:
    if isinstance(op.pad, FloatAttr | IntegerAttr):
        return cast("FloatAttr", op.pad).value.data
    return 0


def _suffix(kind: Element) -> str:
    return {"float": "f32", "double": "f64"}.get(kind.memory, kind.memory)


def _memory_literal(kind: Element, width: int, value: float) -> str:
    stored = ELEMENTS["i8"] if kind is I1 else kind
    # By its bits: -0.0 is no zero here.
    if width and literal(stored, value) == literal(stored, 0):
        return "zeroinitializer"
    return splat_literal(stored, width, value) if width else literal(stored, value)


RULES: Final[dict[type[Operation], Rule]] = {
    tile.LoadOp: _load,
    tile.PrefetchOp: _prefetch,
    tile.StoreOp: _store,
    tile.ScratchOp: _scratch,
    tile.CheckOp: _check,
}
