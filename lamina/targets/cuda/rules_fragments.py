"""Matrix units of warps in LLVM: fragments in registers, loaded and multiplied."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation, SSAValue

from lamina.dialects import simt
from lamina.dialects.tile import values
from lamina.targets.cuda.elements import count_of, element
from lamina.targets.cuda.printer import Printer, Rule
from lamina.targets.cuda.rules_simt import SHARED, place_of


def _multiply(p: Printer, op: simt.MultiplyAccumulateOp) -> None:
    """Print a product of fragments, whose registers LLVM takes in words of 32 bits."""
    kind = element(op.a.type)
    if kind.bits == 32:
        _multiply_tf32(p, op)
        return
    no_sign = values(op.unsigned) or (0, 0)
    if kind.bits == 8:
        letters = ["us"[not each] + "8" for each in no_sign]
        name = f"m16n8k32.row.col.{letters[0] if letters[0] == letters[1] else '.'.join(letters)}"
    else:
        name = f"m16n8k16.row.col.{'f32.f32' if kind.name == 'f16' else 'bf16'}"
    sums = element(op.c.type)
    word = "<2 x half>" if kind.name == "f16" else "i32"
    words = [(word, each) for x in (op.a, op.b) for each in _words(p, x, word)]
    result = f"{{ {', '.join([sums.llvm] * 4)} }}"
    given = [*words, *((sums.llvm, each) for each in p.elements(op.c))]
    found = p.call(f"llvm.nvvm.mma.{name}", result, *given)
    parts = [p.emit(f"extractvalue {result} {found}, {n}") for n in range(4)]
    p.set(op.y, p.joined(parts, sums, 4))


def _multiply_tf32(p: Printer, op: simt.MultiplyAccumulateOp) -> None:
    """Print a product of f32, rounded to what the unit takes of them."""
    words = [
        ("i32", p.call("llvm.nvvm.f2tf32.rna", "i32", ("float", each)))
        for x in (op.a, op.b)
        for each in p.elements(x)
    ]
    result = f"{{ {', '.join(['float'] * 4)} }}"
    sums = [("float", each) for each in p.elements(op.c)]
    found = p.call("llvm.nvvm.mma.m16n8k8.row.col.tf32", result, *words, *sums)
    parts = [p.emit(f"extractvalue {result} {found}, {n}") for n in range(4)]
    p.set(op.y, p.joined(parts, element(op.c.type), 4))


def _load_matrix(p: Printer, op: simt.LoadMatrixOp) -> None:
    count, memory, kind = op.count.value.data, p.memories[op.x], element(op.y.type)
    way = "trans." if op.transposed is not None else ""
    result = "i32" if count == 1 else f"{{ {', '.join(['i32'] * count)} }}"
    words: list[str] = []
    for at in p.elements(op.at):
        place = (f"ptr addrspace({SHARED})", place_of(p, memory, at))
        found = p.call(f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}.{way}b16.p3", result, place)
        words += (
            [found]
            if count == 1
            else [p.emit(f"extractvalue {result} {found}, {n}") for n in range(count)]
        )
    packed = f"<{len(words)} x i32>"
    held = "poison"
    for n, word in enumerate(words):
        held = p.emit(f"insertelement {packed} {held}, i32 {word}, i32 {n}")
    p.define(op.y, f"bitcast {packed} {held} to {kind.of(2 * len(words))}")


def _words(p: Printer, value: SSAValue, type: str) -> list[str]:
    """Return the registers of a value in words of 32 bits."""
    kind, count = element(value.type), count_of(value.type)
    each = 32 // kind.bits
    if type != "i32":
        return [
            p.emit(
                f"shufflevector {p.typed(value)}, {kind.of(count)} poison, "
                f"<{each} x i32> <{', '.join(f'i32 {n + r}' for r in range(each))}>"
            )
            for n in range(0, count, each)
        ]
    packed = p.emit(f"bitcast {p.typed(value)} to <{count // each} x i32>")
    return [
        p.emit(f"extractelement <{count // each} x i32> {packed}, i32 {n}")
        for n in range(count // each)
    ]


RULES: Final[dict[type[Operation], Rule]] = {
    simt.LoadMatrixOp: _load_matrix,
    simt.MultiplyAccumulateOp: _multiply,
}
"""How each operation is printed."""
