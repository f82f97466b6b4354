"""Faults that other systems had with windows, norms and numbers: the right values."""

import math

import numpy as np
import pytest
from onnx import TensorProto
from onnx_graphs import declared, graph_of, model_from, of, run, run_node

pytestmark = pytest.mark.onnx

F, NAN, INF = np.float32, float("nan"), float("inf")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def test_a_window_that_would_start_in_the_padding_is_none() -> None:
    x = numbers(1, 1, 17, 17)
    (y,) = run_node(
        "AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 4, ceil_mode=1
    )
    assert y.shape == (1, 1, 9, 9)
    np.testing.assert_allclose(
        y[0, 0, 1:, 1:], x[0, 0, 1:, 1:].reshape(8, 2, 8, 2).mean((1, 3)), rtol=1e-4, atol=1e-6
    )


def test_what_hangs_over_is_not_averaged() -> None:
    x = np.arange(1, 7, dtype=F).reshape(1, 1, 6)
    (y,) = run_node("AveragePool", x, kernel_shape=[3], strides=[2], ceil_mode=1)
    assert y.ravel().tolist() == [2, 4, 5.5]


def test_what_hangs_over_is_not_averaged_in_two_dimensions() -> None:
    x = np.arange(1, 17, dtype=F).reshape(1, 1, 4, 4)
    (y,) = run_node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    assert y[0, 0].tolist() == [[6, 7.5], [12, 13.5]]


def test_padding_is_averaged_where_it_counts_but_not_what_hangs_over_it() -> None:
    x = np.arange(1, 10, dtype=F).reshape(1, 1, 9)
    (y,) = run_node(
        "AveragePool",
        x,
        kernel_shape=[7],
        strides=[3],
        pads=[3, 3],
        ceil_mode=1,
        count_include_pad=1,
    )
    padded = np.concatenate([np.zeros(3), x.ravel(), np.zeros(3)])
    expected = [padded[i : i + 7].sum() / min(7, 15 - i) for i in (0, 3, 6, 9)]
    np.testing.assert_allclose(y.ravel(), expected, rtol=1e-6)


