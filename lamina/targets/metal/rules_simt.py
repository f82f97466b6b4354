"""Memory and threads in Metal's language."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, Final, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation

from lamina.dialects import simt
from lamina.dialects.tile import element_of
from lamina.errors import LoweringError
from lamina.targets.metal.elements import Element, element
from lamina.targets.metal.rules_arith import literal
from lamina.targets.metal.rules_subgroup import LANES
from lamina.targets.shading import control
from lamina.targets.shading.printer import Printer, Rule

THREAD: Final = "self"
"""What a thread's number in its block is called."""

MOST_COMPONENTS: Final = 4
"""Of a vector."""

LEFT_SIZE: Final = 256
SUMS_SIZE: Final = 128
"""Elements of the matrices of 16 by 16, 16 by 8 and 16 by 8 that are multiplied."""

BARRIER: Final = "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"


@dataclass(frozen=True)
class Memory:
    """A memory: the variable, its element, the texts of its extents and strides, where it is."""

    name: str
    element: Element
    extents: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    space: str = "device"


def _thread_id(p: Printer, op: simt.ThreadIdOp) -> None:
    p.define(op.i, [f"int({THREAD})"])


def _memory(p: Printer, op: simt.MemoryOp) -> None:
    kind = cast("MemRefType[Any]", op.y.type)
    held, name = element(kind), f"shared_{p.fresh()}"
    p.add(f"threadgroup {held.memory} {name}[{max(1, *kind.get_shape())}];")
    p.memories[op.y] = Memory(name, held, space="threadgroup")


def _load(p: Printer, op: simt.LoadOp) -> None:
    memory: Memory = p.memories[op.x]
    places, width = p.registers(op.at), _width(op.run)
    pad = literal(memory.element, _pad(op.pad))
    texts: list[str] = []
    for n in range(0, len(places), width):
        mask = p.registers(op.mask)[n] if op.mask is not None else ""
        if width > 1:
            texts += _loaded_together(p, memory, places[n], width, mask, pad)
            continue
        text = _from_memory(p, memory.element, f"{memory.name}[{places[n]}]")
        texts.append(f"({mask} ? {text} : {pad})" if mask else text)
    p.define(op.y, texts)


def _width(run: IntegerAttr[Any] | None) -> int:
    """Return how many registers are neighbours in memory, as far as a vector has components."""
    return 1 if run is None else gcd(run.value.data, MOST_COMPONENTS)


def _loaded_together(
    p: Printer, memory: Memory, at: str, width: int, mask: str, pad: str
) -> list[str]:
    kind, name = memory.element, p.fresh()
    type = f"{kind.memory}{width}"
    text = f"*(const {memory.space} {type}*)({memory.name} + {at})"
    if mask:
        filled = f"{type}({_in_memory(p, kind, pad)})"
        p.add(p.language.variable.format(name=name, type=type, text=filled))
        p.add(f"if ({mask}) {name} = {text};")
    else:
        p.constant(name, type, text)
    return [_from_memory(p, kind, f"{name}[{n}]") for n in range(width)]


def _pad(pad: Attribute | None) -> float:
    return cast("FloatAttr[Any] | IntegerAttr[Any]", pad).value.data if pad else 0


def _from_memory(p: Printer, kind: Element, text: str) -> str:
    """Return what a register has of an element in memory."""
    if kind.memory == kind.register:
        return text
    if kind.boolean:
        return f"({text} != 0)"
    if kind.name == "bf16":
        return p.call("from_bf16", f"as_type<ushort>({text})")
    return f"{kind.register}({text})"


def _store(p: Printer, op: simt.StoreOp) -> None:
    memory: Memory = p.memories[op.x]
    kind, places, width = memory.element, p.registers(op.at), _width(op.run)
    registers = p.registers(op.v)
    for n in range(0, len(places), width):
        values = [_in_memory(p, kind, v) for v in registers[n : n + width]]
        text = f"{memory.name}[{places[n]}] = {values[0]};"
        if width > 1:
            name, type = p.fresh(), f"{kind.memory}{width}"
            p.constant(name, type, f"{type}({', '.join(values)})")
            text = f"*({memory.space} {type}*)({memory.name} + {places[n]}) = {name};"
        p.add(f"if ({p.registers(op.mask)[n]}) {text}" if op.mask is not None else text)


def _in_memory(p: Printer, kind: Element, v: str) -> str:
    """Return an element in memory for what a register has."""
    if kind.memory == kind.register:
        return v
    if kind.boolean:
        return f"uchar({v} ? 1 : 0)"
    if kind.name == "bf16":
        return f"as_type<bfloat>({p.call('to_bf16', v)})"
    return f"{kind.memory}({v})"


def _barrier(p: Printer, op: simt.BarrierOp) -> None:
    p.add(BARRIER)


def _multiply(p: Printer, op: simt.MultiplyAccumulateOp) -> None:
    """Matrices go to Metal's through memory of the simdgroup: how a lane has them is not said."""
    kind, threads = element(op.a.type), kernel_of(op).threads.value.data
    if not kind.floating:
        raise LoweringError("metal multiplies matrices of floats alone on its matrix unit")
    names: list[str] = []
    for use, size, type in (
        ("left", LEFT_SIZE, kind.memory),
        ("right", SUMS_SIZE, kind.memory),
        ("sums", SUMS_SIZE, "float"),
    ):
        name = f"{use}_{type}"
        memory = f"threadgroup {type} {name}[{threads // LANES * size}];"
        if memory not in p.declarations:
            p.declarations.append(memory)
        names.append(f"{name} + {THREAD} / {LANES} * {size}")
    factors = [_in_memory(p, kind, x) for value in (op.a, op.b) for x in p.registers(value)]
    found = p.fresh()
    text = p.call("multiplied", *names, f"{THREAD} % {LANES}", *factors, *p.registers(op.c))
    p.constant(found, "float4", text)
    p.define(op.y, [f"{found}[{n}]" for n in range(4)])


def matrix_bytes(kernel: simt.KernelOp) -> int:
    """Return what the matrices that a kernel multiplies take of the memory of a block."""
    subgroups = kernel.threads.value.data // LANES
    kinds = {
        str(element_of(op.a.type))
        for op in kernel.body.walk()
        if isinstance(op, simt.MultiplyAccumulateOp)
    }
    factors = 2 * (LEFT_SIZE + SUMS_SIZE) * len(kinds)
    return subgroups * (factors + 4 * SUMS_SIZE) if kinds else 0


def kernel_of(op: Operation) -> simt.KernelOp:
    """Return the kernel that an operation is in."""
    around = op.parent_op()
    while not isinstance(around, simt.KernelOp):
        assert around is not None
        around = around.parent_op()
    return around


def _uniform(p: Printer, op: simt.UniformOp) -> None:
    p.set(op.y, p.registers(op.x))


RULES: Final[dict[type[Operation], Rule]] = {
    **control.RULES,
    simt.ThreadIdOp: _thread_id,
    simt.MemoryOp: _memory,
    simt.LoadOp: _load,
    simt.StoreOp: _store,
    simt.BarrierOp: _barrier,
    simt.MultiplyAccumulateOp: _multiply,
    simt.UniformOp: _uniform,
}
"""What threads, memory and control flow become."""
