"""Faults that other systems had with quantised weights and attention: the right values."""

import numpy as np
import pytest
from onnx_graphs import run_node

pytestmark = pytest.mark.onnx

F = np.float32


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def test_a_block_longer_than_a_tile_has_its_scale_everywhere() -> None:
    codes = np.full((4, 4, 256), 0x22, np.uint8)
    scales, zeros = np.full(16, 0.5, F), np.full(8, 0x33, np.uint8)
    x = numbers(3, 2048)
    (y,) = run_node("MatMulNBits", x, codes, scales, zeros, stored=(1, 2, 3), domain="com.microsoft",
                    K=2048, N=4, bits=4, block_size=512)  # fmt: skip
    np.testing.assert_allclose(
        y, np.repeat(x.sum(1, keepdims=True) * -0.5, 4, 1), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("n", "block"), [(32, 64), (96, 128), (64, 256), (5, 32), (33, 16)])
@pytest.mark.parametrize("zeros", [False, True])
def test_every_group_and_column_of_packed_weights_counts(
    rows: int, n: int, block: int, zeros: bool
) -> None:
    k, chance = 512, np.random.default_rng(3)
    q = chance.integers(0, 16, (n, k // block, block))
    scales = chance.random((n, k // block)).astype(F) + F(0.1)
    points = chance.integers(0, 16, (n, k // block)) if zeros else np.full((n, k // block), 8)
    packed = (q[..., ::2] | q[..., 1::2] << 4).astype(np.uint8)
    padded = np.pad(points, ((0, 0), (0, points.shape[1] % 2)))
    nibbles = (padded[:, ::2] | padded[:, 1::2] << 4).astype(np.uint8).ravel() if zeros else None
    x = numbers(rows, k)
    (y,) = run_node("MatMulNBits", x, packed, scales.ravel(), nibbles, stored=(1, 2, 3) if zeros else (1, 2),
                    domain="com.microsoft", K=k, N=n, bits=4, block_size=block)  # fmt: skip
    w = ((q - points[..., None]) * scales[..., None]).reshape(n, k)
    np.testing.assert_allclose(
        y, x @ w.T, rtol=1e-3, atol=np.abs(x @ w.T).max() * 1e-2 if rows else 0
    )


def test_blocks_of_an_axis_have_their_own_scale_and_zero() -> None:
    x, scale = np.full((1, 8), 9, np.uint8), np.array([[1, 2, 3, 4]], F)
    (y,) = run_node(
        "DequantizeLinear", x, scale, scale.astype(np.uint8), axis=1, block_size=2, opset=21
    )
    assert y.ravel().tolist() == [8, 8, 14, 14, 18, 18, 20, 20]


def attention(q, k, v, seen) -> np.ndarray:
    scores = np.where(seen, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("queries", [1, 3])
def test_causal_attention_without_a_past_begins_at_the_upper_left(queries: int) -> None:
    q, k, v = numbers(2, 2, queries, 8), numbers(2, 2, 5, 8, seed=1), numbers(2, 2, 5, 8, seed=2)
    (y,) = run_node("Attention", q, k, v, opset=23, is_causal=1)
    np.testing.assert_allclose(
        y, attention(q, k, v, np.tri(queries, 5, dtype=bool)), rtol=1e-4, atol=1e-5
    )


def test_causal_attention_with_a_past_goes_on_behind_it() -> None:
    q, k, v = numbers(1, 2, 2, 8), numbers(1, 2, 2, 8, seed=1), numbers(1, 2, 2, 8, seed=2)
    past_k, past_v = numbers(1, 2, 3, 8, seed=3), numbers(1, 2, 3, 8, seed=4)
    y, all_k, _ = run_node(
        "Attention", q, k, v, None, past_k, past_v, opset=23, outputs=3, is_causal=1
    )
    joined = np.concatenate([past_k, k], 2)
    np.testing.assert_array_equal(all_k, joined)
    expected = attention(q, joined, np.concatenate([past_v, v], 2), np.tri(2, 5, 3, dtype=bool))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_causal_attention_with_lengths_ends_at_the_lower_right() -> None:
    q, k, v = numbers(2, 2, 2, 8), numbers(2, 2, 6, 8, seed=1), numbers(2, 2, 6, 8, seed=2)
    lengths = np.array([4, 6])
    (y,) = run_node("Attention", q, k, v, None, None, None, lengths, opset=24, is_causal=1)
    for batch, length in enumerate(lengths):
        seen = np.arange(6) <= np.arange(2)[:, None] + length - 2
        np.testing.assert_allclose(
            y[batch], attention(q[batch], k[batch], v[batch], seen), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("batch", [1, 3])
def test_a_row_of_attention_does_not_depend_on_its_neighbours(batch: int) -> None:
    q, k, v = numbers(3, 2, 4, 8), numbers(3, 2, 4, 8, seed=1), numbers(3, 2, 4, 8, seed=2)
    (whole,) = run_node("Attention", q, k, v)
    (some,) = run_node("Attention", q[:batch], k[:batch], v[:batch])
    np.testing.assert_array_equal(whole[:batch], some)
