"""Which operands of a kernel its results may overwrite: what it reads where it then writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import tile


def find_in_place(
    block: Block, pairs: Sequence[tuple[SSAValue, SSAValue]], *, whole_rows: bool
) -> list[tuple[SSAValue, SSAValue]]:
    """Return those (operand, result) memrefs of one type that may be the same memory.

    Programs write apart, so an operand may go if each program reads of it just the tile that it
    then writes for the first time, and no more afterwards. With `whole_rows` a program has its
    rows for itself: it may also read other columns of them before it begins to write, and write
    again.
    """
    if not pairs:
        return []
    order = {op: n for n, op in enumerate(block.walk())}
    return [pair for pair in pairs if _is_safe(*pair, block, order, whole_rows)]


def _is_safe(
    operand: SSAValue,
    result: SSAValue,
    block: Block,
    order: dict[Operation, int],
    whole_rows: bool,
) -> bool:
    uses = {use.operation for use in result.uses}
    stores = sorted((op for op in uses if isinstance(op, tile.StoreOp)), key=order.__getitem__)
    if not stores or not all(isinstance(op, tile.LoadOp | tile.StoreOp) for op in uses):
        return False
    store, *more = stores
    if more and not (whole_rows and all(_same_rows(each, store) for each in more)):
        return False
    if not all(_uses(store.at, loop) for loop in _loops_around(store)):
        return False
    last = order[_at_top(store, block)]
    for use in operand.uses:
        load = use.operation
        if not isinstance(load, tile.LoadOp) or order[load] > order[store]:
            return False
        before = whole_rows and order[_at_top(load, block)] < last
        if not (_same_tile(load, store) or (before and _same_rows(load, store))):
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


def _same_rows(access: tile.LoadOp | tile.StoreOp, store: tile.StoreOp) -> bool:
    apart = access.zip is None and store.zip is None
    rows = tuple(access.at)[:-1] == tuple(store.at)[:-1]
    return apart and rows and access.tile_shape[:-1] == store.tile_shape[:-1]


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
