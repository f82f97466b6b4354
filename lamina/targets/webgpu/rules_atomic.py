"""Changes of memory as a whole in WGSL, and the error word, which checks change so."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation

from lamina.dialects import simt
from lamina.targets.shading.printer import count_of
from lamina.targets.webgpu.elements import element
from lamina.targets.webgpu.printer import Memory, Printer, Rule
from lamina.targets.webgpu.rules_simt import index_of

ERROR_WORD: Final = "failed"
"""What the error word is called, an array of one."""


def _atomic(p: Printer, op: simt.AtomicOp) -> None:
    memory: Memory = p.memories[op.x]
    kind = memory.element
    name = f"{op.kind.data}_f32" if kind.floating else op.kind.data
    given = [*([] if op.expected is None else [op.expected]), op.v]
    places, operands = p.registers(op.at), [p.registers(each) for each in given]
    masks = [] if op.mask is None else p.registers(op.mask)
    names = p.variables(op.y)
    for n in range(count_of(op.v)):
        words = [f"bitcast<u32>({each[n]})" for each in operands]
        call = p.access(name, memory, index_of(memory, places[n]), *words)
        text = f"{names[n]} = bitcast<{kind.wgsl}>({call});"
        p.add(f"if ({masks[n]}) {{ {text} }}" if masks else text)


def _error_word(p: Printer, op: simt.ErrorWordOp) -> None:
    p.memories[op.y] = Memory(ERROR_WORD, element(op.y.type), "", ("1i",), ("1i",), atomic=True)


def _node(p: Printer, op: simt.NodeOp) -> None:
    p.set(op.n, [f"{p.nodes.number(op.node.data)}i"])


RULES: Final[dict[type[Operation], Rule]] = {
    simt.AtomicOp: _atomic,
    simt.ErrorWordOp: _error_word,
    simt.NodeOp: _node,
}
"""What changes memory as a whole."""