def test_an_output_padding_lengthens_a_transposed_convolution() -> None:
    x, w = numbers(1, 1, 28, 28), numbers(1, 1, 3, 3, seed=1)
    more = {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}
    (y,) = run_node("ConvTranspose", x, w, **more)
    whole = np.zeros((58, 58))
    for i, j in np.ndindex(28, 28):
        whole[2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += x[0, 0, i, j] * w[0, 0]
    np.testing.assert_allclose(y[0, 0], whole[1:57, 1:57], rtol=1e-3, atol=1e-5)


def test_a_grouped_convolution_of_one_dimension_with_wide_padding() -> None:
    x, w = numbers(1, 128, 39), numbers(128, 8, 128, seed=1)
    (y,) = run_node("Conv", x, w, group=16, pads=[64, 64])
    padded = np.pad(x[0], ((0, 0), (64, 64))).reshape(16, 8, -1)
    rows = np.lib.stride_tricks.sliding_window_view(padded, 128, 2)
    expected = np.einsum("gclk,gock->gol", rows, w.reshape(16, 8, 8, 128)).reshape(128, -1)
    assert y.shape == (1, 128, 40)
    np.testing.assert_allclose(y[0], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("width", "to"), [(20, 6), (26, 64)])
def test_the_nearest_of_two_that_are_as_near_is_the_one_asked_for(width: int, to: int) -> None:
    x = np.arange(width, dtype=F).reshape(1, 1, width)
    (y,) = run_node("Resize", x, None, None, np.array([1, 1, to]), stored=(3,), mode="nearest",
                    coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")  # fmt: skip
    places = [math.floor((2 * i + 1) * width / (2 * to) - 0.5 + 0.5) for i in range(to)]
    assert y.ravel().tolist() == [min(max(place, 0), width - 1) for place in places]


def test_a_resize_leaves_batches_and_channels_as_they_are() -> None:
    x = numbers(4, 4, 10, 10)
    (y,) = run_node("Resize", x, None, np.array([1, 1, 3, 3], F), stored=(2,), opset=11, mode="nearest",
                    coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="ceil")  # fmt: skip
    places = np.minimum(np.ceil((np.arange(30) + 0.5) / 3), 9).astype(int)
    np.testing.assert_array_equal(y, x[:, :, places][:, :, :, places])


@pytest.mark.parametrize(
    ("shape", "axis", "scale"),
    [
        ((1, 16, 32, 32), 1, (16, 1, 1)),
        ((2, 3, 8), -1, (2, 1, 8)),
        ((2, 3, 8), 2, (8,)),
        ((1, 3, 2), 1, (2,)),
    ],
)
def test_a_norm_takes_scales_that_can_be_broadcast(shape, axis: int, scale) -> None:
    x, g, b = numbers(*shape), numbers(*scale, seed=1), numbers(*scale, seed=2)
    (y,) = run_node("LayerNormalization", x, g, b, axis=axis)
    axes = tuple(range(axis % len(shape), len(shape)))
    moved = x - x.mean(axes, keepdims=True)
    expected = moved / np.sqrt((moved**2).mean(axes, keepdims=True) + 1e-5) * g + b
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)


def test_a_scale_that_widens_a_norm_widens_it() -> None:
    nodes = [
        of("Mul", "x x", "s"), of("ReduceMean", "s last", "m"), of("Add", "m eps", "e"),
        of("Sqrt", "e", "r"), of("Div", "x r", "d"), of("Mul", "d g", "y"),
    ]  # fmt: skip
    stored = {"last": np.array([-1]), "eps": F(0.5), "g": np.array([2, 3], F)}
    (y,) = run(
        model_from(graph_of(nodes, [declared("x", shape=["n", 1])], ["y"], stored)),
        np.array([[1]], F),
    )
    np.testing.assert_allclose(y, np.array([[2, 3]]) / np.sqrt(1.5), rtol=1e-6)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(x, w, r, b, h, c, p, length) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = []
    for t in range(length):
        i, o, f, z = np.split(x[t] @ w.T + h @ r.T + b[: len(w)] + b[len(w) :], 4, -1)
        i, f = sigmoid(i + p[0] * c), sigmoid(f + p[2] * c)
        c = f * c + i * np.tanh(z)
        h = sigmoid(o + p[1] * c) * np.tanh(c)
        rows.append(h)
    return np.stack(rows), h, c


@pytest.mark.parametrize("given", ["both", "hidden", "neither"])
@pytest.mark.parametrize("peepholes", [False, True])
def test_an_lstm_of_two_directions_starts_where_it_is_told(given: str, peepholes: bool) -> None:
    x, w, r, b = (
        numbers(5, 2, 3),
        numbers(2, 16, 3),
        numbers(2, 16, 4, seed=1),
        numbers(2, 32, seed=2),
    )
    h = numbers(2, 2, 4, seed=3) if given != "neither" else None
    c = numbers(2, 2, 4, seed=4) if given == "both" else None
    p = numbers(2, 12, seed=5) if peepholes else None
    y, y_h, y_c = run_node(
        "LSTM", x, w, r, b, None, h, c, p, outputs=3, hidden_size=4, direction="bidirectional"
    )
    none, flat = np.zeros((2, 2, 4)), np.zeros((2, 12))
    for d, way in enumerate((slice(None), slice(None, None, -1))):
        states = (none if h is None else h)[d], (none if c is None else c)[d]
        weights = np.split((flat if p is None else p)[d], 3)
        rows, last, cell = lstm(x[way], w[d], r[d], b[d], *states, weights, 5)
        np.testing.assert_allclose(y[:, d][way], rows, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose([y_h[d], y_c[d]], [last, cell], rtol=1e-4, atol=1e-5)


def test_a_gru_backwards_starts_at_the_end_of_each_sequence() -> None:
    x, w, r, b = (
        numbers(5, 2, 3),
        numbers(1, 12, 3),
        numbers(1, 12, 4, seed=1),
        numbers(1, 24, seed=2),
    )
    lengths = np.array([3, 5], np.int32)
    y, y_h = run_node("GRU", x, w, r, b, lengths, outputs=2, hidden_size=4, direction="reverse")
    for batch, length in enumerate(lengths):
        h = np.zeros(4)
        for t in reversed(range(length)):
            a, s = w[0] @ x[t, batch], r[0] @ h
            z, q = (
                sigmoid(a[k : k + 4] + s[k : k + 4] + b[0, k : k + 4] + b[0, 12 + k : 16 + k])
                for k in (0, 4)
            )
            n = np.tanh(a[8:] + b[0, 8:12] + r[0, 8:] @ (q * h) + b[0, 20:])
            h = (1 - z) * n + z * h
            np.testing.assert_allclose(y[t, 0, batch], h, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(y_h[0, batch], h, rtol=1e-4, atol=1e-5)
        assert not y[length:, 0, batch].any()


@pytest.mark.parametrize("length", [60, 100])
def test_a_spectrum_of_a_signal_of_any_length(length: int) -> None:
    nodes = [of("STFT", "x step w size", "y", onesided=1)]
    window = np.hanning(20).astype(F)
    stored = {"step": np.array(5), "w": window, "size": np.array(20)}
    x = numbers(1, length, 1)
    (y,) = run(model_from(graph_of(nodes, [declared("x", shape=[1, "n", 1])], ["y"], stored)), x)
    frames = np.stack([x[0, i : i + 20, 0] for i in range(0, length - 19, 5)])
    expected = np.fft.rfft(frames * window)
    np.testing.assert_allclose(y[0, ..., 0] + 1j * y[0, ..., 1], expected, rtol=1e-3, atol=1e-4)


def test_nan_stays() -> None:
    nan = np.array([NAN, 1, NAN, -2], F)
    np.testing.assert_array_equal(run_node("Relu", nan)[0], [NAN, 1, NAN, 0])
    np.testing.assert_array_equal(run_node("Sign", nan)[0], [NAN, 1, NAN, -1])
    one = np.array([1, NAN, 1, 3], F)
    np.testing.assert_array_equal(run_node("Max", nan, one)[0], [NAN, NAN, NAN, 3])
    np.testing.assert_array_equal(run_node("Min", one, nan)[0], [NAN, NAN, NAN, -2])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_an_extreme_of_nan_is_nan_wherever_it_stands(count: int) -> None:
    x = np.tile(np.arange(21, dtype=F), (22 - count, 1))
    for row in range(len(x)):
        x[row, row : row + count] = NAN
    graph = graph_of([of("ReduceMax", "x a", "y", keepdims=0), of("ReduceMin", "x a", "z", keepdims=0)],
                     [declared("x", shape=["n", "m"])], ["y", "z"], {"a": np.array([1])})  # fmt: skip
    assert np.isnan(run(model_from(graph), x)).all()


def test_a_bound_that_is_nan_is_none() -> None:
    x = np.array([0.5, -3, 4.5, 11, NAN], F)
    np.testing.assert_array_equal(run_node("Clip", x, F(0), F(NAN))[0], [0.5, 0, 4.5, 11, NAN])
    np.testing.assert_array_equal(run_node("Clip", x, F(0), F(6))[0], [0.5, 0, 4.5, 6, NAN])
    np.testing.assert_array_equal(run_node("Clip", x, F(5), F(1))[0], [1, 1, 1, 1, NAN])


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int8])
def test_division_of_integers_truncates_and_remainders_have_the_sign_they_should(kind) -> None:
    a, b = np.array([8, -8, 7, -7], kind), np.array([-3, 3, -2, 2], kind)
    assert run_node("Div", a, b)[0].tolist() == [-2, -2, -3, -3]
    assert run_node("Mod", a, b)[0].tolist() == [-1, 1, -1, 1]
    assert run_node("Mod", a, b, fmod=1)[0].tolist() == [2, -2, 1, -1]


def test_remainders_of_floats_have_the_sign_of_the_dividend() -> None:
    a, b = np.array([8, -8, 7.5, -7.5], F), np.array([-3, 3, -2, 2], F)
    np.testing.assert_array_equal(run_node("Mod", a, b, fmod=1)[0], np.fmod(a, b))


@pytest.mark.parametrize(("kind", "expected"), [(np.uint8, 0), (np.int8, -56)])
def test_a_sum_wraps_before_it_is_widened(kind, expected: int) -> None:
    x = np.array([128 if kind == np.uint8 else 100], kind)
    nodes = [of("Add", "x x", "s"), of("Cast", "s", "y", to=TensorProto.INT16)]
    assert run(model_from(graph_of(nodes, [declared("x", x)], ["y"])), x)[0].tolist() == [expected]


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_quantised_numbers_are_rounded_half_to_even(kind) -> None:
    x = np.array([2.5, 5.5, 62.5, 3.5, -2.5, 0.5], kind)
    (y,) = run_node("QuantizeLinear", x, np.array(1, kind), np.array(0, np.int8))
    assert y.tolist() == [2, 6, 62, 4, -2, 0]


@pytest.mark.parametrize("op", ["Sin", "Exp", "Erf", "Tan"])
def test_functions_of_halves_are_near_after_an_expansion_and_a_mean(op: str) -> None:
    x = numbers(31, 51, 1).astype(np.float16)
    nodes = [
        of("Expand", "x shape", "e"), of("ReduceMean", "e last", "m", keepdims=0),
        of("Mul", "m two", "t"), of(op, "t", "y"),
    ]  # fmt: skip
    stored = {"shape": np.array([31, 51, 4]), "last": np.array([2]), "two": np.float16(2)}
    (y,) = run(model_from(graph_of(nodes, [declared("x", x)], ["y"], stored)), x)
    function = {"Erf": np.vectorize(math.erf), "Sin": np.sin, "Exp": np.exp, "Tan": np.tan}[op]
    exact = function((x[..., 0] * np.float16(2)).astype(np.float64))
    np.testing.assert_allclose(y.astype(float), exact, rtol=2e-3, atol=1e-3)


def test_a_mean_after_a_convolution() -> None:
    x, w, v = numbers(2, 3, 8, 8), numbers(64, 3, 3, 3, seed=1), numbers(1, 64, 3, 3, seed=2)
    nodes = [
        of("Conv", "x w", "c", pads=[1] * 4),
        of("Conv", "c v", "d", pads=[1] * 4),
        of("ReduceMean", "d a", "y", keepdims=0),
    ]
    stored = {"w": w, "v": v, "a": np.array([1, 2, 3])}
    (y,) = run(model_from(graph_of(nodes, [declared("x", shape=["n", 3, 8, 8])], ["y"], stored)), x)
    np.testing.assert_allclose(y, conv(conv(x, w), v).mean((1, 2, 3)), rtol=1e-3, atol=1e-4)


def conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def test_a_softmax_over_a_middle_axis() -> None:
    x = numbers(2, 19, 40, 50)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(
        run_node("Softmax", x, axis=1)[0], e / e.sum(1, keepdims=True), rtol=1e-5
    )
