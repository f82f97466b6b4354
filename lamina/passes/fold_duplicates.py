"""Compute equal values once and unused values not at all, wherever they came from."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove, is_side_effect_free

SOURCE = "lamina.src"

_Key = tuple[object, ...]
_Scope = MutableMapping[_Key, Operation]


@dataclass(frozen=True)
class FoldDuplicatesPass(ModulePass):
    """No two pure operations of a scope are equal but for their source, and none is unused.

    The operation that stays names the sources of all that were like it.
    """

    name = "fold-duplicates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        for region in op.regions:
            _erase_unused(region)
            _fold_region(region, {})


def _erase_unused(region: Region) -> None:
    for block in region.blocks:
        for op in reversed(list(block.ops)):
            if op.results and not any(result.uses for result in op.results):
                if is_side_effect_free(op):
                    _erase(op)
                    continue
            for inner in op.regions:
                _erase_unused(inner)


def _fold_region(region: Region, outer: _Scope) -> None:
    # Only the entry block dominates the others; without their graph, each starts from it.
    for i, block in enumerate(region.blocks):
        known: _Scope = ChainMap[_Key, Operation]({}, outer)
        _fold_block(block, known)
        outer = known if i == 0 else outer


def _fold_block(block: Block, known: _Scope) -> None:
    for op in list(block.ops):
        if op.regions:
            isolated = op.has_trait(IsolatedFromAbove)
            for region in op.regions:
                _fold_region(region, {} if isolated else known)
        elif op.results and is_side_effect_free(op):
            first = known.setdefault(_key(op), op)
            if first is not op:
                _merge(first, op)


def _key(op: Operation) -> _Key:
    attributes = {k: v for k, v in op.attributes.items() if k != SOURCE}
    return (
        op.name,
        tuple(op.operands),
        tuple(result.type for result in op.results),
        tuple((k, op.properties[k]) for k in sorted(op.properties)),
        tuple((k, attributes[k]) for k in sorted(attributes)),
    )


def _merge(first: Operation, same: Operation) -> None:
    names = [*_sources(first), *_sources(same)]
    if names:
        first.attributes[SOURCE] = ArrayAttr(list(dict.fromkeys(names)))
    for kept, gone in zip(first.results, same.results, strict=True):
        gone.replace_all_uses_with(kept)
    _erase(same)


def _sources(op: Operation) -> tuple[Attribute, ...]:
    found = op.attributes.get(SOURCE)
    return cast("ArrayAttr[Attribute]", found).data if isinstance(found, ArrayAttr) else ()


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
