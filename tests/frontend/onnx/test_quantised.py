"""Operators on quantised numbers give what the standard says of them."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from one_node import MICROSOFT, Array, compiled, run
from onnx import helper
from onnx_graphs import declared, graph_of, model_from

pytestmark = pytest.mark.onnx

F32, U8, I8 = np.float32, np.uint8, np.int8


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def draw_bytes(dtype: type, *shape: int, seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, F32])
def test_halves_are_quantised_to_even(dtype: type) -> None:
    x = np.array([2.5, 5.5, 62.5, -2.5, 300, -300, np.nan], dtype)
    (y,) = run("QuantizeLinear", {"x": x, "scale": dtype(1), "zero": I8(0)})
    assert y.tolist() == [2, 6, 62, -2, 127, -128, 0]


def test_a_scale_may_belong_to_an_index_of_an_axis() -> None:
    x, scale, zero = draw(2, 3, 4) * 20, np.array([0.1, 0.5, 2], F32), np.array([3, 0, 200], U8)
    (y,) = run("QuantizeLinear", {"x": x, "s": scale, "z": zero}, axis=1)
    moved = np.rint(x / scale[:, None]) + zero[:, None]
    assert np.array_equal(y, np.clip(moved, 0, 255).astype(U8))


@pytest.mark.parametrize("count", [8, 7])
def test_blocks_of_an_axis_have_scales(count: int) -> None:
    x, scale = np.full((1, count), 9, np.int8), np.array([[1, 2, 3, 4]], F32)
    inputs = {"x": x, "s": scale, "z": scale.astype(I8)}
    (y,) = run("DequantizeLinear", inputs, axis=1, block_size=2)
    assert y.tolist() == [[8, 8, 14, 14, 18, 18, 20, 20][:count]]


def test_a_range_without_width_is_quantised_to_its_zero() -> None:
    y, scale, zero = run("DynamicQuantizeLinear", {"x": np.zeros(5, F32)}, outputs=3)
    assert (y.tolist(), scale, zero) == ([0] * 5, 0, 0)


@pytest.mark.parametrize(("a", "b"), [(U8, I8), (I8, I8), (U8, U8)])
def test_a_product_of_bytes_is_exact(a: type, b: type) -> None:
    x, w = draw_bytes(a, 2, 3, 70), draw_bytes(b, 70, 5, seed=1)
    zero, zeros = a(9), draw_bytes(b, 5, seed=2)
    inputs = {"x": x, "w": w, "x_zero": np.array(zero), "w_zeros": zeros}
    (y,) = run("MatMulInteger", inputs, ("w", "w_zeros"), free=True)
    wide = (x.astype(np.int64) - int(zero)) @ (w.astype(np.int64) - zeros.astype(np.int64))
    assert np.array_equal(y, wide)


def test_padding_of_a_quantised_convolution_stands_for_0() -> None:
    x, w = draw_bytes(U8, 1, 2, 5, 5), draw_bytes(I8, 3, 2, 3, 3, seed=1)
    inputs = {"x": x, "w": w, "zero": np.array(U8(77))}
    (y,) = run("ConvInteger", inputs, ("w",), pads=[1, 1, 1, 1])
    moved = np.pad(x.astype(np.int64) - 77, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(moved, (3, 3), (2, 3))
    assert np.array_equal(y, np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64)))


def test_a_quantised_product_saturates() -> None:
    x, w = np.full((1, 4), 255, U8), np.full((4, 2), [[127, -127]], I8)
    scales = {"x": x, "xs": F32(1), "xz": U8(0), "w": w, "ws": F32(1), "wz": I8(0)}
    (y,) = run("QLinearMatMul", {**scales, "ys": F32(1), "yz": U8(0)})
    assert y.tolist() == [[255, 0]]


def test_quantised_numbers_are_added_by_their_scales() -> None:
    a, b = draw_bytes(U8, 3, 4), draw_bytes(U8, 4, seed=1)
    left = {"a": a, "as": F32(0.5), "az": U8(7), "b": b, "bs": F32(0.25), "bz": U8(3)}
    inputs = {**left, "ys": F32(1), "yz": U8(10)}
    (y,) = run("QLinearAdd", inputs, domain=MICROSOFT)
    wanted = np.rint((a.astype(F32) - 7) / 2 + (b.astype(F32) - 3) / 4) + 10
    assert np.array_equal(y, np.clip(wanted, 0, 255).astype(U8))


def quants(bits: int, packed: Array, count: int) -> Array:
    shifts = np.arange(0, 8, bits)
    return ((packed[..., None] >> shifts) & (2**bits - 1)).reshape(len(packed), -1)[:, :count]


@pytest.mark.parametrize(("bits", "k", "block"), [(2, 64, 32), (4, 100, 16), (8, 512, 256)])
def test_a_weight_of_few_bits_is_multiplied(bits: int, k: int, block: int) -> None:
    x, n, blocks = draw(1, k), 96, -(-k // block)
    w, scale = draw_bytes(U8, n, blocks, block * bits // 8), abs(draw(n, blocks, seed=1))
    zero = draw_bytes(U8, n, -(-blocks * bits // 8), seed=2)
    inputs = {"x": x, "w": w, "s": scale, "z": zero}
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
    (y,) = run("MatMulNBits", inputs, ("w", "s", "z"), domain=MICROSOFT, **attributes)
    zeros = np.repeat(quants(bits, zero, blocks), block, 1)[:, :k]
    plain = quants(bits, w.reshape(n, -1), k).astype(F32) - zeros
    wanted = x @ (plain * np.repeat(scale, block, 1)[:, :k]).T
    assert np.allclose(y, wanted, rtol=1e-4, atol=1e-4 * abs(wanted).max())


def test_a_block_may_be_longer_than_others_expect() -> None:
    x, packed = np.ones((1, 2048), F32), np.full((4, 4, 256), 0x22, U8)
    scale, zero = np.full((4, 4), 0.5, F32), np.full((4, 2), 0x33, U8)
    attributes = {"K": 2048, "N": 4, "bits": 4, "block_size": 512, "domain": MICROSOFT}
    inputs = {"x": x, "w": packed, "s": scale, "z": zero}
    (y,) = run("MatMulNBits", inputs, ("w", "s", "z"), **attributes)
    assert y.tolist() == [[-1024.0] * 4]


def weight_only(w: Array, scale: Array) -> onnx.ModelProto:
    """`x (cast(w) * scale)`."""
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=1),
        helper.make_node("Mul", ["wide", "scale"], ["scaled"]),
        helper.make_node("MatMul", ["x", "scaled"], ["y"]),
    ]
    x = declared("x", scale, ["n", len(w)])
    return model_from(graph_of(nodes, [x], ["y"], {"w": w, "scale": scale}))


def test_a_weight_of_bytes_is_scaled_before_the_model_runs() -> None:
    w, scale, x = draw_bytes(I8, 40, 24), abs(draw(24)), draw(3, 40, seed=1)
    executable = compiled(weight_only(w, scale))
    (y,) = executable(x).values()
    assert np.allclose(y, x @ (w * scale), rtol=1e-5, atol=1e-3)


def test_integers_of_four_bits_are_the_lowest_ones() -> None:
    x = np.array([-9, -8, 7, 8, 15], F32)
    (signed,), (unsigned,) = (run("Cast", {"x": x}, to=kind) for kind in (22, 21))
    assert signed.tolist() == [7, -8, 7, -8, -1]
    assert unsigned.tolist() == [7, 8, 7, 8, 15]


def test_powers_of_two_are_the_next_ones() -> None:
    x = np.array([0.124, 0.25, 1.1, 3e38, np.inf, 0, 1e-39, 6e-39, np.nan], F32)
    (y,) = run("Cast", {"x": x}, to=24)
    assert y.tolist() == [124, 125, 128, 254, 254, 0, 0, 1, 255]


def test_powers_of_two_are_numbers_again() -> None:
    x = np.array([0, 1, 127, 254, 255], U8).view(ml_dtypes.float8_e8m0fnu)
    (y,) = run("Cast", {"x": x}, ("x",), to=1)
    assert np.array_equal(y, x.astype(F32), equal_nan=True)
