"""Weights of convolutions in panels of neighbouring output channels."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from lamina.dialects import nn
from lamina.dialects.quant import ROWS
from lamina.dialects.tensors import extents
from lamina.passes.rewriting import insert_early


def pack_windows(op: nn.ConvOp, w: SSAValue) -> SSAValue:
    """`[O, window…, C / g]` -> `[panels, window…, C / g, lanes]`, each group padded with zeros.

    `w` is the weight of `op`, maybe before a cast. Where every channel is a group, panels go
    through all of them.
    """
    groups = 1 if op.depthwise else op.groups.value.data
    share, rest = op.outputs.evaluate({}) // groups, [n.evaluate({}) for n in extents(w.type)[1:]]
    lanes = lanes_of(share)
    panels = -(-share // lanes)
    parted = nn.ReshapeOp(w, [groups, share, *rest])
    new: list[Operation] = [parted]
    y = parted.y
    if extra := panels * lanes - share:
        kind = nn.element(w)
        floating = isinstance(kind, AnyFloat)
        zero = FloatAttr(0.0, kind) if floating else IntegerAttr(0, cast("Any", kind))
        pad = nn.PadOp(y, [0] * (len(rest) + 2), [0, extra, *([0] * len(rest))], zero)
        new.append(pad)
        y = pad.y
    split = nn.ReshapeOp(y, [groups * panels, lanes, *rest])
    last = len(rest) + 1
    turned = nn.TransposeOp(split.y, [0, *range(2, last + 1), 1])
    insert_early([*new, split, turned], op)
    return turned.y


def lanes_of(share: int) -> int:
    """Return the channels of a panel: 16, or a power of two that has room for all of a group."""
    return min(ROWS, 1 << max(0, share - 1).bit_length())
