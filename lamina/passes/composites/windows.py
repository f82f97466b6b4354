"""Transposed convolutions and pools of powers in primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, i32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.nn_windows import pairs_of
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import values
from lamina.passes.composites.spelling import Spelling


class ConvTransposeToConv(RewritePattern):
    """conv_transpose(x, w) -> slice(interleave(conv(x, w by phases)))

    A result at stride * i + r needs only the part of the window at r, r + stride, …: each phase r
    is a convolution of stride 1 with that part, backwards. All phases are made at once, as output
    channels, and then put between each other.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.ConvTransposeOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        _Phases(op, Spelling(op, rewriter)).write()


class _Phases:
    """One transposed convolution as it is spelt by phases, in each of its dimensions."""

    def __init__(self, op: nn.ConvTransposeOp, spell: Spelling) -> None:
        self.op, self.spell = op, spell
        self.rank = len(op.window)
        self.groups = op.groups.value.data
        self.strides, self.pads = values(op.strides), pairs_of(values(op.pads))
        # Between elements of a dilated window are zeros, unless it has one phase alone.
        dilations = values(op.dilations)
        self.sparse = [s > 1 and d > 1 for s, d in zip(self.strides, dilations, strict=True)]
        each = list(zip(op.window, dilations, self.sparse, strict=True))
        self.steps = [1 if sparse else step for _, step, sparse in each]
        self.sizes = [(n - 1) * step + 1 if sparse else n for n, step, sparse in each]
        self.parts = [-(-n // s) for n, s in zip(self.sizes, self.strides, strict=True)]

    def write(self) -> None:
        """Write the operations that take its place."""
        spell, op = self.spell, self.op
        reach = [(n - 1) * d for n, d in zip(self.parts, self.steps, strict=True)]
        starts, pads = list[int](), list[int]()
        for d, (low, high) in enumerate(self.pads):
            stride, whole = self.strides[d], (self.sizes[d] - 1) * self.steps[d] + 1
            first = min(low // stride, reach[d])
            behind = -(-(whole - high + values(op.extra)[d]) // stride) - 1
            pads += [reach[d] - first, max(0, behind)]
            starts.append(low - first * stride)
        steps, kind = self.steps, nn.element(op.y)
        w = self._weights()
        conv = nn.ConvOp(op.x, w, pads=pads, dilations=steps, groups=self.groups, element=kind)
        spell.finish(self._apart(spell.add(conv), starts))

    def _weights(self) -> SSAValue:
        """`[C, window…, O / g]` -> `[g * phases * O / g, parts…, C / g]`, backwards."""
        spell, groups = self.spell, self.groups
        channels, *_, share = extents(self.op.w.type)
        w = self.op.w
        for d in range(self.rank):
            w = self._filled(w, d + 1, d)
        # [g, C / g, part, phase, part, phase, …, O / g]
        split = [n for d in range(self.rank) for n in (self.parts[d], self.strides[d])]
        w = spell.reshape(w, [groups, channels // groups, *split, share])
        parts = [2 + 2 * d for d in range(self.rank)]
        phases = [3 + 2 * d for d in range(self.rank)]
        w = spell.add(nn.TransposeOp(w, [0, *phases, 2 + 2 * self.rank, *parts, 1]))
        outputs = share * groups
        for stride in self.strides:
            outputs = outputs * stride
        w = spell.reshape(w, [outputs, *self.parts, channels // groups])
        for d in range(self.rank):
            w = self._backwards(w, d + 1)
        return w

    def _filled(self, w: SSAValue, axis: int, d: int) -> SSAValue:
        """Return the window with zeros between its elements, where they are, and behind them."""
        spell, shape = self.spell, list(extents(w.type))
        step = values(self.op.dilations)[d]
        if self.sparse[d] and self.op.window[d] > 1:
            w = spell.reshape(w, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
            w = self._padded(w, axis + 1, step - 1)
            w = spell.reshape(w, [*shape[:axis], shape[axis] * step, *shape[axis + 1 :]])
            w = self._cut(w, axis, self.sizes[d])
        return self._padded(w, axis, self.parts[d] * self.strides[d] - self.sizes[d])

    def _padded(self, w: SSAValue, axis: int, more: int) -> SSAValue:
        if not more:
            return w
        rank, kind = len(extents(w.type)), nn.element(w)
        high = [more if d == axis else 0 for d in range(rank)]
        floating = isinstance(kind, AnyFloat)
        zero = FloatAttr(0.0, kind) if floating else IntegerAttr(0, cast("Any", kind))
        return self.spell.add(nn.PadOp(w, [0] * rank, high, zero))

    def _cut(self, w: SSAValue, axis: int, size: int) -> SSAValue:
        shape = list(extents(w.type))
        shape[axis] = Dim.of(size)
        return self.spell.add(nn.SliceOp(w, [0] * len(shape), shape))

    def _backwards(self, w: SSAValue, axis: int) -> SSAValue:
        size = extents(w.type)[axis].evaluate({})
        if size == 1:
            return w
        order = list(range(size - 1, -1, -1))
        type = tensor(i32, [size])
        places = self.spell.add(
            nn.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, order), type)
        )
        return self.spell.add(nn.GatherOp(w, places, axis))

    def _apart(self, y: SSAValue, starts: Sequence[int]) -> SSAValue:
        """Put the phases, which are channels, where they belong, and cut off what is too much."""
        spell, shape = self.spell, extents(self.op.y.type)
        share = shape[-1] // self.groups
        images, *counts, _ = extents(y.type)
        if any(s > 1 for s in self.strides):
            y = spell.reshape(y, [images, *counts, self.groups, *self.strides, share])
            first = self.rank + 1
            turned = [n for d in range(self.rank) for n in (1 + d, first + 1 + d)]
            y = spell.add(nn.TransposeOp(y, [0, *turned, first, first + 1 + self.rank]))
            wide = [n * s for n, s in zip(counts, self.strides, strict=True)]
            y = spell.reshape(y, [images, *wide, shape[-1]])
        if extents(y.type) == shape:
            return y
        return spell.add(nn.SliceOp(y, [0, *starts, 0], shape))


class PowerPoolToSum(RewritePattern):
    """pool(x) {lp, p} -> pool(|x|^p) {add} ^ (1 / p)

    Other pools are primitives.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.PoolOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        if op.p is None:
            return
        spell, p = Spelling(op, rewriter), op.p.value.data
        x = spell.wide(op.x)
        power = spell.add(nn.MulOp(x, x)) if p == 2 else spell.add(nn.AbsOp(x))
        if p > 2:
            power = spell.add(nn.PowOp(power, spell.fill(p, x.type)))
        y = spell.add(
            nn.PoolOp(
                power,
                "add",
                values(op.window),
                strides=values(op.strides),
                pads=values(op.pads),
                dilations=op.steps,
                ceil=op.ceil is not None,
            )
        )
        if p == 2:
            y = spell.add(nn.SqrtOp(y))
        elif p > 2:
            y = spell.add(nn.PowOp(y, spell.fill(1 / p, y.type)))
        y = spell.cast(y, nn.element(op.y))
        spell.finish(spell.reshape(y, extents(op.y.type)))
