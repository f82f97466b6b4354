"""PyTorch and OpenBLAS as the other side of the kernels' benchmarks: see `answers.py`.

It needs torch, scipy-openblas64 and numpy.
"""

import ctypes
from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import answers
import drawn
import numpy as np
import torch
import torch.nn.functional as F

EPS = 1e-5


@lru_cache(maxsize=1)
def weights(shapes: tuple[tuple[int, int], ...]) -> list[drawn.Floats]:
    """Return the weights of a chain, which jobs share."""
    return drawn.weights([list(shape) for shape in shapes])


class Linears(ABC):
    """A chain of products, each of the last one's output where its width fits."""

    def __init__(self, shapes: list[list[int]], rows: int) -> None:
        self._weights = weights(tuple((n, k) for n, k in shapes))
        self._x = drawn.activations(rows, shapes[0][1])

    def once(self) -> list[float]:
        """Return the seconds of each product."""
        return self._walk()[1]

    def result(self) -> Any:
        """Return the last output, f32 [M, N]."""
        return np.asarray(self._walk()[0])

    @abstractmethod
    def _walk(self) -> tuple[Any, list[float]]:
        """Return the last output, and the seconds of each product."""


class Torch(Linears):
    """By torch.nn.functional.linear."""

    def __init__(self, shapes: list[list[int]], rows: int) -> None:
        super().__init__(shapes, rows)
        self._tensors = [torch.from_numpy(w) for w in self._weights]
        self._first = torch.from_numpy(self._x)

    def _walk(self) -> tuple[Any, list[float]]:
        y, times = self._first, list[float]()
        for w in self._tensors:
            x = y if y.shape[1] == w.shape[1] else self._first
            began = perf_counter()
            y = F.linear(x, w)
            times.append(perf_counter() - began)
        return y, times


class OpenBlas(Linears):
    """By cblas_sgemm, row-major, with the weight transposed."""

    _ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112

    def __init__(self, shapes: list[list[int]], rows: int) -> None:
        super().__init__(shapes, rows)
        self._sgemm = library().scipy_cblas_sgemm64_
        size, real = ctypes.c_int64, ctypes.c_float
        self._sgemm.argtypes = [
            *[ctypes.c_int] * 3, *[size] * 3, real, ctypes.c_void_p, size, ctypes.c_void_p, size,
            real, ctypes.c_void_p, size,
        ]  # fmt: skip
        self._sgemm.restype = None
        # Two rooms, as an output is the next one's input.
        widest = max(n for n, _ in shapes)
        self._rooms = [np.zeros(rows * widest, np.float32) for _ in range(2)]

    def _walk(self) -> tuple[Any, list[float]]:
        y, times = self._x, list[float]()
        rows = len(y)
        for number, w in enumerate(self._weights):
            n, k = w.shape
            x = y if y.shape[1] == k else self._x
            y = self._rooms[number % 2][: rows * n].reshape(rows, n)
            a, b, c = x.ctypes.data, w.ctypes.data, y.ctypes.data
            began = perf_counter()
            self._sgemm(
                self._ROW_MAJOR, self._PLAIN, self._TRANSPOSED,
                rows, n, k, 1.0, a, k, b, k, 0.0, c, n,
            )  # fmt: skip
            times.append(perf_counter() - began)
        return y, times


class Rows:
    """An operation on rows, f32 [rows, width]."""

    def __init__(self, op: str, rows: int, width: int, head: int) -> None:
        self._x = torch.from_numpy(drawn.activations(rows, width))
        self._scale, self._shift = map(torch.from_numpy, drawn.vectors(width))
        cos, sin = drawn.rotations(rows, head // 2)
        self._cos, self._sin = (
            torch.from_numpy(np.tile(each, 2)).reshape(rows, 1, head) for each in (cos, sin)
        )
        self._heads = self._x.view(rows, width // head, head)
        self._op = {
            "softmax": lambda: F.softmax(self._x, -1),
            "layer_norm": lambda: F.layer_norm(self._x, (width,), self._scale, self._shift, EPS),
            "rms_norm": lambda: F.rms_norm(self._x, (width,), self._scale, EPS),
            "gelu": lambda: F.gelu(self._x),
            "gelu_tanh": lambda: F.gelu(self._x, approximate="tanh"),
            "silu": lambda: F.silu(self._x),
            "rope": self._rotated,
        }[op]

    def _rotated(self) -> Any:
        """Return what the usual implementation gives: x cos + rotate_half(x) sin."""
        first, second = self._heads.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
        return (self._heads * self._cos + turned * self._sin).reshape(self._x.shape)

    def once(self) -> list[float]:
        """Return the seconds of one call."""
        began = perf_counter()
        self._op()
        return [perf_counter() - began]

    def result(self) -> Any:
        """Return f32 [rows, width]."""
        return self._op().numpy()


class Attention:
    """Causal attention with grouped queries, f32 [1, heads, length, size]."""

    def __init__(self, heads: int, shared: int, length: int, size: int) -> None:
        self._q = torch.from_numpy(drawn.activations(1, heads, length, size))
        self._k, self._v = (
            torch.from_numpy(drawn.activations(1, shared, length, size, seed=seed))
            for seed in (2, 3)
        )

    def _call(self) -> Any:
        return F.scaled_dot_product_attention(
            self._q, self._k, self._v, is_causal=True, enable_gqa=True
        )

    def once(self) -> list[float]:
        """Return the seconds of one call."""
        began = perf_counter()
        self._call()
        return [perf_counter() - began]

    def result(self) -> Any:
        """Return f32 [1, heads, length, size]."""
        return self._call().numpy()


@lru_cache
def library() -> Any:
    """Return OpenBLAS."""
    import scipy_openblas64

    name = f"lib{scipy_openblas64.get_library()}.so"
    return ctypes.CDLL(str(Path(scipy_openblas64.get_lib_dir()) / name))


def greeting() -> dict[str, str]:
    """Return versions, and the kernels that were chosen."""
    config = library().scipy_openblas_get_config64_
    config.restype = ctypes.c_char_p
    level = torch.backends.cpu.get_cpu_capability()
    built = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    parts = [line.split(" for ")[0] for line in built if line.startswith("Intel")]
    return {
        "torch": ", ".join([f"{torch.__version__}, ATen {level}", *parts]),
        "openblas": config().decode(),
    }


def main() -> None:
    """Answer with a number of threads."""
    threads = answers.threads(__doc__)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    library().scipy_openblas_set_num_threads64_(threads)
    makers = {"torch": Torch, "openblas": OpenBlas, "rows": Rows, "attention": Attention}
    answers.serve(greeting, makers)


if __name__ == "__main__":
    main()
