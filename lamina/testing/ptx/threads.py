"""The threads of a few blocks while a kernel runs: their registers, memory and places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.barriers import Barriers
from lamina.testing.ptx.clocks import WARP, Clocks
from lamina.testing.ptx.copies import Copies
from lamina.testing.ptx.fault import KernelFault
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.mbarriers import MBarriers
from lamina.testing.ptx.memory import Memory
from lamina.testing.ptx.neighbours import Neighbours
from lamina.testing.ptx.products import Products
from lamina.testing.ptx.shared import Shared, Trouble
from lamina.testing.ptx.traffic import Traffic

if TYPE_CHECKING:
    from lamina.testing.ptx.program import Program

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    """How a kernel is launched: blocks, threads a block, and dynamic shared bytes a block."""

    grid: Triple
    block: Triple
    dynamic: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a block, the last one perhaps partial."""
        return -(-self.threads // WARP)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


def coordinates(linear: Any, extents: Triple) -> tuple[Any, Any, Any]:
    """Return x, y and z of a number that counts x first."""
    return (
        linear % extents[0],
        linear // extents[0] % extents[1],
        linear // extents[0] // extents[1],
    )


class Threads:
    """`blocks` blocks of a launch, beginning at number `first`, in lock-step.

    A thread's number is block · warps · 32 + its number in the block; those past the last thread
    of a block never live. `rows[bits, dtype]` are the registers of so many bits, a row each.
    """

    def __init__(
        self, program: Program, memory: Memory, shape: Shape, blocks: int, poison: int
    ) -> None:
        self.program = program
        self.memory = memory
        self.shape = shape
        self.blocks = blocks
        self.warps = -(-shape.warps // program.together) * program.together
        self.per_block = self.warps * WARP
        self.count = blocks * self.per_block
        self.rows: dict[tuple[int, np.dtype[Any]], Array] = {}
        self.poison = poison
        for bits, count in program.registers.items():
            raw = np.dtype(np.bool_) if bits == 1 else np.dtype(f"u{bits // 8}")
            stored: Array = np.zeros((count, self.count), raw)
            for dtype in program.views.get(bits, ()):
                self.rows[bits, dtype] = stored if dtype == raw else stored.view(dtype)
            self.rows[bits, raw] = stored
        self.carry: Array = np.zeros(self.count, np.uint64)
        self.local: Array = np.full(self.count * program.local_size, poison, np.uint8)
        self.traffic: Traffic | None = None
        self.neighbours: Neighbours | None = None
        self.first = 0
        self.pc = 0

    def begin(self, first: int, blocks: int) -> None:
        """Place the threads at the start of blocks `first` and on."""
        self.first = first
        self.pc = 0
        shape = self.shape
        number = np.arange(self.count) % self.per_block
        block = np.arange(self.count) // self.per_block
        self.live: Array = (number < shape.threads) & (block < blocks)
        self.everybody = Lanes(self.live.copy())
        self.clocks = Clocks(self.blocks, self.warps)
        valid = self.program.shared_valid(shape.dynamic)
        granule = self.program.granule
        self.shared = Shared(self.blocks, valid, granule, self.clocks, self.poison)
        self.barriers = Barriers()
        self.copies = Copies(self.count)
        self.mbarriers = MBarriers()
        self.products = Products(self.count)
        self.fenced: Array = np.zeros(self.count, np.int64)
        self.local.fill(self.poison)
        self.groups: dict[int, Lanes] = {0: self.everybody}
        self.specials = self._specials(number, block)

    def _specials(self, number: Array, block: Array) -> dict[str, Any]:
        shape = self.shape
        lane = number % WARP
        found: dict[str, Any] = {
            "%laneid": lane,
            "%warpid": number // WARP,
            "%nwarpid": shape.warps,
            "%nsmid": 1,
            "%dynamic_smem_size": shape.dynamic,
            "%total_smem_size": shape.dynamic + self.program.shared_bytes,
            "%lanemask_eq": 1 << lane,
            "%lanemask_lt": (1 << lane) - 1,
            "%lanemask_le": (2 << lane) - 1,
            "%lanemask_gt": (1 << WARP) - (2 << lane),
            "%lanemask_ge": (1 << WARP) - (1 << lane),
        }
        thread = coordinates(number, shape.block)
        place = coordinates(self.first + block, shape.grid)
        for axis, letter in enumerate("xyz"):
            found[f"%tid.{letter}"] = thread[axis]
            found[f"%ntid.{letter}"] = shape.block[axis]
            found[f"%ctaid.{letter}"] = place[axis]
            found[f"%nctaid.{letter}"] = shape.grid[axis]
        return {
            name: np.asarray(value, np.int64).astype(np.uint32)[()] for name, value in found.items()
        }

    def special(self, name: str) -> Any:
        """Return a register that the machine fills; what it does not know is 0."""
        if name in ("%clock", "%clock64", "%globaltimer"):
            return np.uint64(self.clocks.tick())
        return self.specials.get(name, np.uint32(0))

    def go_on(self, pc: int, lanes: Lanes) -> None:
        """Let threads continue at an instruction, with those that are there already."""
        there = self.groups.get(pc)
        self.groups[pc] = lanes if there is None else there.joined(lanes)

    def block_of(self, threads: Array) -> Array:
        """Return which block of those that run now each thread belongs to."""
        return threads // self.per_block

    @property
    def line(self) -> int:
        """The line of the instruction that runs now."""
        return self.program.lines[self.pc]

    def fault(self, kind: str, what: str, thread: int, line: int | None = None) -> KernelFault:
        """Return the error that names this instruction and a thread."""
        block, number = divmod(int(thread), self.per_block)
        place = coordinates(self.first + block, self.shape.grid)
        return KernelFault(
            kind,
            what,
            self.program.name,
            self.line if line is None else line,
            tuple(int(x) for x in place),
            tuple(int(x) for x in coordinates(number, self.shape.block)),
        )

    def raise_for(self, trouble: Trouble | None, who: Array, addresses: Array) -> None:
        """Raise the fault that an access to shared memory gave, if any."""
        if trouble is not None:
            address = int(addresses[trouble.at])
            name = self.program.shared_name(address)
            what = f"shared address {address:#x} ({name}): {trouble.what}"
            raise self.fault(trouble.kind, what, int(who[trouble.at]))
