"""The engine of blocks of threads: what goes wrong in them is told here, with its operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from lamina.dialects.simt import KernelOp
from lamina.errors import LaminaError
from lamina.targets.plans.nodes import NodeTable
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Interpreter, Program
from lamina.targets.reference.simt_memory import Memory, Verb
from lamina.targets.reference.simt_races import MANY, Meeting, Races


class ThreadBlock(Interpreter):
    """The blocks of one launch, run one after the other; `place` is the present one's."""

    def __init__(self, program: Program, kernel: KernelOp) -> None:
        super().__init__(program)
        self.kernel = kernel
        self.threads = np.arange(kernel.threads.value.data)
        self.interval = 0
        self.copies: list[list[Any]] = [[]]
        """Copies that have begun and are not there yet, by group; the last one is open."""
        self.products: list[Any] = []
        """Products of warpgroups that have begun and were not waited for."""
        self.mbarriers: dict[tuple[int, int], Any] = {}
        """Barriers that count bytes, by their memory and their number in it."""
        self.nodes = NodeTable()
        self.error_word = Memory(np.zeros(1, np.int32), (1,), (1,), races=Races(1, blocks=True))
        """The error word."""
        self._places: list[tuple[int, ...]] = []

    def run_at(self, place: tuple[int, ...], arguments: Sequence[Any]) -> None:
        """Run the block of this place in the grid."""
        self.place = place
        self._places.append(place)
        self.interval += 1
        self.copies = [[]]
        self.products, self.mbarriers = [], {}
        self.run_block(self.kernel.body.block, arguments)

    def fail(self, node: str | None) -> None:
        """Note that a check failed before, if `node` names one."""
        self.error_word.elements[0] = 0 if node is None else self.nodes.number(node)

    def failure(self) -> str | None:
        """Return the node of the check that failed first, if one did."""
        number = int(self.error_word.elements[0])
        return self.nodes.names[number - 1] if number else None

    def touch(self, op: Operation, memory: Memory, at: Array, threads: Array, verb: Verb) -> None:
        """Check an access, by `threads`, of the elements `at`, and note it; `verb` is its name.

        LaminaError if an element is outside, or somebody else is there without a barrier between.
        """
        beyond = memory.outside(at)
        if beyond.any():
            n = int(beyond.argmax())
            raise self.error(
                op, f"thread {threads[n]} of block {self.place} {verb}s element {at[n]} of a "
                f"memory of {memory.elements.size}"
            )  # fmt: skip
        number = len(self._places) - 1
        met = memory.touch(at, threads, number, self.interval, verb)
        if met is not None:
            raise self.error(op, self._said(met, int(threads[met.position]), verb, at))

    def _said(self, met: Meeting, thread: int, verb: str, at: Array) -> str:
        if met.blocks:
            other = "other blocks" if met.other == MANY else f"block {self._places[met.other]}"
            return f"block {self.place} {verb}s element {at[met.position]}, which {other} {met.did}"
        other = "other threads" if met.other == MANY else f"thread {met.other}"
        return (
            f"thread {thread} of block {self.place} {verb}s element {at[met.position]}, which "
            f"{other} {met.did}, and no barrier is between"
        )

    def steady(self, op: Operation, x: Any) -> Any:
        """Return a scalar that steers all threads; LaminaError if it differs between them."""
        if not np.ndim(x):
            return x
        bits = x.view(f"u{x.itemsize}")
        if (bits != bits[0]).any():
            n = int((bits != bits[0]).argmax())
            raise self.error(
                op, f"threads of block {self.place} disagree: thread 0 has {x[0]}, "
                f"thread {n} has {x[n]}"
            )  # fmt: skip
        return x[0]

    def error(self, op: Operation, what: str) -> LaminaError:
        """Return the error that an operation is, with what happened."""
        text = str(op).partition("\n")[0]
        return LaminaError(f"kernel @{self.kernel.sym_name.data}: {text}: {what}")
