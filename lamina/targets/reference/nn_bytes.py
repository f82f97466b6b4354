"""What the operations of `nn` compute between numbers and bits."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
from xdsl.ir import Operation

from lamina.dialects import nn
from lamina.targets.reference.dtypes import dtype_of
from lamina.targets.reference.interpreter import Interpreter, Meaning

Args = tuple[Any, ...]

DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f4e2m1fn": np.dtype(ml_dtypes.float4_e2m1fn),
}
"""How ml_dtypes calls each format."""


def _bitcast(run: Interpreter, op: nn.BitcastOp, args: Args) -> tuple[Any]:
    return (np.asarray(args[0], order="C").view(dtype_of(op.y.type)),)


def _decode(run: Interpreter, op: nn.DecodeOp, args: Args) -> tuple[Any]:
    codes = args[0] & np.uint8((2 << op.code.width) - 1)
    return (codes.view(DTYPES[op.format.data]).astype(np.float32).astype(dtype_of(op.y.type)),)


def _encode(run: Interpreter, op: nn.EncodeOp, args: Args) -> tuple[Any]:
    x, dtype = args[0].astype(np.float32), DTYPES[op.format.data]
    if op.saturate is not None:
        most = np.array(op.code.largest, np.uint8).view(dtype).astype(np.float32)
        x = np.clip(x, -most, most)
    codes = x.astype(dtype).view(np.uint8)
    return (np.where(np.isnan(x), np.uint8(op.code.missing), codes),)


MEANINGS: dict[type[Operation], Meaning] = {
    nn.BitcastOp: _bitcast,
    nn.DecodeOp: _decode,
    nn.EncodeOp: _encode,
}
