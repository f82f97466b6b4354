"""Multiply quantised weights by 8-bit activations instead of dequantising them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn, quant
from lamina.dialects.tensors import extents
from lamina.dialects.tile import pairs
from lamina.passes.functions import find_function
from lamina.passes.rewriting import erase_unused, inherit_source, replace_with


@dataclass(frozen=True)
class ChooseActivationsPass(ModulePass):
    """Every product with a quantised weight takes its left operand quantised, by blocks of 32.

    dot(x, dequantize(w)) -> linear(quantize(x), w); products of one left operand share it. It has
    one term of 8 bits, but `last` terms in a product after which none follows: there is nothing
    behind it that would even its error out.
    """

    name = "choose-activations"

    last: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        known: dict[tuple[SSAValue, int], quant.QuantizeOp] = {}
        before = _before_products(function.body.block)
        for each in list(function.body.block.ops):
            if isinstance(each, nn.DotGeneralOp) and _fits(each):
                _quantise(each, 1 if each in before else self.last, known)
        erase_unused(function.body.block)


def _before_products(block: Block) -> set[Operation]:
    """Return the operations whose results some product depends on."""
    found: set[Operation] = set()
    for op in reversed(list(block.ops)):
        if op in found or isinstance(op, nn.DotGeneralOp):
            found |= {x.owner for x in op.operands if isinstance(x.owner, Operation)}
    return found


def _fits(op: nn.DotGeneralOp) -> bool:
    plain = len(extents(op.a.type)) == 2 and not op.batch and pairs(op.contract) == ((1, 1),)
    return plain and isinstance(op.b.owner, quant.DequantizeOp) and not op.b.owner.packed


def _quantise(
    op: nn.DotGeneralOp, terms: int, known: dict[tuple[SSAValue, int], quant.QuantizeOp]
) -> None:
    weight = op.b.owner
    assert isinstance(weight, quant.DequantizeOp)
    new: list[quant.QuantizeOp | quant.LinearOp] = []
    if (op.a, terms) not in known:
        quantize = known[op.a, terms] = quant.QuantizeOp(op.a, terms)
        inherit_source([quantize], [op])
        for result, part in zip(quantize.results, "qds", strict=True):
            result.name_hint = f"{op.a.name_hint}_{part}" if op.a.name_hint else None
        new.append(quantize)
    parts = known[op.a, terms]
    rows = extents(weight.y.type)[0].evaluate({})
    linear = quant.LinearOp(list(weight.w), (parts.q, parts.d, parts.s), rows)
    replace_with(op, [*new, linear], [linear.y])
