"""Attention of grouped heads with a past that has room for more keys than there are."""

from typing import Any

import numpy as np
import pytest
from one_node import MICROSOFT, Array, compiled, run
from onnx_graphs import declared, graph_of, model_from, of

from lamina.errors import UnsupportedError

pytestmark = pytest.mark.onnx

HEADS, GROUPS, WIDTH = 4, 2, 8
OPTIONS = {"domain": MICROSOFT, "num_heads": HEADS, "kv_num_heads": GROUPS, "outputs": 3}


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def split(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, WIDTH).transpose(0, 2, 1, 3)


def turned(x: Array, angles: Array) -> Array:
    a, b = np.split(x, 2, -1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def expected(q, k, v, past, before, *, window=-1, cap=0.0, sink=None, angles=None) -> Any:
    """Of one sequence: what it gives, and its keys and values in order."""
    rows = q.shape[1]
    own = [split(x, n)[0] for x, n in zip((q, k, v), (HEADS, GROUPS, GROUPS), strict=True)]
    if angles is not None:
        own[:2] = (turned(x, angles[before : before + rows]) for x in own[:2])
    keys, values = (
        np.concatenate([p[:, :before], x], 1) for p, x in zip(past, own[1:], strict=True)
    )
    scores = own[0] @ np.repeat(keys, 2, 0).swapaxes(1, 2) / np.sqrt(WIDTH)
    scores = np.tanh(scores / cap) * cap if cap else scores
    distance = before + np.arange(rows)[:, None] - np.arange(before + rows)
    seen = (distance >= 0) & ((distance < window) | (window < 0))
    each = np.where(seen, np.exp(scores), 0)
    rest = 0 if sink is None else np.exp(sink)[:, None, None]
    y = each / (each.sum(-1, keepdims=True) + rest) @ np.repeat(values, 2, 0)
    return y.transpose(1, 0, 2).reshape(rows, -1), keys, values


def given(rows: int, lengths: list[int], room: int) -> dict[str, Array | None]:
    batch = len(lengths)
    q, k, v = (draw(batch, rows, n * WIDTH, seed=n) for n in (HEADS, GROUPS, GROUPS))
    past = [draw(batch, GROUPS, room, WIDTH, seed=n) for n in (7, 8)]
    total = np.array(max(lengths) + rows, np.int32)
    counts = np.array(lengths, np.int32) + rows - 1
    return dict(q=q, k=k, v=v, pk=past[0], pv=past[1], lengths=counts, total=total)


def check(inputs: dict[str, Array | None], found: list[Array], lengths: list[int], **how) -> None:
    for row, before in enumerate(lengths):
        q, k, v, pk, pv = (inputs[name][row] for name in ("q", "k", "v", "pk", "pv"))
        q, k, v = (x[None] for x in (q, k, v))
        y, keys, values = expected(q, k, v, (pk, pv), before, **how)
        assert np.allclose(found[0][row], y, atol=1e-5)
        assert np.allclose(found[1][row, :, : keys.shape[1]], keys, atol=1e-5)
        assert np.allclose(found[2][row, :, : keys.shape[1]], values, atol=1e-6)


@pytest.mark.parametrize("stored", [(), ("total",)])
@pytest.mark.parametrize(("rows", "lengths"), [(1, [5]), (1, [5, 2]), (3, [0, 0]), (4, [3])])
def test_keys_are_put_into_a_buffer_with_room(rows: int, lengths: list[int], stored: Any) -> None:
    inputs = given(rows, lengths, 12)
    found = run("GroupQueryAttention", inputs, stored, **OPTIONS)
    assert found[1].shape == (len(lengths), GROUPS, 12, WIDTH)
    check(inputs, found, lengths)
    behind = max(lengths) + rows
    assert np.array_equal(found[1][:, :, behind:], inputs["pk"][:, :, behind:])


@pytest.mark.parametrize("lengths", [[6], [6, 3]])
def test_a_past_without_room_is_joined(lengths: list[int]) -> None:
    inputs = given(1, lengths, 6)
    found = run("GroupQueryAttention", inputs, **OPTIONS)
    assert found[1].shape[2] == 7
    check(inputs, found, lengths)


def test_one_model_is_for_any_past() -> None:
    shapes = {
        name: ["b", "rows", x.shape[2]] for name, x in given(1, [0], 0).items() if name in "qkv"
    }
    shapes |= {key: ["b", GROUPS, "past", WIDTH] for key in ("pk", "pv")} | {"lengths": ["b"]}
    values = [declared(name, x, shapes.get(name, ())) for name, x in given(1, [0], 0).items()]
    kept = {name: each for name, each in OPTIONS.items() if name != "outputs"}
    outputs = ["y", "present_k", "present_v"]
    node = of("GroupQueryAttention", " ".join(given(1, [0], 0)), " ".join(outputs), **kept)
    model = compiled(model_from(graph_of([node], values, outputs)))
    for rows, lengths, room in ((3, [0], 0), (1, [4, 2], 9), (1, [3], 3), (2, [5], 8)):
        inputs = given(rows, lengths, room)
        check(inputs, list(model(**inputs).values()), lengths)


def test_what_is_behind_the_keys_is_not_looked_at() -> None:
    inputs = given(1, [5], 12)
    inputs["pk"][:, :, 6:] = np.nan
    inputs["pv"][:, :, 6:] = np.inf
    check(inputs, run("GroupQueryAttention", inputs, **OPTIONS), [5])


@pytest.mark.parametrize("pairs", [0, 1])
def test_new_keys_are_turned_by_their_places(pairs: int) -> None:
    inputs, angles = given(2, [5], 12), draw(16, WIDTH // 2, seed=3)
    inputs |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    found = run("GroupQueryAttention", inputs, do_rotary=1, rotary_interleaved=pairs, **OPTIONS)
    if not pairs:
        check(inputs, found, [5], angles=angles)
    assert np.array_equal(found[1][0, :, :5], inputs["pk"][0, :, :5])


@pytest.mark.parametrize(
    ("attributes", "how"),
    [
        ({"local_window_size": 3}, {"window": 3}),
        ({"softcap": 2.0}, {"cap": 2.0}),
        ({"smooth_softmax": 1}, {"sink": np.zeros(HEADS)}),
    ],
)
def test_scores_are_bent_and_limited(attributes: dict[str, Any], how: dict[str, Any]) -> None:
    inputs = given(2, [5], 12)
    check(inputs, run("GroupQueryAttention", inputs, **OPTIONS, **attributes), [5], **how)


def test_a_head_may_have_a_sink() -> None:
    inputs, sink = given(2, [5], 12), draw(HEADS, seed=4)
    more = {"cos": None, "sin": None, "places": None, "bias": None, "sink": sink}
    check(inputs, run("GroupQueryAttention", inputs | more, **OPTIONS), [5], sink=sink)


def test_queries_keys_and_values_may_be_packed() -> None:
    inputs = given(1, [5, 2], 12)
    packed = np.concatenate([inputs[name] for name in "qkv"], -1)
    found = run("GroupQueryAttention", inputs | {"q": packed, "k": None, "v": None}, **OPTIONS)
    check(inputs, found, [5, 2])


def test_quantised_pasts_are_refused() -> None:
    more = dict.fromkeys(("cos", "sin", "places", "bias", "sink")) | {"scale": draw(1)}
    with pytest.raises(UnsupportedError, match="k_scale"):
        run("GroupQueryAttention", given(1, [5], 12) | more, **OPTIONS)
