"""Memory and threads in Metal's language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation

from lamina.dialects import simt
from lamina.targets.metal.elements import Element, element
from lamina.targets.metal.rules_arith import literal
from lamina.targets.shading import control
from lamina.targets.shading.printer import Printer, Rule

THREAD: Final = "self"
"""What a thread's number in its block is called."""

BARRIER: Final = "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"


@dataclass(frozen=True)
class Memory:
    """A memory: the variable, its element, the texts of its extents and strides."""

    name: str
    element: Element
    extents: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()


def _thread_id(p: Printer, op: simt.ThreadIdOp) -> None:
    p.define(op.i, [f"int({THREAD})"])


def _memory(p: Printer, op: simt.MemoryOp) -> None:
    kind = cast("MemRefType[Any]", op.y.type)
    held, name = element(kind), f"shared_{p.fresh()}"
    p.add(f"threadgroup {held.memory} {name}[{max(1, *kind.get_shape())}];")
    p.memories[op.y] = Memory(name, held)


def _load(p: Printer, op: simt.LoadOp) -> None:
    memory: Memory = p.memories[op.x]
    texts = [_loaded(p, memory, at) for at in p.registers(op.at)]
    if op.mask is not None:
        pad = _pad(memory.element, op.pad)
        masks = p.registers(op.mask)
        texts = [f"({m} ? {t} : {pad})" for t, m in zip(texts, masks, strict=True)]
    p.define(op.y, texts)


def _pad(kind: Element, pad: Attribute | None) -> str:
    number = cast("FloatAttr[Any] | IntegerAttr[Any]", pad).value.data if pad else 0
    return literal(kind, number)


def _loaded(p: Printer, memory: Memory, at: str) -> str:
    kind, text = memory.element, f"{memory.name}[{at}]"
    if kind.memory == kind.register:
        return text
    if kind.boolean:
        return f"({text} != 0)"
    if kind.name == "bf16":
        return p.call("from_bf16", f"as_type<ushort>({text})")
    return f"{kind.register}({text})"


def _store(p: Printer, op: simt.StoreOp) -> None:
    memory, places = p.memories[op.x], p.registers(op.at)
    masks = [""] * len(places) if op.mask is None else p.registers(op.mask)
    for at, mask, v in zip(places, masks, p.registers(op.v), strict=True):
        text = f"{memory.name}[{at}] = {_stored(p, memory, v)};"
        p.add(f"if ({mask}) {text}" if mask else text)


def _stored(p: Printer, memory: Memory, v: str) -> str:
    kind: Element = memory.element
    if kind.memory == kind.register:
        return v
    if kind.boolean:
        return f"({v} ? 1 : 0)"
    if kind.name == "bf16":
        return f"as_type<bfloat>({p.call('to_bf16', v)})"
    return f"{kind.memory}({v})"


def _barrier(p: Printer, op: simt.BarrierOp) -> None:
    p.add(BARRIER)


def _shuffle(p: Printer, op: simt.ShuffleOp) -> None:
    xor = op.xor.value.data
    p.define(op.y, [p.call("shuffled", x, f"ushort({xor})") for x in p.registers(op.x)])


def _uniform(p: Printer, op: simt.UniformOp) -> None:
    p.set(op.y, p.registers(op.x))


RULES: Final[dict[type[Operation], Rule]] = {
    **control.RULES,
    simt.ThreadIdOp: _thread_id,
    simt.MemoryOp: _memory,
    simt.LoadOp: _load,
    simt.StoreOp: _store,
    simt.BarrierOp: _barrier,
    simt.ShuffleOp: _shuffle,
    simt.UniformOp: _uniform,
}
"""What threads, memory and control flow become."""
