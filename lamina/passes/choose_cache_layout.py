"""Choose how pages of keys and values lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    ModuleOp,
    TensorType,
    bf16,
    f16,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from lamina.dialects import cache
from lamina.dialects.cache import PagesType
from lamina.errors import InputError
from lamina.passes.functions import argument_attributes, find_function, retype

Float = Float16Type | Float32Type | BFloat16Type

ELEMENTS: dict[str, Float] = {
    "f16": f16,
    "f32": f32,
    "bf16": bf16,
}

AUTO = "auto"
"""As exact as the weights: f32 where all are f32, else f16."""


@dataclass(frozen=True)
class ChooseCacheLayoutPass(ModulePass):
    """Pools have elements of type `element`; keys that attention reads lie in tiles of `tile`.

    Attention scores `tile` keys side by side, or as many as divide a page as well; what is only
    written or read stays row by row. With
    "auto" the elements are f32 where all weights are f32, else f16.
    """

    name = "choose-cache-layout"

    element: str = "f32"
    tile: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if self.element not in (AUTO, *ELEMENTS):
            known = ", ".join((*ELEMENTS, AUTO))
            raise InputError(f"pages of {self.element!r}: expected one of {known}")
        function = find_function(op, "forward")
        if function is None:
            return
        element = _like_weights(function) if self.element == AUTO else ELEMENTS[self.element]
        for arg in list(function.body.block.args):
            if isinstance(arg.type, PagesType):
                self._retype(arg, element)
                function.attributes["cache.page"] = arg.type.page
        retype(function)

    def _retype(self, pool: SSAValue, element: Float) -> None:
        chain = _chain(pool)
        keys = any(
            isinstance(use.operation, cache.AttentionOp) and use.operation.k is value
            for value in chain
            for use in value.uses
        )
        old = cast("PagesType", pool.type)
        heads, page, dim = (n.value.data for n in (old.heads, old.page, old.dim))
        tile = gcd(self.tile, page) if keys and self.tile else 0
        new = PagesType.of(element, old.count.data, heads, page, dim, tile)
        for value in chain:
            Rewriter.replace_value_with_new_type(value, new)


def _like_weights(function: FuncOp) -> Float:
    for arg, attributes in argument_attributes(function):
        kind: Attribute = arg.type
        exact = isinstance(kind, TensorType) and cast("TensorType[Any]", kind).element_type == f32
        if "lamina.weight" in attributes.data and not exact:
            return f16
    return f32


def _chain(pool: SSAValue) -> list[SSAValue]:
    """Return a pool and what each write makes of it."""
    chain, i = [pool], 0
    while i < len(chain):
        for use in chain[i].uses:
            if isinstance(use.operation, cache.WriteOp) and use.operation.pages is chain[i]:
                chain.append(use.operation.y)
        i += 1
    return chain
