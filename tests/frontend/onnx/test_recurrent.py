"""Recurrent networks give what the standard's equations say, in every direction."""

from typing import Any

import numpy as np
import numpy_recurrent as exact
import pytest
from one_node import MICROSOFT, Array, run

pytestmark = pytest.mark.onnx

T, B, INPUTS, H = 7, 3, 5, 20
LENGTHS = np.array([7, 3, 5], np.int32)


def draw(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) / 2).astype(np.float32)


def weights(gates: int, directions: int) -> dict[str, Array]:
    shapes = {"w": (gates * H, INPUTS), "r": (gates * H, H), "b": (2 * gates * H,)}
    return {
        name: draw(directions, *shape, seed=n + 1) for n, (name, shape) in enumerate(shapes.items())
    }


def backwards(x: Array, lengths: Array) -> Array:
    """Each sequence from its end to its beginning; what is beyond it stays."""
    turned = x.copy()
    for row, n in enumerate(lengths):
        turned[:n, row] = x[:n, row][::-1]
    return turned


def whole(run_one: Any, x: Array, lengths: Array, count: int) -> list[Array]:
    """y[T, D, B, H] and the last states [D, B, H], the second direction from the end."""
    found = []
    for d in range(count):
        y, *states = run_one(backwards(x, lengths) if d else x, d)
        found.append([backwards(y, lengths) if d else y, *states])
    return [np.stack(each, 1 if n == 0 else 0) for n, each in enumerate(zip(*found, strict=True))]


def test_a_bidirectional_lstm_has_states_peepholes_and_lengths() -> None:
    x, own = draw(T, B, INPUTS), weights(4, 2)
    h, c, p = draw(2, B, H, seed=8), draw(2, B, H, seed=9), draw(2, 3 * H, seed=7)
    inputs = {"x": x, **own, "n": LENGTHS, "h": h, "c": c, "p": p}
    found = run("LSTM", inputs, (*own, "p"), outputs=3, hidden_size=H,
                direction="bidirectional")  # fmt: skip
    w, r, b = own.values()
    wanted = whole(
        lambda x, d: exact.lstm(x, w[d], r[d], b[d], h[d], c[d], p[d], LENGTHS), x, LENGTHS, 2
    )
    assert all(np.allclose(y, z, atol=1e-5) for y, z in zip(found, wanted, strict=True))


def test_an_lstm_may_begin_with_h_alone() -> None:
    x, own, h = draw(T, B, INPUTS), weights(4, 1), draw(1, B, H, seed=8)
    found = run("LSTM", {"x": x, **own, "n": None, "h": h}, tuple(own), outputs=3, hidden_size=H,
                free=True)  # fmt: skip
    w, r, b = (each[0] for each in own.values())
    every = np.full(B, T)
    y, last, cell = exact.lstm(x, w, r, b, h[0], 0 * h[0], np.zeros(3 * H), every)
    wanted = [y[:, None], last[None], cell[None]]
    assert all(np.allclose(y, z, atol=1e-5) for y, z in zip(found, wanted, strict=True))


