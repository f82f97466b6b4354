"""Multiply weights, once, by what the results of their convolutions are multiplied by."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn, quant
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents
from lamina.passes.constants import depends_on_weights
from lamina.passes.fold_positions import repeats_channels
from lamina.passes.functions import blocks_in, find_function, operations_in
from lamina.passes.rewriting import erase_unused, inherit_source, replace_with


@dataclass(frozen=True)
class FoldScalesPass(ModulePass):
    """No result of a convolution alone is multiplied by known numbers, one for each channel.

    conv(x, w) * s -> conv(x, w * s), and (conv(x, w) + b) * s -> conv(x, w * s) + b * s, of f32 and
    f64: a batch norm that follows a convolution is its bias. Weights that are kept in fewer bits
    than they have as numbers stay as they are.
    """

    name = "fold-scales"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        folding = _Folding(function.body.block, depends_on_weights(function))
        for each in operations_in(function):
            if isinstance(each, nn.MulOp) and nn.element(each.y) in (f32, f64):
                folding.product(each)
        for block in blocks_in(function.body.block):
            erase_unused(block)


class _Folding:
    """What is known before the model runs, and where it is computed: outside of branches."""

    def __init__(self, block: Block, known: set[SSAValue]) -> None:
        self.block, self.known = block, known

    def product(self, op: nn.MulOp) -> None:
        """Rewrite a product of a convolution, or of one with its bias, and known numbers."""
        for x, factor in ((op.a, op.b), (op.b, op.a)):
            scale = self._numbers(factor)
            if scale is None:
                continue
            if (conv := self._alone(x)) is not None:
                new = self._scaled(conv, scale, op)
                replace_with(op, [new], [new.y])
                return
            if isinstance(x.owner, nn.AddOp) and len(list(x.uses)) == 1:
                self._biased(op, x.owner, scale)
                return

    def _biased(self, op: nn.MulOp, add: nn.AddOp, scale: SSAValue) -> None:
        for x, b in ((add.a, add.b), (add.b, add.a)):
            conv, bias = self._alone(x), self._numbers(b)
            if conv is None or bias is None:
                continue
            (scaled,) = self._before(op, nn.MulOp(bias, scale))
            new = self._scaled(conv, scale, op)
            shape = extents(op.y.type)
            spread = nn.BroadcastOp(scaled, [len(shape) - 1], shape)
            total = nn.AddOp(new.y, spread.y)
            replace_with(op, [new, spread, total], [total.y])
            return

    def _alone(self, value: SSAValue) -> nn.ConvOp | None:
        """Return the convolution of known weights whose result is used here and nowhere else."""
        op = value.owner
        if not isinstance(op, nn.ConvOp) or op.packed is not None or len(list(value.uses)) != 1:
            return None
        narrow = isinstance(op.w.owner, nn.CastOp | quant.DequantizeOp)
        kinds = {nn.element(op.x), nn.element(op.w), nn.element(op.y)}
        return op if op.w in self.known and not narrow and len(kinds) == 1 else None

    def _numbers(self, value: SSAValue) -> SSAValue | None:
        """Return the vector of known numbers that a value has, one for each channel."""
        op, last = value.owner, len(extents(value.type)) - 1
        if not isinstance(op, nn.BroadcastOp) or op.x not in self.known or last < 1:
            return None
        shape, channels = extents(op.x.type), extents(value.type)[-1]
        if not repeats_channels(op) or product(shape) != channels:
            return None
        if len(shape) == 1:
            return op.x
        return self._before(op, nn.ReshapeOp(op.x, [channels]))[0]

    def _scaled(self, conv: nn.ConvOp, scale: SSAValue, op: Operation) -> nn.ConvOp:
        """Return a convolution whose weights are multiplied."""
        spread = nn.BroadcastOp(scale, [0], extents(conv.w.type))
        _, w = self._before(op, spread, nn.MulOp(conv.w, spread.y))
        return nn.ConvOp.create(
            operands=[conv.x, w],
            properties=dict(conv.properties),
            attributes=dict(conv.attributes),
            result_types=[conv.y.type],
        )

    def _before(self, op: Operation, *new: Operation) -> list[SSAValue]:
        """Compute what is known ahead of an operation; return the first results."""
        inherit_source(new, [op])
        place = op
        while place.parent is not self.block:
            outer = place.parent_op()
            assert outer is not None
            place = outer
        self.block.insert_ops_before(list(new), place)
        found: list[SSAValue] = [each.results[0] for each in new]
        self.known.update(found)
        return found
