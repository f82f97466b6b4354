"""How each kernel of `kernels.metal` is launched, and what it has to make of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from lamina.testing.msl import Library, MslError, Schedule

Arrays = list[Any]


@dataclass(frozen=True)
class Case:
    """A launch of a kernel; `buffers` has the output at `output`, which is to become `expected`."""

    kernel: str
    buffers: Callable[[np.random.Generator], Arrays]
    output: int
    expected: Callable[[Arrays], Any]
    grid: Sequence[int]
    threads: Sequence[int]
    threadgroup_bytes: Sequence[int] = ()
    tolerance: float = 1e-5

    def difference(self, library: Library, kernel: str, schedule: Schedule, races: bool) -> float:
        """Run the kernel, or a mutant of it, and return how far its output is off."""
        buffers = self.buffers(np.random.default_rng(7))
        library.run(
            kernel, buffers, self.grid, self.threads, self.threadgroup_bytes, schedule, races=races
        )
        wrong = np.abs(np.float64(buffers[self.output]) - self.expected(buffers))
        return float(np.nan_to_num(wrong, nan=np.inf).max())

    def fault(self, library: Library, kernel: str, schedule: Schedule, races: bool) -> str:
        """Return what is wrong with a run of the kernel, or of a mutant of it; "" if nothing is."""
        try:
            far = self.difference(library, kernel, schedule, races)
        except MslError as error:
            return str(error)
        return f"off by {far}" if far > self.tolerance else ""


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def weights(blocks: Any) -> Any:
    low, high = blocks["packed"] & 15, blocks["packed"] >> 4
    signed = np.concatenate([low, high], -1).astype(np.float64) - 8
    return (blocks["scale"][..., None] * signed).reshape(len(blocks), -1)


def random_blocks(rng: np.random.Generator) -> Any:
    blocks = np.zeros((5, 3), np.dtype([("scale", np.float16), ("packed", np.uint8, 16)]))
    blocks["scale"] = rng.normal(size=blocks.shape)
    blocks["packed"] = rng.integers(0, 256, blocks["packed"].shape)
    return blocks


def floats(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Any:
    return rng.normal(size=shape).astype(dtype)


CASES = (
    Case(
        "row_sums",
        lambda rng: [floats(rng, 4, 200), np.zeros(4, np.float32), np.uint32(200)],
        1,
        lambda b: b[0].astype(np.float64).sum(1),
        (2,),
        (96,),
    ),
    Case(
        "softmax",
        lambda rng: [
            floats(rng, 3, 150, dtype=ml_dtypes.bfloat16),
            np.zeros((3, 150), ml_dtypes.bfloat16),
            np.uint32(150),
        ],
        1,
        lambda b: softmax(b[0].astype(np.float64)),
        (3,),
        (64,),
        (608,),
        tolerance=1e-3,
    ),
    Case(
        "matmul",
        lambda rng: [
            floats(rng, 37, 41, dtype=np.float16),
            floats(rng, 41, 50, dtype=np.float16),
            np.zeros((37, 50), np.float32),
            np.uint32([37, 50, 41]),
        ],
        2,
        lambda b: b[0].astype(np.float64) @ b[1].astype(np.float64),
        (2, 2),
        (128,),
        tolerance=1e-4,
    ),
    Case(
        "matvec_4bit",
        lambda rng: [random_blocks(rng), floats(rng, 96), np.zeros(5, np.float32), np.uint32(3)],
        2,
        lambda b: weights(b[0]) @ b[1].astype(np.float64),
        (5,),
        (32,),
        tolerance=1e-4,
    ),
    Case(
        "histogram",
        lambda rng: [rng.integers(0, 16, (96, 4), np.uint8), np.zeros(16, np.uint32)],
        1,
        lambda b: np.bincount(b[0].ravel(), minlength=16),
        (2,),
        (48,),
    ),
    Case(
        "transpose",
        lambda rng: [
            floats(rng, 20, 37),
            np.zeros((37, 20), np.float32),
            np.uint32([20, 37, 0]),
        ],
        1,
        lambda b: b[0].T,
        (3, 2),
        (16, 16),
    ),
    Case(
        "turn_lanes",
        lambda rng: [floats(rng, 4, 32), np.zeros((4, 32), np.float32)],
        1,
        lambda b: np.roll(2 * b[0][:, ::-1], -1, 1),
        (2,),
        (64,),
    ),
)
BY_NAME = {case.kernel: case for case in CASES}
