"""Products that threads of several subgroups make together, on operands in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import simt
from lamina.dialects.layouts import SUBGROUP, Fragments
from lamina.dialects.tile import values
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Meaning
from lamina.targets.reference.simt_memory import Memory
from lamina.targets.reference.thread_block import ThreadBlock
from lamina.targets.reference.tile import dtype_of

Args = tuple[Any, ...]


class _Read(NamedTuple):
    """What a product reads of a memory until it is waited for: where, and what was there."""

    op: simt.WarpgroupMultiplyOp
    memory: Memory
    places: Array
    found: Array


def _multiply(run: ThreadBlock, op: simt.WarpgroupMultiplyOp, args: Args) -> tuple[Any]:
    m, n, k = values(op.sizes)
    a, a_at, b, b_at, c = args
    across = values(op.across) or (0, 0)
    sides = (
        (a, a_at, (m, k), values(op.a_steps), across[0]),
        (b, b_at, (n, k), values(op.b_steps), across[1]),
    )
    reads = [_operand(run, op, *side) for side in sides]
    run.products.append(reads)
    left, right = (each.found.view(dtype_of(op.kind)).astype(np.float64) for each in reads)
    layout = Fragments(m, n, k, 2, len(run.threads) // SUBGROUP, 1).sums()
    table = layout.table(len(run.threads))
    total = (left @ right.T).reshape(-1)[table] + c
    return (total.astype(np.float32),)


def _operand(
    run: ThreadBlock,
    op: simt.WarpgroupMultiplyOp,
    memory: Memory,
    at: Any,
    shape: tuple[int, int],
    steps: Sequence[int],
    across: int,
) -> _Read:
    """Return the matrix of an operand, K along its rows."""
    row, k = np.indices(shape)
    if op.swizzled is not None:
        inside = swizzled(k, row, steps) if across else swizzled(row, k, steps)
    else:
        inner = (k % 8 * 8 + row % 8) if across else (row % 8 * 8 + k % 8)
        inside = row // 8 * steps[0] + k // 8 * steps[1] + inner
    places = int(run.steady(op, at)) + inside
    _touch(run, op, memory, places)
    return _Read(op, memory, places, memory.elements[places])


def swizzled(row: Array, column: Array, steps: Sequence[int]) -> Array:
    """Return where elements of rows of 64 are, whose parts of 8 have changed places."""
    part = column % simt.SWIZZLED_ROW // 8 ^ row % 8
    inside = row % 8 * simt.SWIZZLED_ROW + part * 8 + column % 8
    return row // 8 * steps[0] + column // simt.SWIZZLED_ROW * steps[1] + inside


def _touch(run: ThreadBlock, op: Operation, memory: Memory, places: Array) -> None:
    # All threads read it: of any two, one is not the writer.
    for thread in (0, len(run.threads) - 1):
        run.touch(op, memory, places.reshape(-1), np.full(places.size, thread), "read")


def _wait(run: ThreadBlock, op: simt.WarpgroupWaitOp, args: Args) -> tuple[Any]:
    left = len(run.products) - op.pending.value.data
    done, run.products = run.products[: max(0, left)], run.products[max(0, left) :]
    for read in (each for reads in done for each in reads):
        bits = f"u{read.found.itemsize}"
        if (read.memory.elements[read.places].view(bits) != read.found.view(bits)).any():
            raise run.error(read.op, "an operand was written before the product was waited for")
        _touch(run, read.op, read.memory, read.places)
    return (args[0],)


def _fence(run: ThreadBlock, op: simt.FenceOp, args: Args) -> tuple[()]:
    return ()


MEANINGS: dict[type[Operation], Meaning] = cast(
    "Any",
    {
        simt.FenceOp: _fence,
        simt.WarpgroupMultiplyOp: _multiply,
        simt.WarpgroupWaitOp: _wait,
    },
)
"""What the operations do; each is run by a `ThreadBlock`."""
