"""Whether outputs are ONNX Runtime's, element by element."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]

FLOORS, SHARE = 10.0, 1e-4
QUANTISED_SHARE, LEAST_AGREEMENT = 1e-2, 0.995
QUANTISING = ("QuantizeLinear", "DynamicQuantize", "QLinear", "MatMulInteger", "ConvInteger")


@dataclass(frozen=True)
class Verdict:
    """How far outputs are from ONNX Runtime's: `error`, `floor` and `allowed` in their unit.

    `floor` is how far its own answers are apart, with and without optimisations or, where it
    quantises, on one thread and on many. They are those of the output that is worst beside what is
    allowed; `fault` says what is wrong, if anything is.
    """

    error: float
    floor: float
    allowed: float
    fault: str = ""


def quantises(graph: onnx.GraphProto) -> bool:
    """Tell whether a graph rounds activations to integers."""
    return any(node.op_type.startswith(QUANTISING) for node in graph.node)


def judge(found: list[Array], peers: list[list[Array]], *, quantised: bool) -> Verdict:
    """Return the verdict on all outputs of a call, beside several answers of the peer's.

    They are those without optimisations, with them, and on many threads. What is quantised is to
    be near one of them: by which rows a range is found depends on the number of threads there.
    """
    verdicts = [
        _judged(y, *each, quantised=quantised) for y, *each in zip(found, *peers, strict=True)
    ]
    return max(verdicts, key=_badness)


def _badness(verdict: Verdict) -> tuple[bool, float]:
    return bool(verdict.fault), verdict.error / max(verdict.allowed, 1e-300)


def _judged(y: Array, off: Array, on: Array, rows: Array, *, quantised: bool) -> Verdict:
    if y.shape != off.shape or y.dtype != off.dtype:
        said = f"{y.dtype}{list(y.shape)} for {off.dtype}{list(off.shape)}"
        return Verdict(np.inf, 0.0, 0.0, said)
    if off.dtype.kind != "f":
        wrong = min(int(np.sum(y != other)) for other in ((off, rows) if quantised else (off,)))
        return Verdict(float(wrong), 0.0, 0.0, f"{wrong} of {y.size} differ" if wrong else "")
    most = float(np.max(np.abs(off[np.isfinite(off)]), initial=0.0))
    if quantised:
        floor, allowed = _apart(rows, off), QUANTISED_SHARE * most
        return min((_near(y, x, floor, allowed) for x in (off, rows)), key=_badness)
    floor, error = _apart(on, off), _apart(y, off)
    allowed = max(FLOORS * floor, SHARE * most)
    return Verdict(error, floor, allowed, "" if error <= allowed else "too far")


def _near(y: Array, other: Array, floor: float, allowed: float) -> Verdict:
    error, agreed = _apart(y, other), _agreement(y, other)
    fault = "" if error <= allowed else "too far"
    if agreed < LEAST_AGREEMENT:
        fault = f"argmax agrees in {agreed:.2%}"
    return Verdict(error, floor, allowed, fault)


def _apart(y: Array, other: Array) -> float:
    same = (y == other) | (np.isnan(y) & np.isnan(other))
    if same.all():
        return 0.0
    apart = np.abs(y[~same].astype(np.float64) - other[~same])
    return float(np.inf if np.isnan(apart).any() else apart.max())


def _agreement(y: Array, other: Array) -> float:
    if y.ndim == 0 or y.shape[-1] < 2 or not y.size:
        return 1.0
    return float(np.mean(y.argmax(-1) == other.argmax(-1)))
