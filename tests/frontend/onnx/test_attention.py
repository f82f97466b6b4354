"""Attention gives what its parts do, for masks, windows, pasts and grouped heads."""

import numpy as np
import pytest
from one_node import MICROSOFT, Array, run

pytestmark = pytest.mark.onnx

B, HEADS, WIDTH = 2, 4, 8


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def attended(q: Array, k: Array, v: Array, allowed: Array | None = None) -> Array:
    """Softmax of scores times values; 0 for a query that may see no key."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1).astype(np.float64) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    seen = np.broadcast_to(True if allowed is None else allowed, scores.shape)
    top = np.max(scores, -1, keepdims=True, where=seen, initial=-1e9)
    each = np.where(seen, np.exp(np.minimum(scores - top, 0)), 0)
    return each @ v / np.maximum(each.sum(-1, keepdims=True), 1e-30)


def test_one_query_without_a_past_sees_the_first_key() -> None:
    q, k, v = draw(B, 2, 1, WIDTH), draw(B, 2, 5, WIDTH, seed=1), draw(B, 2, 5, WIDTH, seed=2)
    (y,) = run("Attention", {"q": q, "k": k, "v": v}, opset=23, is_causal=1)
    assert np.allclose(y, v[:, :, :1], atol=1e-6)


def test_queries_stand_before_the_end_of_the_keys_that_count() -> None:
    q, k, v = (draw(B, HEADS, n, WIDTH, seed=n) for n in (2, 6, 6))
    counts = np.array([6, 3], np.int64)
    empty = {"mask": None, "past_k": None, "past_v": None}
    inputs = {"q": q, "k": k, "v": v, **empty, "counts": counts}
    (y,) = run("Attention", inputs, opset=24, is_causal=1)
    places = np.arange(2)[:, None] + (counts - 2)[:, None, None, None]
    assert np.allclose(y, attended(q, k, v, np.arange(6) <= places), atol=1e-5)


def test_a_query_that_sees_no_key_gives_0() -> None:
    q, k, v = (draw(1, 2, 3, WIDTH, seed=n) for n in range(3))
    mask = np.array([[True, False, True], [False] * 3, [True] * 3])
    (y,) = run("Attention", {"q": q, "k": k, "v": v, "mask": mask})
    assert np.allclose(y, attended(q, k, v, mask), atol=1e-5)
    assert not y[:, :, 1].any()


def test_a_past_is_joined_and_heads_share_keys() -> None:
    q, new = draw(B, 2, HEADS * WIDTH), [draw(B, 2, 2 * WIDTH, seed=n) for n in (1, 2)]
    past = [draw(B, 2, 3, WIDTH, seed=n) for n in (3, 4)]
    inputs = {"q": q, "k": new[0], "v": new[1], "mask": None, "pk": past[0], "pv": past[1]}
    y, k, v = run("Attention", inputs, outputs=3, is_causal=1, q_num_heads=HEADS, kv_num_heads=2)
    split = [x.reshape(B, 2, -1, WIDTH).transpose(0, 2, 1, 3) for x in (q, *new)]
    whole = [np.concatenate(pair, 2) for pair in zip(past, split[1:], strict=True)]
    assert np.array_equal(k, whole[0])
    assert np.array_equal(v, whole[1])
    wanted = attended(split[0], *whole, np.arange(5) <= 3 + np.arange(2)[:, None])
    assert np.allclose(y, wanted.transpose(0, 2, 1, 3).reshape(B, 2, -1), atol=1e-5)


@pytest.mark.parametrize("mode", [1, 3])
def test_scores_are_given_at_each_stage(mode: int) -> None:
    q, k, v = (draw(1, 2, 3, WIDTH, seed=n) for n in range(3))
    mask, cap = draw(3, 3, seed=5), 2.0
    inputs = {"q": q, "k": k, "v": v, "mask": mask}
    found = run("Attention", inputs, outputs=4, softcap=cap, qk_matmul_output_mode=mode)
    raw = q @ k.swapaxes(2, 3) / np.sqrt(WIDTH)
    bent = np.tanh(raw / cap) * cap
    weights = np.exp(bent + mask) / np.exp(bent + mask).sum(-1, keepdims=True)
    assert np.allclose(found[3], [raw, bent, bent + mask, weights][mode], atol=1e-5)


def test_a_padding_mask_adds_its_number() -> None:
    q, k, v = (draw(B, 3, HEADS * WIDTH, seed=n) for n in range(3))
    mask = np.array([[1, 1, 1], [1, 0, 0]], np.int32)
    inputs = {"q": q, "k": k, "v": v, "bias": None, "mask": mask}
    (y,) = run("MultiHeadAttention", inputs, domain=MICROSOFT, num_heads=HEADS)
    split = [x.reshape(B, 3, HEADS, WIDTH).transpose(0, 2, 1, 3) for x in (q, k, v)]
    wanted = attended(*split, mask[:, None, None, :] > 0)
    assert np.allclose(y, wanted.transpose(0, 2, 1, 3).reshape(q.shape), atol=1e-5)


def test_sequences_of_a_batch_have_pasts_of_their_own() -> None:
    q, k, v = (draw(B, 1, n * WIDTH, seed=n) for n in (4, 2, 2))
    past = [draw(B, 2, 6, WIDTH, seed=n) for n in (7, 8)]
    inputs = {"q": q, "k": k, "v": v, "pk": past[0], "pv": past[1]}
    inputs |= {"lengths": np.array([6, 3], np.int32), "total": np.array(7, np.int32)}
    options = {"domain": MICROSOFT, "num_heads": 4, "kv_num_heads": 2, "outputs": 3}
    y, *_ = run("GroupQueryAttention", inputs, **options)
    for row, length in enumerate((6, 3)):
        own = [x[row : row + 1].reshape(1, -1, 1, WIDTH) for x in (q, k, v)]
        keys = [np.concatenate([p[row : row + 1, :, :length], x], 2)
                for p, x in zip(past, own[1:], strict=True)]  # fmt: skip
        assert np.allclose(y[row].ravel(), attended(own[0], *keys).ravel(), atol=1e-5)


@pytest.mark.parametrize("pairs", [False, True])
def test_the_first_elements_of_a_head_are_turned(pairs: bool) -> None:
    x, angles = draw(B, HEADS, 5, WIDTH), draw(20, 2, seed=1)
    places = np.random.default_rng(0).integers(0, 20, (B, 5))
    inputs = {"x": x, "cos": np.cos(angles), "sin": np.sin(angles), "places": places}
    (y,) = run("RotaryEmbedding", inputs, interleaved=int(pairs), rotary_embedding_dim=4)
    cos, sin = (f(angles)[places][:, None] for f in (np.cos, np.sin))
    a, b = (x[..., :4:2], x[..., 1:4:2]) if pairs else (x[..., :2], x[..., 2:4])
    turned = a * cos - b * sin, a * sin + b * cos
    first = np.stack(turned, -1).reshape(*x.shape[:3], 4) if pairs else np.concatenate(turned, -1)
    assert np.allclose(y, np.concatenate([first, x[..., 4:]], -1), atol=1e-6)


def test_embeddings_are_summed_and_normed() -> None:
    ids = np.array([[3, 1, 4], [1, 5, 9]], np.int32)
    words, places, kinds = (draw(n, WIDTH, seed=n) for n in (10, 6, 2))
    tables = {"w": words, "p": places, "s": kinds, "g": draw(WIDTH), "b": draw(WIDTH, seed=3)}
    inputs = {"ids": ids, "kinds": ids % 2, **tables, "mask": (ids > 2).astype(np.int32)}
    found = run("EmbedLayerNormalization", inputs, tuple(tables), outputs=3, domain=MICROSOFT)
    total = words[ids] + places[:3] + kinds[ids % 2]
    normed = (total - total.mean(-1, keepdims=True)) / total.std(-1, keepdims=True)
    assert np.allclose(found[0], normed * tables["g"] + tables["b"], atol=1e-4)
    assert found[1].tolist() == [2, 2]
    assert np.allclose(found[2], total, atol=1e-6)
