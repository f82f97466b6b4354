"""Threads in LLVM: where one is, what it shares, loads and stores, loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.tile import values
from lamina.targets.cuda import shared_layout
from lamina.targets.cuda.elements import count_of, element, literal, llvm_type, zero
from lamina.targets.cuda.printer import Memory, Printer, Rule

GLOBAL, SHARED = 1, shared_layout.SPACE
"""Address spaces."""

_BARRIER: Final = "llvm.nvvm.barrier.cta.sync.aligned.all"
REGISTER: Final = "llvm.nvvm.read.ptx.sreg"


def _special(p: Printer, value: SSAValue, register: str) -> None:
    number = p.call(f"{REGISTER}.{register}", "i32")
    p.define(value, f"zext i32 {number} to i64")


def _program_id(p: Printer, op: tile.ProgramIdOp) -> None:
    _special(p, op.i, f"ctaid.{'xyz'[op.dim.value.data]}")


def _thread_id(p: Printer, op: simt.ThreadIdOp) -> None:
    _special(p, op.i, "tid.x")


def _memory(p: Printer, op: simt.MemoryOp) -> None:
    kind, size = element(op.y.type), prod(cast("MemRefType[Any]", op.y.type).get_shape())
    if declared := p.shared.declared(p.kernel, op.y, size, kind.memory):
        p.globals.append(declared)
    p.memories[op.y] = Memory(p.shared.pointer(p.kernel, op.y), SHARED, kind)


def _extent(p: Printer, op: simt.ExtentOp) -> None:
    p.set(op.n, p.memories[op.x].extents[op.dim.value.data])


def _stride(p: Printer, op: simt.StrideOp) -> None:
    p.set(op.n, p.memories[op.x].strides[op.dim.value.data])


def place_of(p: Printer, memory: Memory, at: str) -> str:
    """Return the pointer to the element of a memory that has this number."""
    """Print the pointer to an element of a memory, by its number, and return it."""
    pointer = f"ptr addrspace({memory.space}) {memory.pointer}"
    return p.emit(f"getelementptr inbounds {memory.element.memory}, {pointer}, i64 {at}")


def _load(p: Printer, op: simt.LoadOp) -> None:
    kind, count, memory = element(op.y.type), count_of(op.y.type), p.memories[op.x]
    pad = zero(kind) if op.pad is None else literal(kind, cast("Any", op.pad).value.data)
    run = 1 if op.run is None else op.run.value.data

    def some(at: str) -> list[str]:
        place = f"ptr addrspace({memory.space}) {place_of(p, memory, at)}"
        if run > 1:
            type = f"<{run} x {kind.memory}>"
            found = p.emit(f"load {type}, {place}, align {run * kind.size}")
            return p.parts(found, kind, run)
        found = p.emit(f"load {kind.memory}, {place}, align {kind.size}")
        return [p.emit(f"trunc i8 {found} to i1") if kind.bits == 1 else found]

    def all_of(places: Sequence[str]) -> list[str]:
        return [each for at in places for each in some(at)]

    places = p.elements(op.at)[::run]
    if op.mask is None:
        found = all_of(places)
    elif (whole := _whole(op.mask)) is not None:
        found = when(p, p.name(whole), lambda: all_of(places), kind.llvm, pad)
    else:
        found = [
            each
            for at, mask in zip(places, p.elements(op.mask)[::run], strict=True)
            for each in when(p, mask, lambda at=at: some(at), kind.llvm, pad)
        ]
    p.set(op.y, p.joined(found, kind, count))


def _whole(mask: SSAValue) -> SSAValue | None:
    """Return the scalar that a mask has in every register, if it does."""
    if not count_of(mask.type):
        return mask
    op = mask.owner
    return op.x if isinstance(op, tile.SplatOp) else None


def when(
    p: Printer, mask: str, body: Callable[[], Sequence[str]], type: str, pad: str
) -> list[str]:
    """Print `body` for threads whose `mask` holds; the others have `pad`."""
    inside, after = p.labels("if", "end")
    before = p.label
    p.add(f"br i1 {mask}, label %{inside}, label %{after}")
    p.open(inside)
    found = body()
    end = p.label
    p.add(f"br label %{after}")
    p.open(after)
    return [p.emit(f"phi {type} [ {each}, %{end} ], [ {pad}, %{before} ]") for each in found]


def _store(p: Printer, op: simt.StoreOp) -> None:
    kind, memory = element(op.v.type), p.memories[op.x]
    run = 1 if op.run is None else op.run.value.data

    def some(values: Sequence[str], at: str) -> None:
        value, type = values[0], kind.memory
        if run > 1:
            value, type = p.joined(values, kind, run), f"<{run} x {kind.memory}>"
        elif kind.bits == 1:
            value = p.emit(f"zext i1 {value} to i8")
        place = f"ptr addrspace({memory.space}) {place_of(p, memory, at)}"
        p.add(f"store {type} {value}, {place}, align {run * kind.size}")

    def several(groups: Sequence[tuple[Sequence[str], str]]) -> Sequence[str]:
        for values, at in groups:
            some(values, at)
        return ()

    registers = p.elements(op.v)
    values = [registers[n : n + run] for n in range(0, len(registers), run)]
    groups = list(zip(values, p.elements(op.at)[::run], strict=True))
    if op.mask is None:
        several(groups)
    elif (whole := _whole(op.mask)) is not None:
        when(p, p.name(whole), lambda: several(groups), "", "")
    else:
        for group, mask in zip(groups, p.elements(op.mask)[::run], strict=True):
            when(p, mask, lambda group=group: several([group]), "", "")


def _barrier(p: Printer, op: simt.BarrierOp) -> None:
    p.call(_BARRIER, "void", ("i32", "0"))


def _pick(p: Printer, op: simt.PickOp) -> None:
    at = values(op.at)
    if not count_of(op.y.type):
        p.define(op.y, f"extractelement {p.typed(op.x)}, i32 {at[0]}")
        return
    mask = ", ".join(f"i32 {r}" for r in at)
    p.define(
        op.y,
        f"shufflevector {p.typed(op.x)}, {llvm_type(op.x.type)} poison, <{len(at)} x i32> <{mask}>",
    )


def _join(p: Printer, op: simt.JoinOp) -> None:
    parts = [part for x in op.xs for part in p.elements(x)]
    p.set(op.y, p.joined(parts, element(op.y.type), len(parts)))


def _copy_async(p: Printer, op: simt.CopyAsyncOp) -> None:
    run, size = op.run.value.data, op.bytes
    name = f"llvm.nvvm.cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}.s"
    masks = [None] if op.mask is None else p.elements(op.mask)[::run]
    places = list(zip(p.elements(op.at)[::run], p.elements(op.to)[::run], strict=True))
    masks = masks * len(places) if op.mask is None else masks
    for (at, to), mask in zip(places, masks, strict=True):
        source, target = (place_of(p, p.memories[m], n) for m, n in ((op.x, at), (op.m, to)))
        count = str(size) if mask is None else p.emit(f"select i1 {mask}, i32 {size}, i32 0")
        pointers = ((f"ptr addrspace({SHARED})", target), (f"ptr addrspace({GLOBAL})", source))
        p.call(name, "void", *pointers, ("i32", count))


def _commit(p: Printer, op: simt.CommitOp) -> None:
    p.call("llvm.nvvm.cp.async.commit.group", "void")


def _wait(p: Printer, op: simt.WaitOp) -> None:
    p.call("llvm.nvvm.cp.async.wait.group", "void", ("i32", str(op.pending.value.data)))


def _splat(p: Printer, op: tile.SplatOp) -> None:
    type, count = llvm_type(op.y.type), count_of(op.y.type)
    first = p.emit(f"insertelement {type} poison, {p.typed(op.x)}, i32 0")
    p.define(op.y, f"shufflevector {type} {first}, {type} poison, <{count} x i32> zeroinitializer")


def _uniform(p: Printer, op: simt.UniformOp) -> None:
    p.set(op.y, p.name(op.x))


def _for(p: Printer, op: scf.ForOp) -> None:
    head, body, after = p.labels("head", "body", "done")
    before, block = p.label, op.body.block
    type = llvm_type(op.lb.type)
    p.add(f"br label %{head}")
    p.open(head)
    # What comes back from the end of the body is known only there.
    first = len(p.lines)
    for arg in block.args:
        p.define(arg, "")
    again = p.emit(f"icmp slt {type} {p.name(block.args[0])}, {p.name(op.ub)}")
    p.add(f"br i1 {again}, label %{body}, label %{after}")
    p.open(body)
    p.block(block)
    following = p.emit(f"add {type} {p.name(block.args[0])}, {p.name(op.step)}")
    end = p.label
    p.add(f"br label %{head}")
    starts = [op.lb, *op.iter_args]
    backs = [following, *(p.name(x) for x in _yielded(block))]
    for n, (arg, start, back) in enumerate(zip(block.args, starts, backs, strict=True)):
        ways = f"[ {p.name(start)}, %{before} ], [ {back}, %{end} ]"
        p.lines[first + n] = f"  {p.name(arg)} = phi {llvm_type(arg.type)} {ways}"
    p.open(after)
    for result, arg in zip(op.results, block.args[1:], strict=True):
        p.set(result, p.name(arg))


def _yielded(block: Block) -> Sequence[SSAValue]:
    end = block.last_op
    return end.operands if isinstance(end, scf.YieldOp) else ()


def _if(p: Printer, op: scf.IfOp) -> None:
    yes, no, after = p.labels("then", "else", "end")
    p.add(f"br i1 {p.name(op.cond)}, label %{yes}, label %{no}")
    ways: list[tuple[str, Sequence[str]]] = []
    for label, region in ((yes, op.true_region), (no, op.false_region)):
        p.open(label)
        given: Sequence[str] = ()
        for block in region.blocks:
            p.block(block)
            given = [p.name(x) for x in _yielded(block)]
        ways.append((p.label, given))
        p.add(f"br label %{after}")
    p.open(after)
    for n, result in enumerate(op.results):
        said = ", ".join(f"[ {given[n]}, %{label} ]" for label, given in ways)
        p.define(result, f"phi {llvm_type(result.type)} {said}")


def _nothing(p: Printer, op: Operation) -> None:
    pass


RULES: Final[dict[type[Operation], Rule]] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.YieldOp: _nothing,
    simt.BarrierOp: _barrier,
    simt.CommitOp: _commit,
    simt.CopyAsyncOp: _copy_async,
    simt.ExtentOp: _extent,
    simt.JoinOp: _join,
    simt.LoadOp: _load,
    simt.MemoryOp: _memory,
    simt.PickOp: _pick,
    simt.StoreOp: _store,
    simt.StrideOp: _stride,
    simt.ThreadIdOp: _thread_id,
    simt.UniformOp: _uniform,
    simt.WaitOp: _wait,
    tile.ProgramIdOp: _program_id,
    tile.ReturnOp: _nothing,
    tile.SplatOp: _splat,
}
