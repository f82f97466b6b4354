"""What a convolution by transforms computes, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import nn, tile
from lamina.dialects.toom_cook import filtering, floats
from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import dtype_of
from lamina.targets.reference.interpreter import Interpreter, Meaning

Args = tuple[Any, ...]


def _winograd(run: Interpreter, op: nn.WinogradOp, args: Args) -> tuple[Any]:
    x, w = (each.astype(np.float64) for each in args)
    matrices = filtering(op.results_abreast, op.taps)
    b, a = (np.array(floats(each)) for each in (matrices.b, matrices.a))
    images, *counts = (n.evaluate(run.extents) for n in op.tiles)
    size, reach = op.results_abreast, op.reach
    low = tile.values(op.pads)[0::2]
    ends = [n * size + op.taps - 1 for n in counts]
    room = np.zeros((images, *ends, x.shape[-1]))
    padded = np.pad(
        x, [(0, 0), *((at, max(0, end)) for at, end in zip(low, ends, strict=True)), (0, 0)]
    )
    room[...] = padded[:, : ends[0], : ends[1]]
    outputs = run.shape(op.y.type)[-1]
    weights = np.moveaxis(w, -1, 2).reshape(reach, reach, -1, x.shape[-1])[:, :, :outputs]
    y = np.zeros((images, counts[0], size, counts[1], size, outputs))
    for i in range(counts[0]):
        for j in range(counts[1]):
            rows, columns = i * size, j * size
            d = room[:, rows : rows + reach, columns : columns + reach]
            v = np.einsum("pi,qj,nijc->npqc", b, b, d, optimize=True)
            m = np.einsum("npqc,pqoc->npqo", v, weights, optimize=True)
            y[:, i, :, j] = np.einsum("ip,jq,npqo->nijo", a, a, m, optimize=True)
    y = y.reshape(images, counts[0] * size, counts[1] * size, outputs)
    _, height, width = (n.evaluate(run.extents) for n in op.positions)
    cut = numerics.narrow(y[:, :height, :width], dtype_of(op.y.type))
    return (cut.reshape(run.shape(op.y.type)),)


MEANINGS: dict[type[Operation], Meaning] = {nn.WinogradOp: _winograd}
