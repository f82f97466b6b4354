"""Which operands of a kernel its results may overwrite: what it reads where it then writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import tile


def find_in_place(
    block: Block,
    pairs: Sequence[tuple[SSAValue, SSAValue]],
    *,
    own: Collection[tuple[SSAValue, ...]] = (),
) -> list[tuple[SSAValue, SSAValue]]:
    """Return those (operand, result) memrefs of one type that may be the same memory.

    Programs write apart, so an operand may go if each program reads of it just the tile that it
    then writes for the first time, and no more afterwards. Rows that begin with the subscripts
    `own` are those of one program: it may also read any of them before it begins to write, and
    write again.
    """
    if not pairs:
        return []
    order = {op: n for n, op in enumerate(block.walk())}
    return [pair for pair in pairs if _is_safe(*pair, block, order, own)]


def _is_safe(
    operand: SSAValue,
    result: SSAValue,
    block: Block,
    order: dict[Operation, int],
    own: Collection[tuple[SSAValue, ...]],
) -> bool:
    uses = {use.operation for use in result.uses}
    stores = sorted((op for op in uses if isinstance(op, tile.StoreOp)), key=order.__getitem__)
    if not stores or not all(isinstance(op, tile.LoadOp | tile.StoreOp) for op in uses):
        return False
    store, *more = stores
    if more and not all(_is_owned(each, own) for each in stores):
        return False
    if not all(_uses(store.at, loop) for loop in _loops_around(store)):
        return False
    last = order[_at_top(store, block)]
    for use in operand.uses:
        load = use.operation
        if isinstance(load, tile.PrefetchOp):
            continue
        if not isinstance(load, tile.LoadOp) or order[load] > order[store]:
            return False
        before = order[_at_top(load, block)] < last
        if not (_same_tile(load, store) or (before and _is_owned(load, own))):
            return False
    return True


def _same_tile(load: tile.LoadOp, store: tile.StoreOp) -> bool:
    return (
        tuple(load.at) == tuple(store.at)
        and load.tile_shape == store.tile_shape
        and load.steps == store.steps
        and load.zip == store.zip
        and load.limits == store.limits
    )


def _is_owned(access: tile.LoadOp | tile.StoreOp, own: Collection[tuple[SSAValue, ...]]) -> bool:
    """Whether an access lies in rows that the program has for itself."""
    return access.zip is None and any(tuple(access.at)[: len(row)] == row for row in own)


def _loops_around(op: Operation) -> Iterator[scf.ForOp | scf.WhileOp]:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp):
            yield parent
        parent = parent.parent_op()


def _uses(values: Sequence[SSAValue], loop: scf.ForOp | scf.WhileOp) -> bool:
    """Whether values depend on a loop's count, so that every round has its own."""
    if isinstance(loop, scf.WhileOp):
        return False
    count, pending, seen = loop.body.block.args[0], list(values), set[SSAValue]()
    while pending:
        value = pending.pop()
        if value is count:
            return True
        if value not in seen and isinstance(value.owner, Operation):
            pending += value.owner.operands
        seen.add(value)
    return False


def _at_top(op: Operation, block: Block) -> Operation:
    """Return the operation of `block` itself that `op` is, or is in."""
    found = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found
