"""A `simt.kernel` to the Metal Shading Language, version 3.1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from lamina.dialects import simt
from lamina.errors import LoweringError
from lamina.targets.metal import (
    rules_arith,
    rules_atomic,
    rules_simt,
    rules_subgroup,
    rules_tile,
)
from lamina.targets.metal.elements import element
from lamina.targets.metal.functions import text_of
from lamina.targets.metal.rules_atomic import ERROR_WORD
from lamina.targets.metal.rules_simt import THREAD, Memory
from lamina.targets.plans.layouts import Layout, layout
from lamina.targets.shading.printer import Language, NodeTable, Printer, Rule

RULES: Final[dict[type[Operation], Rule]] = {
    **rules_arith.RULES,
    **rules_tile.RULES,
    **rules_simt.RULES,
    **rules_atomic.RULES,
    **rules_subgroup.RULES,
}
"""How each operation of a kernel is printed."""

ACCEPTS: Final = frozenset({simt.KernelOp.name, *(op.name for op in RULES)})
"""The operations that can be printed."""

MSL: Final = Language(
    target="metal",
    constant="const {type} {name} = {text};",
    variable="{type} {name} = {text};",
    choice="({test} ? {left} : {right})",
    counter="int",
    element=element,
)

MOST_THREADGROUP_BYTES: Final = 32768
"""Of memory that the threads of a block share."""

MOST_BUFFERS: Final = 31
"""That a kernel may be given, of Metal."""

_HEADER: Final = """#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
using namespace metal;"""


@dataclass(frozen=True)
class KernelText:
    """A kernel in Metal's language, and what has to be known to launch it.

    `text` is the kernel alone, named `function`, and `functions` are those that it calls. It takes
    its memrefs, of elements of `element_bytes`, then `words` 32-bit numbers where that is not 0,
    then the error word if it `checks`. `shapes` are the memrefs' extents, -1 for one that a
    dispatch says, `slots` how many extents and strides it says.
    """

    name: str
    function: str
    text: str
    functions: tuple[str, ...]
    threads: int
    subgroup: int
    threadgroup_bytes: int
    element_bytes: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    slots: tuple[int, ...]
    words: int
    checks: bool


def library_text(kernels: Iterable[KernelText]) -> str:
    """Return the text of a library of kernels, whole."""
    kernels = list(kernels)
    functions = text_of({name for kernel in kernels for name in kernel.functions})
    parts = [_HEADER, functions, *(kernel.text for kernel in kernels)]
    return "\n\n".join(part for part in parts if part) + "\n"


def emit_kernel(kernel: simt.KernelOp, nodes: NodeTable) -> KernelText:
    """Return a kernel in Metal's language.

    Raises LoweringError naming the kernel and the operation that cannot be said there.
    """
    try:
        return _Emission(kernel, nodes).emit()
    except LoweringError as error:
        raise LoweringError(f"{error} of kernel @{kernel.sym_name.data}") from None


class _Emission:
    """The parts of one kernel's text."""

    def __init__(self, kernel: simt.KernelOp, nodes: NodeTable) -> None:
        self._kernel = kernel
        self._printer = Printer(MSL, RULES, nodes)
        self._words = 0

    def emit(self) -> KernelText:
        kernel, p = self._kernel, self._printer
        shared = kernel.workgroup_bytes + rules_simt.matrix_bytes(kernel)
        if shared > MOST_THREADGROUP_BYTES:
            raise LoweringError(
                f"metal has {MOST_THREADGROUP_BYTES} bytes for the threads of a block, "
                f"not the {shared}"
            )
        memories = [self._place(n, value) for n, value in enumerate(kernel.memrefs)]
        p.memories.update(zip(kernel.memrefs, memories, strict=True))
        for value in kernel.indices.values():
            p.set(value, [self._next_word()])
        p.programs = ("int(block.x)", "int(block.y)", "int(block.z)")
        p.block(kernel.body.block)
        return self._text(memories)

    def _text(self, memories: Sequence[Memory]) -> KernelText:
        kernel, p = self._kernel, self._printer
        name, checks = kernel.sym_name.data, kernel.checks
        layouts = [layout(value.type) for value in kernel.memrefs]
        lines = [*(f"  {each}" for each in p.declarations), *p.lines]
        # No function may be called main, or as one of Metal's.
        function = f"{re.sub(r'[^0-9A-Za-z_]', '_', name)}_kernel"
        return KernelText(
            name=name,
            function=function,
            text="\n".join([self._head(function, memories, checks=checks), *lines, "}"]),
            functions=tuple(sorted(p.functions)),
            threads=kernel.threads.value.data,
            subgroup=kernel.subgroup.value.data,
            threadgroup_bytes=kernel.workgroup_bytes + rules_simt.matrix_bytes(kernel),
            element_bytes=tuple(memory.element.bits // 8 for memory in memories),
            shapes=tuple(each.shape for each in layouts),
            slots=tuple(each.slots - 1 for each in layouts),
            words=self._words,
            checks=checks,
        )

    def _head(self, function: str, memories: Sequence[Memory], *, checks: bool) -> str:
        arguments: list[str] = []
        for memory, access in zip(memories, self._kernel.access, strict=True):
            const = "const " if access.data == "read" else ""
            arguments.append(f"{const}device {memory.element.memory}* {memory.name}")
        arguments += ["constant int* words"] if self._words else []
        arguments += [f"device int* {ERROR_WORD}"] if checks else []
        if len(arguments) > MOST_BUFFERS:
            raise LoweringError(
                f"metal gives a kernel at most {MOST_BUFFERS} buffers, not the {len(arguments)}"
            )
        bound = [f"{text} [[buffer({n})]]" for n, text in enumerate(arguments)]
        bound.append("uint3 block [[threadgroup_position_in_grid]]")
        bound.append(f"uint {THREAD} [[thread_index_in_threadgroup]]")
        threads = self._kernel.threads.value.data
        return (
            f"[[max_total_threads_per_threadgroup({threads})]]\n"
            f"kernel void {function}(\n    " + ",\n    ".join(bound) + ") {"
        )

    def _place(self, number: int, value: SSAValue) -> Memory:
        kind = cast("MemRefType[Any]", value.type)
        held, shape, name = element(kind), layout(kind), f"m{number}"
        if shape.offset:
            self._printer.add(f"{name} += {shape.offset // (held.bits // 8)};")
        return Memory(name, held, *self._sizes(shape))

    def _sizes(self, shape: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
        extents = tuple(self._next_word() if n is None else str(n) for n in shape.extents)
        if shape.strides is not None:
            strides = tuple(self._next_word() if n is None else str(n) for n in shape.strides)
            return extents, strides
        packed = ["1"]
        for extent in reversed(extents[1:]):
            packed.append(f"({packed[-1]} * {extent})" if packed[-1] != "1" else extent)
        return extents, tuple(reversed(packed[: len(extents)]))

    def _next_word(self) -> str:
        self._words += 1
        return f"words[{self._words - 1}]"
