"""Replace operations, keeping where they came from."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation, SSAValue

SOURCE = "lamina.src"
"""The attribute that names the nodes of the source that an operation came from."""


def replace_with(old: Operation, new: Sequence[Operation], results: Sequence[SSAValue]) -> None:
    """Put `new` where `old` is, with its source, and `results` in place of its results."""
    block = old.parent
    assert block is not None
    inherit_source(new, [old])
    block.insert_ops_before(list(new), old)
    for before, after in zip(old.results, results, strict=True):
        after.name_hint = after.name_hint or before.name_hint
        before.replace_all_uses_with(after)
    old.detach()
    old.erase()


def inherit_source(new: Sequence[Operation], old: Sequence[Operation]) -> None:
    """Give each of `new` without a source those of `old`."""
    found: dict[object, None] = {}
    for op in old:
        match op.attributes.get(SOURCE):
            case ArrayAttr(data=names):
                found |= dict.fromkeys(names)
            case _:
                pass
    if not found:
        return
    attribute = ArrayAttr(list(found))  # pyright: ignore[reportArgumentType]
    for op in new:
        op.attributes.setdefault(SOURCE, attribute)


def insert_early(new: Sequence[Operation], before: Operation) -> None:
    """Put operations on weights where the weights are, where every user can see them.

    That is after what the first one takes, be it outside of the branch that `before` is in.
    """
    inherit_source(new, [before])
    owner = new[0].operands[0].owner
    if isinstance(owner, Operation):
        assert owner.parent is not None
        owner.parent.insert_ops_after(list(new), owner)
    elif owner.first_op is not None:
        owner.insert_ops_before(list(new), owner.first_op)


def add_source(op: Operation, other: Operation) -> None:
    """Give `op` the sources of `other` ahead of its own."""
    match other.attributes.get(SOURCE), op.attributes.get(SOURCE):
        case ArrayAttr(data=before), ArrayAttr(data=own):
            op.attributes[SOURCE] = ArrayAttr(list(dict.fromkeys([*before, *own])))
        case ArrayAttr() as before, None:
            op.attributes[SOURCE] = before
        case _:
            pass


def erase_unused(block: Block) -> None:
    """Erase operations without results in use, last first; only those that are pure."""
    from xdsl.traits import is_side_effect_free

    for op in reversed(list(block.ops)):
        unused = op.results and all(not result.uses for result in op.results)
        if unused and is_side_effect_free(op):
            op.detach()
            op.erase()
