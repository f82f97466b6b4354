"""What a soft cap computes, in NumPy: the reference that all else is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.targets.reference.interpreter import Interpreter
from lamina.targets.reference.numerics import narrow
from lamina_softcap.dialect import SoftcapOp


def softcap(run: Interpreter, op: SoftcapOp, args: tuple[Any, ...]) -> tuple[Any]:
    """Return `cap * tanh(x / cap)` in float64, rounded once to the type of `x`."""
    (x,) = args
    return (narrow(op.limit * np.tanh(x.astype(np.float64) / op.limit), x.dtype),)
