"""Random arrays that both sides of a benchmark draw for themselves; needs NumPy alone."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def weights(shapes: list[list[int]]) -> list[Floats]:
    """Return a matrix f32 [N, K] of each shape, which keeps the size of what it multiplies."""
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((rows, columns), np.float32) * np.float32(columns**-0.5)
        for rows, columns in shapes
    ]


def activations(*shape: int, seed: int = 1) -> Floats:
    """Return normal numbers, f32."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def vectors(width: int) -> tuple[Floats, Floats]:
    """Return the scale and the shift of a norm, f32 [width]: around 1, and around 0."""
    scale, shift = activations(2, width, seed=2) * np.float32(0.1)
    return scale + np.float32(1), shift


def rotations(rows: int, half: int) -> tuple[Floats, Floats]:
    """Return cos and sin of some angles, f32 [rows, half]."""
    angles = activations(rows, half, seed=3)
    return np.cos(angles), np.sin(angles)
