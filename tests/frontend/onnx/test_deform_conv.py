"""Convolutions with moved taps against loops over everything."""

from itertools import product

import numpy as np
import pytest
from one_node import Array, run

from lamina.errors import UnsupportedError

pytestmark = pytest.mark.onnx


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def at(image: Array, y: float, x: float) -> float:
    """Bilinear, 0 outside."""
    y0, x0 = int(np.floor(y)), int(np.floor(x))
    total = 0.0
    for i, j in product((y0, y0 + 1), (x0, x0 + 1)):
        if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]:
            total += float(image[i, j]) * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def looped(x, w, offset, b, mask, *, group, offset_group, strides, pads, dilations) -> Array:
    n, c = x.shape[:2]
    m, inner, kh, kw = w.shape
    oh, ow = offset.shape[2:]
    moved = offset.reshape(n, offset_group, kh, kw, 2, oh, ow)
    scale = mask.reshape(n, offset_group, kh, kw, oh, ow)
    y = np.tile(b.reshape(1, m, 1, 1).astype(np.float64), (n, 1, oh, ow))
    for i, o, k, r, s, p, q in product(*map(range, (n, m, inner, kh, kw, oh, ow))):
        channel = o // (m // group) * inner + k
        g = channel // (c // offset_group)
        row = p * strides[0] - pads[0] + r * dilations[0] + moved[i, g, r, s, 0, p, q]
        column = q * strides[1] - pads[1] + s * dilations[1] + moved[i, g, r, s, 1, p, q]
        y[i, o, p, q] += w[o, k, r, s] * scale[i, g, r, s, p, q] * at(x[i, channel], row, column)
    return y


CASES = [
    {"group": 1, "offset_group": 1, "strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]},
    {"group": 2, "offset_group": 2, "strides": [2, 1], "pads": [1, 0, 2, 3], "dilations": [1, 2]},
    {"group": 1, "offset_group": 4, "strides": [1, 3], "pads": [0, 2, 1, 1], "dilations": [2, 1]},
    {"group": 4, "offset_group": 1, "strides": [1, 1], "pads": [1, 1, 1, 1], "dilations": [1, 1]},
]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_taps_are_moved_and_scaled(case, free: bool) -> None:
    x, w = draw(2, 4, 7, 9), draw(8, 4 // case["group"], 3, 2, seed=1)
    pads, span = case["pads"], [2 * case["dilations"][0] + 1, case["dilations"][1] + 1]
    oh, ow = (
        (n + pads[d] + pads[d + 2] - span[d]) // case["strides"][d] + 1
        for d, n in enumerate((7, 9))
    )
    offset = draw(2, case["offset_group"] * 12, oh, ow, seed=2) * 2
    mask, b = draw(2, case["offset_group"] * 6, oh, ow, seed=3), draw(8, seed=4)
    inputs = {"x": x, "w": w, "offset": offset, "b": b, "mask": mask}
    (y,) = run("DeformConv", inputs, stored=("w", "b"), opset=22, free=free, **case)
    assert np.allclose(y, looped(x, w, offset, b, mask, **case), atol=1e-4)


def test_three_dimensions_are_refused() -> None:
    inputs = {"x": draw(1, 1, 3, 3, 3), "w": draw(1, 1, 1, 1, 1), "offset": draw(1, 3, 3, 3, 3)}
    with pytest.raises(UnsupportedError, match="rank of 5"):
        run("DeformConv", inputs, opset=22)
