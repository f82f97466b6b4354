"""Bring the right operand of products into the layout that kernels read in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    UnitAttr,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn, quant
from lamina.dialects.dims import product
from lamina.dialects.quant import BLOCK, ROWS, BlocksType
from lamina.dialects.tensors import extents
from lamina.dialects.tile import pairs
from lamina.errors import LoweringError
from lamina.passes.constants import depends_on_weights
from lamina.passes.functions import blocks_in, find_function, operations_in
from lamina.passes.packed_windows import pack_windows
from lamina.passes.rewriting import erase_unused, insert_early, replace_with


class Form(NamedTuple):
    """How a block format is packed: the columns that share a scale, the type of scales."""

    bits: int
    zero: int
    offset: bool
    group: int = BLOCK
    scales: Attribute = f16


FORMS: dict[str, Form] = {
    "q4_0": Form(4, 8, offset=False),
    "q4_1": Form(4, 0, offset=True),
    "q4_k": Form(4, 0, offset=True, scales=f32),
    "q5_0": Form(8, 16, offset=False),
    "q5_1": Form(8, 0, offset=True),
    "q5_k": Form(8, 0, offset=True, scales=f32),
    "q6_k": Form(8, 32, offset=False, group=16, scales=f32),
    "q8_0": Form(8, 128, offset=False),
}
"""The packed form of each block format: one of 4-bit or 8-bit quants, nothing rounded."""


@dataclass(frozen=True)
class PackWeightsPass(ModulePass):
    """Every weight that is the right operand of a product is packed in tiles of 16 columns.

    Float weights become [N/16, K, 16]; blocks become quants, scales and offsets (`quant.pack`).
    A convolution's become panels of 16 output channels, or of fewer where groups have fewer.
    An embedding of the same blocks reads the packed form too.
    """

    name = "pack-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        packed = _Packed(depends_on_weights(function))
        for each in operations_in(function):
            match each:
                case nn.DotGeneralOp() if packed.fits(each):
                    packed.product(each)
                case quant.LinearOp() if not each.packed:
                    packed.linear(each)
                case nn.ConvOp() if each.w in packed.constant and each.packed is None:
                    packed.convolution(each)
                case nn.EmbeddingOp() if isinstance(each.table.type, BlocksType):
                    packed.embedding(each)
                case _:
                    pass
        for block in blocks_in(function.body.block):
            erase_unused(block)


class _Packed:
    """What has been packed already, so that a weight is packed once."""

    def __init__(self, constant: set[SSAValue]) -> None:
        self.constant = constant
        self._blocks: dict[SSAValue, quant.PackOp] = {}
        self._floats: dict[tuple[SSAValue, int], SSAValue] = {}

    def fits(self, op: nn.DotGeneralOp) -> bool:
        """Whether a product is rows times a weight that is a matrix."""
        contract, rank = pairs(op.contract), len(extents(op.a.type))
        right = extents(op.b.type)
        return (
            op.b in self.constant
            and op.a not in self.constant
            and not op.batch
            and len(contract) == 1
            and len(right) == 2
            and contract[0][0] == rank - 1
            and isinstance(nn.element(op.y), AnyFloat)
            and nn.element(op.y) != f64
        )

    def product(self, op: nn.DotGeneralOp) -> None:
        """Rewrite `x · w` with a packed `w`."""
        new: list[Operation] = []
        shape = extents(op.a.type)
        x: SSAValue = op.a
        if len(shape) != 2:
            flat = nn.ReshapeOp(x, [product(shape[:-1]), shape[-1]])
            new.append(flat)
            x = flat.y
        if isinstance(op.b.owner, quant.DequantizeOp):
            y = self._dequantized(op, op.b.owner, x, new)
        else:
            y = self._plain(op, x, new)
        if len(shape) != 2:
            back = nn.ReshapeOp(y, extents(op.y.type))
            new.append(back)
            y = back.y
        replace_with(op, new, [y])

    def _plain(self, op: nn.DotGeneralOp, x: SSAValue, new: list[Operation]) -> SSAValue:
        axis = 1 - pairs(op.contract)[0][1]
        columns = extents(op.b.type)[axis]
        w = self._matrix(op.b, axis, op, new)
        dot = nn.DotGeneralOp(x, w, [(1, 1)])
        rows, tiles, lanes = extents(dot.y.type)
        wide = nn.ReshapeOp(dot.y, [rows, tiles * lanes])
        new += [dot, wide]
        if tiles * lanes == columns:
            return wide.y
        narrow = nn.SliceOp(wide.y, [0, 0], [rows, columns])
        new.append(narrow)
        return narrow.y

    def _matrix(self, w: SSAValue, axis: int, op: Operation, new: list[Operation]) -> SSAValue:
        """Return a float weight as `[N/16, K, 16]`; N is its dimension `axis`.

        A weight that was cast is packed before the cast, so that it stays small in memory.
        """
        cast_to = None
        if isinstance(w.owner, nn.CastOp):
            cast_to, w = nn.element(w), w.owner.x
        if (w, axis) not in self._floats:
            self._floats[(w, axis)] = _pack_floats(w, axis, op)
        packed = self._floats[(w, axis)]
        if cast_to is None:
            return packed
        widened = nn.CastOp(packed, cast_to)
        new.append(widened)
        return widened.y

    def convolution(self, op: nn.ConvOp) -> None:
        """Rewrite a convolution with a packed `w`; one that was cast is packed before that."""
        w, cast_to, new = op.w, None, list[Operation]()
        if isinstance(w.owner, nn.CastOp) and w.owner.x in self.constant:
            cast_to, w = nn.element(w), w.owner.x
        packed = pack_windows(op, w)
        if cast_to is not None:
            widened = nn.CastOp(packed, cast_to)
            new.append(widened)
            packed = widened.y
        conv = nn.ConvOp.create(
            operands=[op.x, packed],
            properties={**op.properties, "packed": UnitAttr()},
            result_types=[op.y.type],
        )
        replace_with(op, [*new, conv], [conv.y])

    def linear(self, op: quant.LinearOp) -> None:
        """Give a product of 8-bit activations its packed weight."""
        pack, zero = self._pack(op.w[0], op)
        rows = extents(op.y.type)[1].evaluate({})
        new = quant.LinearOp(_parts(pack), (op.q, op.d, op.s), rows, zero=zero)
        replace_with(op, [new], [new.y])

    def embedding(self, op: nn.EmbeddingOp) -> None:
        """embedding(blocks, ids) -> gather(dequantize(packed blocks), ids)"""
        kind = cast("BlocksType", op.table.type)
        pack, zero = self._pack(op.table, op)
        numbers = quant.DequantizeOp(_parts(pack), *kind.shape, zero=zero)
        rows = nn.GatherOp(numbers.y, op.ids, 0)
        replace_with(op, [numbers, rows], [rows.y])

    def _dequantized(
        self, op: nn.DotGeneralOp, old: quant.DequantizeOp, x: SSAValue, new: list[Operation]
    ) -> SSAValue:
        pack, zero = self._pack(old.w[0], op)
        rows, columns = (n.evaluate({}) for n in extents(old.y.type))
        numbers = quant.DequantizeOp(_parts(pack), rows, columns, zero=zero)
        dot = nn.DotGeneralOp(x, numbers.y, [(1, pairs(op.contract)[0][1])])
        new += [numbers, dot]
        return dot.y

    def _pack(self, w: SSAValue, before: Operation) -> tuple[quant.PackOp, int]:
        kind = cast("BlocksType", w.type)
        if kind.format.data not in FORMS or kind.shape[1] % BLOCK:
            raise LoweringError(f"no packed form of {kind.format.data} weights of {kind.shape}")
        form = FORMS[kind.format.data]
        if w not in self._blocks:
            self._blocks[w] = pack = quant.PackOp(
                w, form.bits, offset=form.offset, group=form.group, scales=form.scales
            )
            insert_early([pack], before)
        return self._blocks[w], form.zero


def _zero(element: Attribute) -> Attribute:
    kind = cast("Any", element)
    return FloatAttr(0.0, kind) if isinstance(element, AnyFloat) else IntegerAttr(0, kind)


def _pack_floats(w: SSAValue, axis: int, before: Operation) -> SSAValue:
    """`[N, K]` (or `[K, N]`) -> `[N/16, K, 16]`, N padded with zeros."""
    columns = extents(w.type)[axis].evaluate({})
    depth = extents(w.type)[1 - axis]
    extra = -columns % ROWS
    new: list[Operation] = []
    if extra:
        high = [0, 0]
        high[axis] = extra
        pad = nn.PadOp(w, [0, 0], high, _zero(nn.element(w)))
        new.append(pad)
        w = pad.y
    tiles = (columns + extra) // ROWS
    split = [tiles, ROWS, depth] if axis == 0 else [depth, tiles, ROWS]
    parted = nn.ReshapeOp(w, split)
    turned = nn.TransposeOp(parted.y, [0, 2, 1] if axis == 0 else [1, 0, 2])
    new += [parted, turned]
    insert_early(new, before)
    return turned.y


def _parts(pack: quant.PackOp) -> list[OpResult]:
    return [pack.q, pack.scale, *([pack.offset] if pack.offset else [])]  # pyright: ignore
