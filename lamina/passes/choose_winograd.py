"""Convolve by transforms where that takes less time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, ModuleOp, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.quant import ROWS
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import values
from lamina.dialects.toom_cook import filtering
from lamina.passes.constants import depends_on_weights
from lamina.passes.functions import blocks_in, find_function, operations_in
from lamina.passes.rewriting import erase_unused, insert_early, replace_with

TILES = (2, 4)
"""Results of a tile in each dimension: more lose too much of f32."""

_LARGE = 32
"""Results in a dimension where they are not known: many."""


@dataclass(frozen=True)
class ChooseWinogradPass(ModulePass):
    """Dense f32 convolutions of 3 x 3 places, one apart, with known weights, go by transforms.

    conv(x, w) -> winograd(x, G w G^T), in tiles of 2 x 2 or 4 x 4 results, where the model of its
    cost says less: `multiply` of a direct convolution are as fast as one of the products of points,
    `weight` is what reading a weight costs beside a multiply-add of a register, `move` what
    transforming an element does. Results differ by rounding: by some 3e-6 of the largest one.
    """

    name = "choose-winograd"

    move: float = 10.0
    weight: float = 8.0
    least: int = 16

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        known = depends_on_weights(function)
        for each in operations_in(function):
            if isinstance(each, nn.ConvOp) and each.w in known and _fits(each):
                size = self.tile(each)
                if size:
                    _transform(each, size)
        for block in blocks_in(function.body.block):
            erase_unused(block)

    def tile(self, op: nn.ConvOp) -> int:
        """Return the results of a tile in each dimension, 0 for a direct convolution."""
        depth, outputs = op.depth.evaluate({}), op.outputs.evaluate({})
        if min(depth, outputs) < self.least:
            return 0
        sides = [n.constant or _LARGE for n in op.positions[1:]]
        weights = depth * outputs / ROWS
        direct = (prod(sides) + self.weight) * prod(op.window) * weights

        def cost(size: int) -> float:
            points = (size + op.window[0] - 1) ** 2
            count = prod(-(-n // size) for n in sides)
            moved = count * points * (depth + outputs) / ROWS * self.move
            return (count + self.weight) * points * weights + moved

        best = min(TILES, key=cost)
        return best if cost(best) < direct else 0


def _fits(op: nn.ConvOp) -> bool:
    ones = (*values(op.strides), *values(op.dilations), op.groups.value.data)
    plain = set(ones) == {1} and op.packed is None and op.window == (3, 3)
    kinds = {nn.element(op.x), nn.element(op.w), nn.element(op.y)}
    sizes = [n.constant for n in (op.depth, op.outputs)]
    return plain and kinds == {f32} and all(sizes) and op.depth.evaluate({}) % 4 == 0


def _transform(op: nn.ConvOp, size: int) -> None:
    new = nn.WinogradOp(
        op.x,
        _weights(op, size),
        op.y.type,
        tile=size,
        window=op.window[0],
        pads=values(op.pads),
    )
    replace_with(op, [new], [new.y])


def _weights(op: nn.ConvOp, size: int) -> SSAValue:
    """`[O, r, r, C]` -> `[points, panels, C, 16]`: each window as G g G^T, row after row."""
    outputs, taps, _, depth = (n.evaluate({}) for n in extents(op.w.type))
    g = filtering(size, taps).g
    reach = len(g)
    panels = -(-outputs // ROWS)
    new: list[Operation] = []

    def add(each: Operation) -> SSAValue:
        new.append(each)
        return each.results[0]

    w = op.w
    if extra := panels * ROWS - outputs:
        high = [extra, 0, 0, 0]
        w = add(nn.PadOp(w, [0] * 4, high, FloatAttr(0.0, f32)))
    w = add(nn.ReshapeOp(w, [panels, ROWS, taps * taps, depth]))
    kind = tensor(f32, [reach * reach, taps * taps])
    both = [float(a * b) for p in g for q in g for a in p for b in q]
    matrix = add(nn.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, both), kind))
    turned = add(nn.DotGeneralOp(matrix, w, [(1, 2)]))
    packed = add(nn.TransposeOp(turned, [0, 1, 3, 2]))
    insert_early(new, op)
    return packed
