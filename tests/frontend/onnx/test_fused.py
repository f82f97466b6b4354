"""Operators that are several in one give what those do."""

import numpy as np
import pytest
from one_node import MICROSOFT, Array, run

pytestmark = pytest.mark.onnx


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_convolution_is_added_to_and_bent() -> None:
    x, w, b, z = draw(1, 2, 5, 5), draw(3, 2, 1, 1, seed=1), draw(3, seed=2), draw(1, 3, 5, 5)
    options = {"activation": "LeakyRelu", "activation_params": [0.25], "domain": MICROSOFT}
    (y,) = run("FusedConv", {"x": x, "w": w, "b": b, "z": z}, ("w", "b"), **options)
    total = np.einsum("ncij,oc->noij", x, w[:, :, 0, 0]) + b[:, None, None] + z
    assert np.allclose(y, np.where(total < 0, total / 4, total), atol=1e-5)


def test_a_sum_is_normed_and_given_too() -> None:
    x, skip, w = draw(2, 3, 8), draw(2, 3, 8, seed=1), draw(8, seed=2)
    inputs = {"x": x, "skip": skip, "w": w}
    y, total = run(
        "SkipSimplifiedLayerNormalization", inputs, outputs=["y", "", "", "sum"], domain=MICROSOFT
    )
    root = np.sqrt(np.square(x + skip).mean(-1, keepdims=True))
    assert np.allclose(total, x + skip)
    assert np.allclose(y, (x + skip) / root * w, atol=1e-5)


def test_rows_of_few_bits_are_looked_up() -> None:
    rng = np.random.default_rng(0)
    packed, scale = rng.integers(0, 256, (10, 32), np.uint8), abs(draw(10, 2))
    inputs = {"w": packed, "i": np.array([[3, 9], [0, 3]]), "s": scale}
    options = {"block_size": 32, "quantize_axis": 1, "domain": MICROSOFT}
    (y,) = run("GatherBlockQuantized", inputs, ("w", "s"), **options)
    quants = np.stack([packed & 15, packed >> 4], -1).reshape(10, 64)
    wanted = (quants - 8.0) * np.repeat(scale, 32, 1)
    assert np.allclose(y, wanted[inputs["i"]], atol=1e-5)
