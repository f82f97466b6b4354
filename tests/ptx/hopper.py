"""Launch the kernel of nvcc_hopper.cu, whose operands are described by tensor maps."""

from pathlib import Path

import ml_dtypes
import numpy as np

from lamina.testing.ptx import Device, Specification
from lamina.testing.ptx.tensor_map import TensorMap

BF16 = np.dtype(ml_dtypes.bfloat16)
TEXT = (Path(__file__).parent / "nvcc_hopper.ptx").read_text(encoding="utf-8")


def product(text: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return A · Bᵀ of bf16 matrices, in f32."""
    device = Device(Specification((9, 0)))
    kernel = device.load(text).kernel("hopper")
    kernel.shared_limit = 100 << 10
    (m, k), n = a.shape, b.shape[0]
    maps = [
        TensorMap(2, device.put(x.view("u2")), (k, len(x)), (2 * k,), (64, 64), 8).encode()
        for x in (a, b)
    ]
    c = device.put(np.zeros((m, n), "f4"))
    grid = (-(-n // 64), -(-m // 64))
    device.launch(kernel, grid, (160,), [*maps, c, m, n, k], 3 * 16384)
    return device.get(c, "f4", (m, n))
