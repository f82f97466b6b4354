"""PTX that CUDA's own compiler (NVRTC 13.5) made of the .cu files beside it, unmodified."""

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from launching import launch

BF16 = np.dtype(ml_dtypes.bfloat16)
HERE = Path(__file__).parent
KERNELS = (HERE / "nvcc_kernels.ptx").read_text(encoding="utf-8")
GEMM = (HERE / "nvcc_gemm.ptx").read_text(encoding="utf-8")


@pytest.mark.parametrize("n", [1, 100, 777])
def test_softmax_of_rows(n: int) -> None:
    x = 3 * np.random.default_rng(1).standard_normal((4, n)).astype("f4")
    y = launch(KERNELS, 4, 128, x, np.zeros_like(x), n, kernel="softmax")[1]
    e = np.exp(x.astype("f8") - x.max(axis=1, keepdims=True))
    assert np.allclose(y, e / e.sum(axis=1, keepdims=True), atol=2e-7)


def mixed() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(2)
    a = rng.integers(-(2**31), 2**31, 777).astype("i4")
    a[:300] = rng.integers(-3000, 3000, 300)
    b = rng.integers(-100, 100, 777).astype("i4")
    out = [np.zeros(777, dtype) for dtype in ("i4", "f4", "u8")]
    return tuple(launch(KERNELS, 7, 128, a, b, *out, 777, kernel="mixed"))


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def of_switch(x: int, y: int) -> int:
    ux, uy = x & 0xFFFFFFFF, y & 0xFFFFFFFF
    octets = list(ux.to_bytes(4, "little") + uy.to_bytes(4, "little"))
    signed = [octet - 256 * (octet > 127) for octet in octets]
    permuted = sum(octets[0x3715 >> 4 * n & 7] << 8 * n for n in range(4))
    return [
        lambda: x + y,
        lambda: x * y,
        lambda: truncated(x, y) if y else 0,
        lambda: x - truncated(x, y) * y if y else 0,
        lambda: ux.bit_count() + 32 - uy.bit_length(),
        lambda: int(f"{ux:032b}"[::-1], 2) ^ permuted,
        lambda: 3 + sum(p * q for p, q in zip(signed[:4], signed[4:], strict=True)),
        lambda: ((uy << 32 | ux) << 7 >> 32) + max(x, y),
    ][x & 7]()


def test_integers_through_a_switch() -> None:
    a, b, out, _, _ = mixed()
    wanted = [of_switch(x, y) & 0xFFFFFFFF for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert out.view("u4").tolist() == wanted


def polynomial(x: float, n: int) -> float:
    total = 0.0
    for power in range(n):
        total = total * x + power
    return total


def test_floats_through_a_call_and_the_mathematical_functions() -> None:
    a, b, _, f, _ = mixed()
    table = (1, 2, 3, 5, 7, 11, 13, 17)
    wanted = [
        polynomial(table[n & 7], x & 3)
        + math.sin(np.float32(x))
        + math.cos(np.float32(x) / 4)
        + math.log((x & 1023) + 1)
        + 1.5 ** (y & 7)
        + 1 / math.sqrt(1 + (y & 15))
        + math.tanh(x * 0.01)
        + math.erf(y * 0.01)
        for n, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True))
    ]
    assert np.allclose(f, wanted, atol=1e-5)


def test_products_and_quotients_of_64_bits() -> None:
    a, b, _, _, wide = mixed()
    mask = 2**64 - 1
    wanted = [
        (x & 0xFFFFFFFF) * (y & 0xFFFFFFFF)
        + ((x << 20 & mask) * (y << 30 & mask) >> 64)
        + truncated(x, y | 1)
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert wide.tolist() == [value & mask for value in wanted]


def test_halves_are_rounded_as_numpy_rounds() -> None:
    special = [np.inf, -np.inf, np.nan, 0, -0.0, 6e4, 6e-8]
    rng = np.random.default_rng(3)
    x = np.concatenate([4 * rng.standard_normal(100), special]).astype("f2")
    y = rng.standard_normal(len(x)).astype(BF16)
    out = [np.zeros(len(x), dtype) for dtype in ("f2", "u2", "f4")]
    p, q = launch(KERNELS, 2, 64, x, y.view("u2"), *out, len(x), kernel="halves")[2:4]
    with np.errstate(all="ignore"):
        g = (x.astype("f8") ** 2 + 0.5).astype("f2").astype("f4")
        wanted = (g + np.exp(x.astype("f8")).astype("f2").astype("f4")).astype("f2")
        scaled = (y.astype("f4") * np.float32(1.25)).astype(BF16)
    assert ((p == wanted) | (np.isnan(p) & np.isnan(wanted))).all()
    assert (q == (scaled.astype("f4") + y.astype("f4")).astype(BF16).view("u2")).all()


def test_atomics_in_shared_and_global_memory() -> None:
    x = np.random.default_rng(4).integers(0, 1 << 20, 1000).astype("u4")
    out, total = np.zeros(18, "u4"), np.zeros(1, "f4")
    out, total = launch(KERNELS, 8, 128, x, out, total, 1000, kernel="histogram")[1:]
    assert (out[:16] == np.bincount(x & 15, minlength=16)).all()
    assert (out[16], out[17], total[0]) == (x.max(), x[0], 1000)


def test_what_the_threads_of_a_warp_tell_each_other() -> None:
    v = np.random.default_rng(5).integers(-20, 20, 64).astype("i4")
    y = launch(KERNELS, 1, 64, v, np.zeros((64, 8), "u4"), 64, kernel="warps")[1]
    lane, warp = np.arange(64) % 32, v.reshape(2, 32)
    bits = 1 << np.arange(32, dtype="u8")
    assert (y[:, 0] == np.repeat(((warp > 0) * bits).sum(axis=1), 32)).all()
    same = (warp[:, :, None] & 3) == (warp[:, None, :] & 3)
    assert (y[:, 1] == (same * bits).sum(axis=2).ravel()).all()
    assert (y[:, 2].view("i4") == np.repeat(warp.sum(axis=1), 32)).all()
    assert (y[:, 3].view("i4") == np.repeat(warp.max(axis=1), 32)).all()
    base = np.arange(64) - lane
    assert (y[:, 4].view("i4") == v[base + np.where(lane >= 3, lane - 3, lane)]).all()
    assert (y[:, 5].view("i4") == v[base + np.where(lane % 16 + 5 < 16, lane + 5, lane)]).all()
    assert (y[:, 6].view("i4") == v[base + lane // 8 * 8 + lane * 7 % 8]).all()
    assert (y[:, 7] == np.repeat(1 + 2 * (warp == 3).any(axis=1), 32)).all()


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 64), (130, 70, 40)])
def test_a_pipelined_product_in_bf16(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((n, k)).astype(BF16)
    grid = (-(-n // 128), -(-m // 128))
    c = launch(
        GEMM, grid, 256, a.view("u2"), b.view("u2"), np.zeros((m, n), "f4"), m, n, k, shared=49152
    )[2]
    assert np.allclose(c, a.astype("f8") @ b.astype("f8").T, atol=1e-4)
