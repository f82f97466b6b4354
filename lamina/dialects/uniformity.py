"""Which values of a kernel are the same in all threads of a block, as far as its text tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects import scf
from xdsl.ir import Operation, Region, SSAValue

VARYING = frozenset(
    {
        *("simt.thread_id", "simt.load", "simt.load_matrix", "simt.shuffle", "simt.pick"),
        *("simt.multiply_accumulate", "simt.warpgroup_multiply"),
        "simt.warpgroup_wait",
        *("simt.atomic", "simt.subgroup_reduce"),
    }
)
"""Operations whose results may differ between threads, whatever they are given."""

UNIFORM = frozenset({"simt.uniform", "simt.extent", "simt.stride", "tile.program_id"})
"""Operations whose results do not, whatever they are given."""


def varying(body: Region) -> set[SSAValue]:
    """Return the values in a kernel's body that may differ between the threads of a block.

    Control flow by such a value makes all that it gives vary. Anything else varies if what it is
    computed from does.
    """
    found: set[SSAValue] = set()
    before = -1
    while before < len(found):
        before = len(found)
        for op in body.walk():
            found.update(_varying(op, found))
    return found


def diverges(op: Operation, differing: set[SSAValue]) -> bool:
    """Tell whether threads may go different ways in `op`, as in all that is no for and no if."""
    if isinstance(op, scf.ForOp):
        return not differing.isdisjoint((op.lb, op.ub, op.step))
    return not isinstance(op, scf.IfOp) or op.cond in differing


def _varying(op: Operation, known: set[SSAValue]) -> Iterator[SSAValue]:
    if isinstance(op, scf.ForOp):
        yield from _of_loop(op, known)
    elif isinstance(op, scf.IfOp):
        yield from _of_branches(op, known)
    elif op.regions:
        yield from (*op.results, *(arg for region in op.regions for arg in region.block.args))
    elif op.name not in UNIFORM and (
        op.name in VARYING or any(operand in known for operand in op.operands)
    ):
        yield from op.results


def _of_loop(op: scf.ForOp, known: set[SSAValue]) -> Iterator[SSAValue]:
    index, *carried = op.body.block.args
    differs = diverges(op, known)
    if differs:
        yield index
    last = cast("Operation", op.body.block.last_op)
    for arg, first, next, result in zip(
        carried, op.iter_args, last.operands, op.results, strict=True
    ):
        if first in known or next in known or differs:
            yield from (arg, result)


def _of_branches(op: scf.IfOp, known: set[SSAValue]) -> Iterator[SSAValue]:
    differs = diverges(op, known)
    ends = [cast("Operation", r.block.last_op) for r in op.regions if r.blocks and op.results]
    for n, result in enumerate(op.results):
        if differs or any(end.operands[n] in known for end in ends):
            yield result
