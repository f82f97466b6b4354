"""A `simt.kernel` to LLVM IR for NVIDIA's GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xdsl.ir import Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.errors import LoweringError
from lamina.targets.cuda import (
    rules_arith,
    rules_atomic,
    rules_boxes,
    rules_fragments,
    rules_simt,
    rules_subgroup,
    rules_warpgroups,
    tensor_maps,
)
from lamina.targets.cuda.architectures import most_shared
from lamina.targets.cuda.elements import element
from lamina.targets.cuda.printer import Memory, NodeTable, Printer, Rule
from lamina.targets.cuda.rules_subgroup import WARP
from lamina.targets.cuda.shared_layout import SharedLayout
from lamina.targets.plans.layouts import layout

RULES: Final[dict[type[Operation], Rule]] = {
    **rules_arith.RULES,
    **rules_atomic.RULES,
    **rules_boxes.RULES,
    **rules_fragments.RULES,
    **rules_simt.RULES,
    **rules_subgroup.RULES,
    **rules_warpgroups.RULES,
}
"""How each operation of a kernel is printed."""

ACCEPTS: Final = frozenset({simt.KernelOp.name, *(op.name for op in RULES)})
"""The operations that can be printed."""

TRIPLE: Final = "nvptx64-nvidia-cuda"

NEWEST: Final = "sm_100"
"""An architecture that has as much of everything as any."""


@dataclass(frozen=True)
class KernelCode:
    """A kernel as an LLVM module: `void @name(memrefs…, words…, error)`.

    The memrefs are pointers; the 64-bit words are, memref after memref, its dynamic extents and
    strides, then the kernel's indices; `error` points to the step's error word; last come the
    descriptions of tensors, `maps`. A block has
    `threads` threads and takes `shared_bytes` of shared memory: declared in the text, or given at
    the launch where they are more than can be.
    """

    name: str
    text: str
    threads: int
    shared_bytes: int
    maps: tuple[tensor_maps.TensorMap, ...] = ()


def emit_kernel(kernel: simt.KernelOp, nodes: NodeTable, arch: str = NEWEST) -> KernelCode:
    """Return the LLVM IR of `kernel`; LoweringError names an operation that has no rule.

    LoweringError where a block takes more shared memory than one of `arch` may be given.
    """
    name = kernel.sym_name.data
    if kernel.subgroup.value.data > WARP:
        raise LoweringError(
            f"cuda has subgroups of {WARP}, not {kernel.subgroup.value.data} (in kernel {name})"
        )
    shared, most = SharedLayout.of(kernel), most_shared(arch)
    if shared.bytes > most:
        raise LoweringError(
            f"{arch} has {most} bytes for the threads of a block, not the {shared.bytes} of "
            f"kernel {name}"
        )
    p = Printer(name, RULES, nodes, shared)
    try:
        parameters = [
            *_memrefs(p, kernel),
            f"ptr addrspace({rules_simt.GLOBAL}) {rules_atomic.ERROR}",
        ]
        p.block(kernel.body.block)
        parameters += tensor_maps.parameters(p.maps)
    except LoweringError as error:
        raise LoweringError(f"{error} (in kernel {name})") from None
    threads = kernel.threads.value.data
    text = [
        f'target triple = "{TRIPLE}"',
        *shared.piece(name),
        *p.globals,
        *p.declarations.values(),
        f'define ptx_kernel void @"{name}"({", ".join(parameters)}) #0 {{',
        *p.lines,
        "  ret void",
        "}",
        f'attributes #0 = {{ nounwind "nvvm.reqntid"="{threads},1,1" }}',
        "attributes #1 = { convergent nounwind }",
        "",
    ]
    return KernelCode(name, "\n".join(text), threads, shared.bytes, tuple(p.maps))


def _memrefs(p: Printer, kernel: simt.KernelOp) -> list[str]:
    """Name the parameters and set the memories; return the parameters with their types."""
    aliased = {n for pair in tile.pairs(kernel.aliases) for n in pair}
    pointers: list[str] = []
    words: list[str] = []
    for n, value in enumerate(kernel.memrefs):
        own = "noalias " if n not in aliased else ""
        own += "readonly " if own and kernel.access.data[n].data == "read" else ""
        pointers.append(f"ptr addrspace({rules_simt.GLOBAL}) {own}align 16 %m{n}")
        p.memories[value] = _memory(p, n, value, words)
    for value in kernel.indices.values():
        p.set(value, _word(words))
    return [*pointers, *(f"i64 {word}" for word in words)]


def _memory(p: Printer, n: int, value: SSAValue, words: list[str]) -> Memory:
    shape, kind, pointer = layout(value.type), element(value.type), f"%m{n}"
    if shape.offset:
        place = f"ptr addrspace({rules_simt.GLOBAL}) {pointer}"
        pointer = p.emit(f"getelementptr inbounds i8, {place}, i64 {shape.offset}")
    extents = tuple(_word(words) if size is None else str(size) for size in shape.extents)
    strides = tuple(_word(words) if size is None else str(size) for size in shape.strides or ())
    return Memory(pointer, rules_simt.GLOBAL, kind, extents, strides)


def _word(words: list[str]) -> str:
    words.append(f"%w{len(words)}")
    return words[-1]
