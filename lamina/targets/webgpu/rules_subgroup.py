"""What the threads of a subgroup tell each other, in WGSL."""

from __future__ import annotations

from typing import Final

from xdsl.ir import Operation

from lamina.dialects import simt
from lamina.targets.webgpu.elements import PAIR, element
from lamina.targets.webgpu.printer import Printer, Rule
from lamina.targets.webgpu.rules_simt import THREAD, given, taken

_NAMES: Final = {"f32": "f32", "i32": "i32", PAIR: "i64", "bool": "i1"}
"""What functions call the type of a register."""


def _shuffle(p: Printer, op: simt.ShuffleOp) -> None:
    kind = element(op.x.type)
    _exchange(p, op, f"shuffle_{_NAMES[kind.wgsl]}", f"{op.xor.value.data}u, {THREAD}")


def _reduce(p: Printer, op: simt.SubgroupReduceOp) -> None:
    kind = element(op.x.type)
    _exchange(p, op, f"reduce_{op.kind.data}_{_NAMES[kind.wgsl]}_{op.size}", THREAD)


def _exchange(
    p: Printer, op: simt.ShuffleOp | simt.SubgroupReduceOp, function: str, more: str
) -> None:
    kind = element(op.x.type)
    p.varied.add(function)
    texts = [f"{function}({given(kind, x)}, {more})" for x in p.registers(op.x)]
    p.define(op.y, [taken(kind, text) for text in texts])


RULES: Final[dict[type[Operation], Rule]] = {
    simt.ShuffleOp: _shuffle,
    simt.SubgroupReduceOp: _reduce,
}
"""What goes between threads of a subgroup."""