@pytest.mark.parametrize("linear", [False, True])
def test_a_reverse_gru_begins_at_the_end_of_each_sequence(linear: bool) -> None:
    x, own, h = draw(T, B, INPUTS), weights(3, 1), draw(1, B, H, seed=8)
    inputs = {"x": x, **own, "n": LENGTHS, "h": h}
    found = run("GRU", inputs, tuple(own), outputs=2, hidden_size=H, direction="reverse",
                linear_before_reset=int(linear))  # fmt: skip
    w, r, b = (each[0] for each in own.values())
    y, last = exact.gru(backwards(x, LENGTHS), w, r, b, h[0], LENGTHS, linear=linear)
    wanted = [backwards(y, LENGTHS)[:, None], last[None]]
    assert all(np.allclose(y, z, atol=1e-5) for y, z in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", ["Relu", "HardSigmoid", "Softsign", "Elu", "ThresholdedRelu"])
def test_a_network_may_have_another_function(name: str) -> None:
    x, own = 3 * draw(1, B, INPUTS), weights(1, 1)
    functions = {
        "Relu": lambda s: np.maximum(s, 0),
        "HardSigmoid": lambda s: np.clip(0.2 * s + 0.5, 0, 1),
        "Softsign": lambda s: s / (1 + abs(s)),
        "Elu": lambda s: np.where(s < 0, np.expm1(s), s),
        "ThresholdedRelu": lambda s: np.where(s > 1, s, 0),
    }
    options = {"activations": [name], "clip": 1.5, "hidden_size": H}
    y, _ = run("RNN", {"x": x, **own}, tuple(own), outputs=2, **options)
    s = x[0] @ own["w"][0].T + own["b"][0, :H] + own["b"][0, H:]
    assert np.allclose(y[0, 0], functions[name](np.clip(s, -1.5, 1.5)), atol=1e-5)


def test_a_network_of_half_numbers_is_computed_in_single_ones() -> None:
    x, own = draw(T, B, INPUTS), weights(1, 1)
    half = {name: each.astype(np.float16) for name, each in {"x": x, **own}.items()}
    y, _ = run("RNN", half, tuple(own), outputs=2, hidden_size=H)
    wide = {name: each.astype(np.float32) for name, each in half.items()}
    z, _ = run("RNN", wide, tuple(own), outputs=2, hidden_size=H)
    assert y.dtype == np.float16
    assert np.allclose(y, z, atol=1e-3)


def test_batches_may_come_first() -> None:
    x, own = draw(T, B, INPUTS), weights(3, 1)
    y, last = run("GRU", {"x": x, **own}, tuple(own), outputs=2, hidden_size=H)
    turned = {"x": x.transpose(1, 0, 2).copy(), **own}
    z, end = run("GRU", turned, tuple(own), outputs=2, hidden_size=H, layout=1)
    assert np.array_equal(z, y.transpose(2, 0, 1, 3))
    assert np.array_equal(end, last.transpose(1, 0, 2))


def test_a_sequence_without_steps_keeps_its_state() -> None:
    own, h = weights(3, 1), draw(1, B, H)
    inputs = {"x": np.zeros((0, B, INPUTS), np.float32), **own, "n": None, "h": h}
    y, last = run("GRU", inputs, tuple(own), outputs=2, hidden_size=H, free=True)
    assert y.shape == (0, 1, B, H)
    assert np.array_equal(last, h)


def levels(x: Array) -> Array:
    """The nearest of 256 levels of a range with 0."""
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = (high - low) / 255 or 1.0
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale


def test_an_lstm_of_bytes_rounds_what_its_weights_meet() -> None:
    rng, x = np.random.default_rng(0), draw(T, 1, INPUTS)
    w, r = (rng.integers(-100, 100, (1, n, 4 * H)).astype(np.int8) for n in (INPUTS, H))
    scale, zero = np.array([0.01], np.float32), np.array([3], np.int8)
    stored = {"w": w, "r": r, "b": draw(1, 8 * H)}
    rest = {"n": None, "h": None, "c": None, "p": None, "ws": scale, "wz": zero, "rs": scale}
    inputs = {"x": x, **stored, **rest, "rz": zero}
    given = ("w", "r", "b", "ws", "wz", "rs", "rz")
    y, *_ = run("DynamicQuantizeLSTM", inputs, given, outputs=3, domain=MICROSOFT, hidden_size=H)
    h, c, bias = np.zeros(H), np.zeros(H), stored["b"][0]
    wide = [(each[0].astype(np.float64) - 3) * scale[0] for each in (w, r)]
    for t, row in enumerate(levels(x)):
        i, o, f, g = np.split(
            row[0] @ wide[0] + levels(h) @ wide[1] + bias[: 4 * H] + bias[4 * H :], 4
        )
        c = exact.sigmoid(f) * c + exact.sigmoid(i) * np.tanh(g)
        h = exact.sigmoid(o) * np.tanh(c)
        assert np.allclose(y[t, 0, 0], h, atol=1e-2)
