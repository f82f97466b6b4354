"""Quantised activations, weights and products in primitives."""

from __future__ import annotations

from functools import reduce

from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn, quant
from lamina.dialects.quant import BLOCK, ROWS
from lamina.dialects.tensors import extents
from lamina.passes.composites.spelling import Spelling


class QuantizeToRound(RewritePattern):
    """quantize(x) -> (round(x / d), d, d * sum(q)), d = max |x| / 127 in blocks; tiny d: q = 0

    A second term is that of x - q * d.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: quant.QuantizeOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        rows, columns = extents(op.x.type)
        blocks = columns // BLOCK
        x = spell.reshape(spell.cast(op.x, f32), [rows, blocks, BLOCK])
        quants: list[SSAValue] = []
        scales: list[SSAValue] = []
        sums: list[SSAValue] = []
        for _ in range(op.terms):
            d, numbers = _term(spell, x)
            quants.append(
                spell.reshape(spell.add(nn.CastOp(numbers, i8)), [rows, blocks, 1, BLOCK])
            )
            scales.append(spell.reshape(d, [rows, blocks, 1]))
            sums.append(spell.add(nn.MulOp(d, spell.reduce(numbers, "add", [2]))))
            x = spell.add(nn.SubOp(x, spell.add(nn.MulOp(numbers, spell.along(d, x, 2)))))
        q = spell.reshape(_joined(spell, quants), [rows, columns * op.terms])
        d = spell.reshape(_joined(spell, scales), [rows, blocks * op.terms])
        s = reduce(lambda a, b: spell.add(nn.AddOp(a, b)), sums)
        spell.finish(q, d, s)


def _term(spell: Spelling, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return scales [T, K / 32] and quants, as f32, of blocks [T, K / 32, 32]."""
    largest = spell.reduce(spell.add(nn.AbsOp(x)), "max", [2])
    d = spell.add(nn.DivOp(largest, spell.fill(127.0, largest.type)))
    divisor, zero = spell.along(d, x, 2), spell.fill(0.0, x.type)
    blank = spell.add(nn.CompareOp("lt", divisor, spell.fill(quant.LEAST_SCALE, x.type)))
    scaled = spell.add(nn.RoundOp(spell.add(nn.DivOp(x, divisor))))
    scaled = spell.add(nn.MaxOp(scaled, spell.fill(-127.0, x.type)))
    return d, spell.add(nn.SelectOp(blank, zero, scaled))


def _joined(spell: Spelling, terms: list[SSAValue]) -> SSAValue:
    return terms[0] if len(terms) == 1 else spell.add(nn.ConcatOp(terms, 2))


class LinearToDot(RewritePattern):
    """linear(q, d, s, w) -> (q * d, summed over terms) · dequantize(w), for s = d * sum(q)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: quant.LinearOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        tokens, scales = extents(op.d.type)
        blocks = spell.reshape(spell.cast(op.q, f32), [tokens, scales, BLOCK])
        x = spell.add(nn.MulOp(blocks, spell.along(op.d, blocks, 2)))
        if op.terms > 1:
            x = spell.reshape(x, [tokens, op.depth // BLOCK, op.terms, BLOCK])
            x = spell.reduce(x, "add", [2])
        x = spell.reshape(x, [tokens, op.depth])
        sizes = [extents(op.y.type)[1].evaluate({}), op.depth.evaluate({})]
        w = spell.add(quant.DequantizeOp(op.w, *sizes, zero=op.zero.value.data))
        spell.finish(spell.add(nn.DotGeneralOp(x, w, [(1, 1)])))


class DequantizeToProduct(RewritePattern):
    """dequantize(q, scale, offset) -> scale * (q - zero) + offset; blocks of a file stay whole"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: quant.DequantizeOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation, if its weight is packed."""
        if not op.packed:
            return
        spell = Spelling(op, rewriter)
        quants = _quants(spell, op.w[0], op.bits, op.group)
        scale, *offset = (_lanes(spell, each, quants) for each in op.w[1:])
        zero = op.zero.value.data
        y = spell.add(nn.MulOp(spell.shifted(quants, -zero) if zero else quants, scale))
        for each in offset:
            y = spell.add(nn.AddOp(y, each))
        rows, groups, size = extents(quants.type)
        y = spell.reshape(y, [rows, groups * size])
        shape = extents(op.y.type)
        spell.finish(y if extents(y.type) == shape else spell.add(nn.SliceOp(y, [0, 0], shape)))


def _quants(spell: Spelling, packed: SSAValue, bits: int, group: int) -> SSAValue:
    """Return quants [N / 16, K / 32, bits, 16, 4] as unsigned numbers, f32 [N, K / g, g]."""
    tiles, blocks = extents(packed.type)[:2]
    numbers = spell.add(nn.CastOp(packed, i32))
    if bits == 4:
        high = spell.add(nn.ShrOp(numbers, spell.fill(4, numbers.type)))
        shape = [tiles, blocks, bits, 1, ROWS, 4]
        halves = [spell.reshape(_low(spell, x, 15), shape) for x in (numbers, high)]
        joined = spell.add(nn.ConcatOp(halves, 3))
        numbers = spell.reshape(joined, [tiles, blocks, 8, ROWS, 4])
    else:
        numbers = _low(spell, numbers, 255)
    by_row = spell.add(nn.TransposeOp(spell.cast(numbers, f32), [0, 3, 1, 2, 4]))
    return spell.reshape(by_row, [tiles * ROWS, blocks * (BLOCK // group), group])


def _low(spell: Spelling, x: SSAValue, mask: int) -> SSAValue:
    return spell.add(nn.AndOp(x, spell.fill(mask, x.type)))


def _lanes(spell: Spelling, numbers: SSAValue, quants: SSAValue) -> SSAValue:
    """Return numbers [N / 16, K / g, 16] as f32 beside each of the quants [N, K / g, g]."""
    rows, groups, _ = extents(quants.type)
    by_row = spell.add(nn.TransposeOp(spell.cast(numbers, f32), [0, 2, 1]))
    return spell.along(spell.reshape(by_row, [rows, groups]), quants, 2)
