"""Where the memories that a block's threads share lie: each declared, or all in one piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xdsl.ir import SSAValue

from lamina.dialects import simt
from lamina.targets.cuda.compiled_kernels import STATIC_SHARED

SPACE: Final = 3
"""The address space of shared memory."""

_ALIGNMENT: Final = 16
"""Of each memory, in bytes, unless it asks for more: what one instruction loads or stores."""

_PIECE_ALIGNMENT: Final = 1024
"""Of what a launch gives, in bytes: more than any memory in it asks for."""


@dataclass(frozen=True)
class SharedLayout:
    """The first byte of each memory of a kernel, and how many bytes they take together.

    A kernel declares its memories as far as the compiler of PTX lets it; beyond that, its launch
    gives it one piece for all.
    """

    starts: dict[SSAValue, int]
    bytes: int

    @staticmethod
    def of(kernel: simt.KernelOp) -> SharedLayout:
        """Lay the memories of a kernel side by side."""
        starts: dict[SSAValue, int] = {}
        end = 0
        for op in kernel.body.walk():
            if isinstance(op, simt.MemoryOp):
                alignment = _alignment(op.y)
                starts[op.y] = -(-end // alignment) * alignment
                end = starts[op.y] + op.size
        return SharedLayout(starts, end)

    @property
    def given(self) -> bool:
        """Whether the launch gives the memory."""
        return self.bytes > STATIC_SHARED

    def pointer(self, kernel: str, memory: SSAValue) -> str:
        """Return the pointer to a memory in LLVM."""
        if not self.given:
            return f'@"{kernel}.shared{list(self.starts).index(memory)}"'
        piece = f'ptr addrspace({SPACE}) @"{kernel}$shared"'
        return f"getelementptr (i8, {piece}, i64 {self.starts[memory]})"

    def declared(self, kernel: str, memory: SSAValue, size: int, type: str) -> str:
        """Return the global of a memory of `size` elements, empty if the launch gives it."""
        if self.given:
            return ""
        name, space = self.pointer(kernel, memory), f"internal addrspace({SPACE})"
        return f"{name} = {space} global [{size} x {type}] undef, align {_alignment(memory)}"

    def piece(self, kernel: str) -> list[str]:
        """Return the global of what the launch gives, if it gives anything."""
        if not self.given:
            return []
        space = f"external addrspace({SPACE})"
        return [f'@"{kernel}$shared" = {space} global [0 x i8], align {_PIECE_ALIGNMENT}']


def _alignment(memory: SSAValue) -> int:
    op = memory.owner
    asked = op.alignment if isinstance(op, simt.MemoryOp) else None
    return _ALIGNMENT if asked is None else asked.value.data
