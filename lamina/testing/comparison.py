"""Say whether an output is what it is to be, and where not."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array, is_float
from lamina.testing.sheet import Check


def difference(expected: Array, actual: Array, check: Check) -> str | None:
    """Return the first thing in which `actual` differs from `expected`; None if it is as good.

    Integers and booleans have to be equal, NaN has to be where NaN is expected, and infinities
    have to have their sign. Other floats may be as far off as `check` says.
    """
    if actual.dtype != expected.dtype:
        return f"the dtype is {actual.dtype}, expected {expected.dtype}"
    if actual.shape != expected.shape:
        return f"the shape is {actual.shape}, expected {expected.shape}"
    wrong = _wrong(expected, actual, check)
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"element {list(where)} is {actual[where]!s}, expected {expected[where]!s} "
        f"({int(wrong.sum())} of {wrong.size} differ)"
    )


def _wrong(expected: Array, actual: Array, check: Check) -> Any:
    if not is_float(expected.dtype):
        return np.asarray(expected != actual)
    e, a = (np.atleast_1d(x).astype(np.float64) for x in (expected, actual))
    e, a = e.reshape(expected.shape), a.reshape(expected.shape)
    with np.errstate(invalid="ignore"):
        far = np.abs(a - e) > check.atol + check.rtol * np.abs(e)
    wrong = np.where(np.isfinite(e) & np.isfinite(a), far, e != a)
    if check.signed:
        wrong = wrong | ((e == 0) & (np.signbit(e) != np.signbit(a)))
    return np.where(np.isnan(e), ~np.isnan(a), wrong | np.isnan(a))
