"""Memory and threads in WGSL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation

from lamina.dialects import simt
from lamina.targets.shading import control
from lamina.targets.webgpu.elements import PAIR, Element, element
from lamina.targets.webgpu.printer import Memory, Printer, Rule
from lamina.targets.webgpu.rules_arith import literal, unsigned

THREAD: Final = "thread"
"""What a thread's number in its block is called."""


def _thread_id(p: Printer, op: simt.ThreadIdOp) -> None:
    p.define(op.i, [f"bitcast<i32>({THREAD})"])


def _memory(p: Printer, op: simt.MemoryOp) -> None:
    kind = cast("MemRefType[Any]", op.y.type)
    held, name = element(kind), f"shared_{p.fresh()}"
    size = max(1, *kind.get_shape())
    atomic = any(isinstance(use.operation, simt.AtomicOp) for use in op.y.uses)
    word = "atomic<u32>" if atomic else held.shared
    p.share(name, f"array<{word}, {size}>", size * max(held.bits, 32) // 8)
    p.memories[op.y] = Memory(name, held, shared=True, atomic=atomic)


def _load(p: Printer, op: simt.LoadOp) -> None:
    memory = p.memories[op.x]
    texts = _from_words(p, memory, op) or [_loaded(p, memory, at) for at in p.registers(op.at)]
    if op.mask is not None:
        pad = _pad(p, memory.element, op.pad)
        masks = p.registers(op.mask)
        texts = [f"select({pad}, {t}, {m})" for t, m in zip(texts, masks, strict=True)]
    p.define(op.y, texts)


def _pad(p: Printer, kind: Element, pad: Attribute | None) -> str:
    number = cast("FloatAttr[Any] | IntegerAttr[Any]", pad).value.data if pad else 0
    return literal(p, kind, number)


def _from_words(p: Printer, memory: Memory, op: simt.LoadOp) -> list[str] | None:
    """Load each word once, where several registers come from it; None if that is not known."""
    kind, places = memory.element, p.registers(op.at)
    if not (memory.aligned and kind.narrow):
        return None
    each = 32 // kind.bits
    known = p.places.words(op.at, each)
    if known is None or len({first for first, _ in known}) == len(known):
        return None
    names: dict[int, str] = {}
    for first, _ in known:
        if first not in names:
            names[first] = p.fresh()
            word = p.access("load", memory, f"{index_of(memory, places[first])} / {each}u")
            p.add(f"let {names[first]} = {word};")
    return [_part(p, kind, names[first], f"{part * kind.bits}u") for first, part in known]


def _loaded(p: Printer, memory: Memory, at: str) -> str:
    kind, index = memory.element, index_of(memory, at)
    if memory.shared and not memory.atomic:
        return taken(kind, f"{memory.name}[{index}]")
    if kind.bits == 64:
        low, high = (p.access("load", memory, f"2u * {index}{half}") for half in ("", " + 1u"))
        return f"{PAIR}({low}, {high})" if kind.wide else f"bitcast<i32>({low})"
    if kind.bits == 32:
        return f"bitcast<{kind.wgsl}>({p.access('load', memory, index)})"
    each = 32 // kind.bits
    word = p.access("load", memory, f"{index} / {each}u")
    return _part(p, kind, word, f"(({index} % {each}u) * {kind.bits}u)")


def _part(p: Printer, kind: Element, word: str, shift: str) -> str:
    """Return the element that begins at a bit of a word."""
    if kind.wgsl == "bool":
        return f"((({word} >> {shift}) & 0xffu) != 0u)"
    if kind.floating:
        return p.call(f"from_{kind.name}", f"(({word} >> {shift}) & 0xffffu)")
    return f"extractBits(bitcast<i32>({word}), {shift}, {kind.bits}u)"


def index_of(memory: Memory, at: str) -> str:
    """Return the number of an element in what is bound, as a number without sign."""
    return f"bitcast<u32>({memory.offset} + {at})" if memory.offset else f"bitcast<u32>({at})"


def _store(p: Printer, op: simt.StoreOp) -> None:
    memory, places = p.memories[op.x], p.registers(op.at)
    masks: Sequence[str | None] = [None] * len(places)
    if op.mask is not None:
        masks = p.registers(op.mask)
    for at, mask, v in zip(places, masks, p.registers(op.v), strict=True):
        if mask is not None:
            p.open(f"if ({mask})")
        _stored(p, memory, at, v)
        if mask is not None:
            p.close()


def _stored(p: Printer, memory: Memory, at: str, v: str) -> None:
    kind, index = memory.element, index_of(memory, at)
    if memory.shared and not memory.atomic:
        p.add(f"{memory.name}[{index}] = {given(kind, v)};")
    elif kind.bits == 64:
        low, high = (f"{v}.x", f"{v}.y") if kind.wide else (v, f"({v} >> 31u)")
        for word, half in ((f"2u * {index}", low), (f"2u * {index} + 1u", high)):
            p.add(f"{p.access('store', memory, word, f'bitcast<u32>({half})')};")
    elif kind.bits == 32:
        p.add(f"{p.access('store', memory, index, f'bitcast<u32>({v})')};")
    else:
        _stored_narrow(p, memory, index, _bits(p, kind, v))


def _bits(p: Printer, kind: Element, v: str) -> str:
    if kind.wgsl == "bool":
        return given(kind, v)
    return p.call(f"to_{kind.name}", v) if kind.floating else unsigned(kind, v)


def _stored_narrow(p: Printer, memory: Memory, index: str, bits: str) -> None:
    """Other threads store other bits of the word: ours are cleared, then set."""
    each, place, shift = 32 // memory.element.bits, p.fresh(), p.fresh()
    p.add(f"let {place} = {index};")
    p.add(f"let {shift} = ({place} % {each}u) * {memory.element.bits}u;")
    mask, word = f"{(1 << memory.element.bits) - 1}u << {shift}", f"{place} / {each}u"
    p.add(f"{p.access('clear', memory, word, mask)};")
    p.add(f"{p.access('set', memory, word, f'{bits} << {shift}')};")


def _barrier(p: Printer, op: simt.BarrierOp) -> None:
    p.add("storageBarrier();")
    p.add("workgroupBarrier();")


def given(kind: Element, x: str) -> str:
    """Return a register as it is exchanged between threads."""
    return f"select(0u, 1u, {x})" if kind.wgsl == "bool" else x


def taken(kind: Element, text: str) -> str:
    """Return what was exchanged as a register."""
    return f"({text} != 0u)" if kind.wgsl == "bool" else text


def _uniform(p: Printer, op: simt.UniformOp) -> None:
    kind, shared = element(op.x.type), f"shared_{p.fresh()}"
    p.share(shared, kind.shared, 8)
    p.open(f"if ({THREAD} == 0u)")
    p.add(f"{shared} = {given(kind, p.scalar(op.x))};")
    p.close()
    p.define(op.y, [taken(kind, f"workgroupUniformLoad(&{shared})")])


RULES: Final[dict[type[Operation], Rule]] = {
    **control.RULES,
    simt.ThreadIdOp: _thread_id,
    simt.MemoryOp: _memory,
    simt.LoadOp: _load,
    simt.StoreOp: _store,
    simt.BarrierOp: _barrier,
    simt.UniformOp: _uniform,
}
"""What threads, memory and control flow become."""
