"""A `simt.kernel` to WGSL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from lamina.dialects import simt
from lamina.errors import LoweringError
from lamina.targets.plans.layouts import Layout, layout
from lamina.targets.webgpu import (
    rules_arith,
    rules_atomic,
    rules_simt,
    rules_subgroup,
    rules_tile,
)
from lamina.targets.webgpu.accesses import access_text, window_names
from lamina.targets.webgpu.elements import element
from lamina.targets.webgpu.functions import Ability, text_of, varied_text, with_needed
from lamina.targets.webgpu.printer import Memory, NodeTable, Printer, Rule
from lamina.targets.webgpu.subgroups import LANES, REDUCE

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

MOST_WORKGROUP_BYTES: Final = 32768
"""Of memory that the threads of a block share, on the adapters there are."""

WINDOW: Final = 128 << 20
"""The bytes that every adapter binds at once."""

GRID, FIRST_WORD = 1, 4
"""Where a dispatch's words have the grid, and what describes the arguments; word 0 is 0."""


@dataclass(frozen=True)
class KernelText:
    """A kernel in WGSL, and what has to be known to launch it.

    `before` and `after`, the body of `main`, are around what depends on the device: the functions
    `varied`, the bindings, and `accesses`, by which memrefs are reached (kind and memref).
    `reads` says of each memref whether it is only read, `atomic` whether its words are atomic,
    `element_bytes` how large its elements are, `shapes` its extents (-1 for one that a dispatch
    says), `slots` how many extents and strides a dispatch says. `checks` says that the last
    binding is the error word.
    """

    name: str
    before: str
    after: str
    varied: tuple[str, ...]
    accesses: tuple[tuple[str, int], ...]
    threads: int
    subgroup: int
    workgroup_bytes: int
    reads: tuple[bool, ...]
    atomic: tuple[bool, ...]
    element_bytes: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    slots: tuple[int, ...]
    checks: bool

    def text(self, ability: Ability, windows: Sequence[int], size: int) -> str:
        """Return the whole WGSL for a device that can do this.

        `windows` says how many windows of `size` bytes each memref lies in.
        """
        varied = [varied_text(name, self.threads, ability) for name in self.varied]
        varied += [access_text(kind, f"m{n}", windows[n], size // 4) for kind, n in self.accesses]
        lanes = ability.subgroups and any(name.startswith(REDUCE) for name in self.varied)
        main = self._main(lanes=lanes)
        return "\n\n".join([self._bindings(windows), self.before, *varied, main])

    def _main(self, *, lanes: bool) -> str:
        """Return what a dispatch calls; with `lanes` it says how many threads a subgroup has."""
        more = ", @builtin(subgroup_size) size: u32" if lanes else ""
        head = (
            f"@compute @workgroup_size({self.threads})\n"
            "fn main(@builtin(workgroup_id) block: vec3<u32>, "
            "@builtin(num_workgroups) blocks: vec3<u32>,\n"
            f"        @builtin(local_invocation_index) {rules_simt.THREAD}: u32{more}) {{"
        )
        if lanes:
            head = f"var<private> {LANES}: u32;\n{head}\n  {LANES} = size;"
        return "\n".join([head, self.after, "}"])

    def windows(self, size: int) -> tuple[int, ...]:
        """Return how many windows of `size` bytes each memref needs, as far as is known."""
        return tuple(
            max(1, -(-prod(shape) * element // size)) if min(shape, default=1) > 0 else 1
            for shape, element in zip(self.shapes, self.element_bytes, strict=True)
        )

    def _bindings(self, windows: Sequence[int]) -> str:
        lines: list[str] = []
        for n, count in enumerate(windows):
            access = "read" if self.reads[n] else "read_write"
            word = "atomic<u32>" if self.atomic[n] else "u32"
            lines += [
                f"var<storage, {access}> {name}: array<{word}>;"
                for name in window_names(f"m{n}", count)
            ]
        if self.checks:
            lines.append(
                f"var<storage, read_write> {rules_atomic.ERROR_WORD}: array<atomic<u32>, 1>;"
            )
        return "\n".join(f"@group(0) @binding({n}) {line}" for n, line in enumerate(lines, 1))


def emit_kernel(kernel: simt.KernelOp, reads: Sequence[bool], nodes: NodeTable) -> KernelText:
    """Return a kernel in WGSL; `reads` says which memrefs are packed weights, whole.

    Raises LoweringError naming the kernel and the operation that cannot be said in WGSL.
    """
    name = kernel.sym_name.data
    try:
        return _Emission(kernel, reads, nodes).emit()
    except LoweringError as error:
        raise LoweringError(f"{error} of kernel @{name}") from None


class _Emission:
    """The parts of one kernel's text."""

    def __init__(self, kernel: simt.KernelOp, reads: Sequence[bool], nodes: NodeTable) -> None:
        self._kernel = kernel
        self._reads = tuple(reads)
        self._printer = Printer(RULES, nodes)
        self._word = FIRST_WORD
        self._stored = {op.x for op in kernel.body.walk() if isinstance(op, simt.StoreOp)}
        self._changed = {op.x for op in kernel.body.walk() if isinstance(op, simt.AtomicOp)}

    def emit(self) -> KernelText:
        kernel, p = self._kernel, self._printer
        memories = [self._place(n, value) for n, value in enumerate(kernel.memrefs)]
        p.memories.update(zip(kernel.memrefs, memories, strict=True))
        for value in kernel.indices.values():
            p.set(value, [self._next_word()])
        self._grid()
        p.block(kernel.body.block)
        if p.workgroup_bytes > MOST_WORKGROUP_BYTES:
            raise LoweringError(
                f"webgpu has {MOST_WORKGROUP_BYTES} bytes for the threads of a block, "
                f"not the {p.workgroup_bytes}"
            )
        return self._text(memories)

    def _text(self, memories: Sequence[Memory]) -> KernelText:
        kernel, p = self._kernel, self._printer
        functions = with_needed(p.functions)
        layouts = [layout(value.type) for value in kernel.memrefs]
        before = [*self._words(), *p.declarations]
        numbers = {memory.name: n for n, memory in enumerate(memories)}
        accesses = sorted((kind, numbers[m]) for kind, m in p.accesses if m in numbers)
        own = sorted((kind, m) for kind, m in p.accesses if m not in numbers)
        before += [access_text(kind, m, 1, 0) for kind, m in own]
        texts = ["\n".join(before), *map(text_of, functions)]
        return KernelText(
            name=kernel.sym_name.data,
            before="\n\n".join(texts),
            after="\n".join(p.lines),
            varied=tuple(sorted(p.varied)),
            accesses=tuple(accesses),
            threads=kernel.threads.value.data,
            subgroup=kernel.subgroup.value.data,
            workgroup_bytes=p.workgroup_bytes,
            reads=self._reads,
            atomic=tuple(memory.atomic for memory in memories),
            element_bytes=tuple(memory.element.bits // 8 for memory in memories),
            shapes=tuple(each.shape for each in layouts),
            slots=tuple(each.slots - 1 for each in layouts),
            checks=kernel.checks,
        )

    def _words(self) -> list[str]:
        return [
            f"struct Words {{ w: array<vec4<i32>, {-(-self._word // 4)}> }}",
            "@group(0) @binding(0) var<uniform> words: Words;",
        ]

    def _place(self, number: int, value: SSAValue) -> Memory:
        kind = cast("MemRefType[Any]", value.type)
        held, shape = element(kind), layout(kind)
        name = f"m{number}"
        offset = self._printer.fresh()
        start = self._next_word()
        if shape.offset:
            start = f"{start} + {shape.offset // (held.bits // 8)}i"
        self._printer.add(f"let {offset} = {start};")
        extents, strides = self._sizes(shape)
        apart = held.narrow and value in self._stored
        atomic = (apart or value in self._changed) and not self._reads[number]
        aligned = self._reads[number] and not shape.offset
        return Memory(name, held, offset, extents, strides, atomic=atomic, aligned=aligned)

    def _sizes(self, shape: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
        extents = tuple(self._next_word() if n is None else f"{n}i" for n in shape.extents)
        if shape.strides is not None:
            strides = tuple(self._next_word() if n is None else f"{n}i" for n in shape.strides)
            return extents, strides
        packed = ["1i"]
        for extent in reversed(extents[1:]):
            packed.append(f"({packed[-1]} * {extent})" if packed[-1] != "1i" else extent)
        return extents, tuple(reversed(packed[: len(extents)]))

    def _next_word(self) -> str:
        word = self._word
        self._word += 1
        return f"words.w[{word // 4}].{'xyzw'[word % 4]}"

    def _grid(self) -> None:
        """Print a block's coordinates: blocks are counted, for a grid may be folded."""
        p = self._printer
        x, y, z = (f"words.w[0].{'xyzw'[GRID + n]}" for n in range(3))
        number = p.fresh()
        p.add(f"let {number} = bitcast<i32>(block.x + blocks.x * (block.y + blocks.y * block.z));")
        p.add(f"if ({number} >= {x} * {y} * {z}) {{ return; }}")
        names = [p.fresh() for _ in range(3)]
        if len(self._kernel.grid) == 1:
            p.add(f"let {names[0]} = {number};")
            p.programs = (names[0],)
            return
        p.add(f"let {names[0]} = {number} % {x};")
        p.add(f"let {names[1]} = ({number} / {x}) % {y};")
        p.add(f"let {names[2]} = {number} / ({x} * {y});")
        p.programs = tuple(names[: len(self._kernel.grid)])
