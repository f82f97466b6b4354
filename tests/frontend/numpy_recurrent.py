"""Recurrent networks of ONNX in NumPy, from the equations of the standard, in float64."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gates(x: Array, h: Array, w: Array, r: Array, b: Array) -> list[Array]:
    """What input and state give to each gate, biases included."""
    count, width = len(r) // h.shape[-1], len(r)
    return np.split(x @ w.T + h @ r.T + b[:width] + b[width:], count, -1)


def lstm(
    x: Array, w: Array, r: Array, b: Array, h: Array, c: Array, p: Array, lengths: Array
) -> tuple[Array, Array, Array]:
    """y[T, B, H] and the last states of one forward direction."""
    peep = np.split(p, 3)
    y = np.zeros((len(x), *h.shape))
    for t, step in enumerate(x):
        i, o, f, g = gates(step, h, w, r, b)
        i, f = sigmoid(i + peep[0] * c), sigmoid(f + peep[2] * c)
        new = f * c + i * np.tanh(g)
        state = sigmoid(o + peep[1] * new) * np.tanh(new)
        going = (t < lengths)[:, None]
        y[t] = np.where(going, state, 0)
        h, c = np.where(going, state, h), np.where(going, new, c)
    return y, h, c


def gru(
    x: Array, w: Array, r: Array, b: Array, h: Array, lengths: Array, *, linear: bool
) -> tuple[Array, Array]:
    """y[T, B, H] and the last state of one forward direction."""
    width = h.shape[-1]
    y = np.zeros((len(x), *h.shape))
    own, state_bias = b[: 3 * width], b[3 * width :]
    for t, step in enumerate(x):
        a, s = np.split(step @ w.T + own, 3, -1), np.split(h @ r.T + state_bias, 3, -1)
        z, reset = sigmoid(a[0] + s[0]), sigmoid(a[1] + s[1])
        last = (reset * h) @ r[2 * width :].T + state_bias[2 * width :]
        n = np.tanh(a[2] + (reset * s[2] if linear else last))
        going = (t < lengths)[:, None]
        new = (1 - z) * n + z * h
        y[t], h = np.where(going, new, 0), np.where(going, new, h)
    return y, h
