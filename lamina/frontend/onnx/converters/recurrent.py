"""Recurrent networks: every direction of a layer is one operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.nn_recurrent import ACTIVATIONS, FUNCTIONS, GATES, Function
from lamina.frontend.onnx.converters.integer_products import integer_matrices, zero_of
from lamina.frontend.onnx.converters.quantised import dequantised, dynamic
from lamina.frontend.onnx.kinds import FLOAT, INT32
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Tensor

_USUAL: Final = {
    "rnn": ("tanh",),
    "gru": ("sigmoid", "tanh"),
    "lstm": ("sigmoid", "tanh", "tanh"),
}
"""The functions of each cell where a node does not name them."""

_NAMES: Final = {name.replace("_", ""): name for name in ACTIVATIONS}

_PARAMETERS: Final = {
    "affine": (1.0, 0.0),
    "elu": (1.0,),
    "hard_sigmoid": (0.2, 0.5),
    "leaky_relu": (0.01,),
    "scaled_tanh": (1.0, 1.0),
    "thresholded_relu": (1.0,),
}
"""The usual alpha and beta."""


@dataclass(frozen=True)
class _Weights:
    """One direction: what rows of inputs give to its gates, and its state's `r[H, gate * H]`.

    With `levels` the state meets them as bytes would.
    """

    products: Callable[[Tensor], Tensor]
    r: Tensor
    levels: bool = False


@converts("RNN", "GRU", "LSTM")
def recurrent(node: Node) -> list[Tensor]:
    """A layer of a recurrent network, in one direction or both."""
    return _layer(node, node.op.lower(), [_plain(node, d) for d in range(_count(node))])


def _plain(node: Node, d: int) -> _Weights:
    w, r = (_of(node, node.x(i), d) for i in (1, 2))
    return _Weights(lambda x: node.dot(x, w, [(1, 1)]), node.transpose(r, [1, 0]))


@converts("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(node: Node) -> list[Tensor]:
    """A layer of an LSTM with weights of bytes, which inputs and states meet as bytes, too."""
    return _layer(node, "lstm", [_bytes(node, d) for d in range(_count(node))])


def _bytes(node: Node, d: int) -> _Weights:
    w, w_scale, w_zero = _stored(node, 1, 8, d)
    r, r_scale, r_zero = _stored(node, 2, 10, d)

    def products(x: Tensor) -> Tensor:
        q, scale, zero = dynamic(node, x)
        y = node.cast(integer_matrices(node, q, w, zero, w_zero), FLOAT)
        return node.binary(nn.MulOp, y, node.binary(nn.MulOp, scale, w_scale))

    return _Weights(products, dequantised(node, r, r_scale, r_zero), levels=True)


def _stored(node: Node, index: int, scale: int, d: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return a matrix of bytes with its scale and its zero: one number, or one a column."""
    x, s = _of(node, node.x(index), d), _of(node, node.x(scale), d)
    zero = zero_of(node, scale + 1)
    return x, s, None if zero is None else _of(node, zero, d)


def _of(node: Node, x: Tensor, d: int) -> Tensor:
    """Return what a tensor has for a direction; floats of 16 bits as f32."""
    return _wide(node, node.reshape(node.part(x, 0, d, 1), x.shape[1:]))


def _wide(node: Node, x: Tensor) -> Tensor:
    return node.cast(x, FLOAT) if x.kind.is_float and x.kind.bits == 16 else x


def _count(node: Node) -> int:
    known = ("forward", "reverse", "bidirectional")
    return 2 if node.choice("direction", "forward", known) == "bidirectional" else 1


# A layer


def _layer(node: Node, cell: str, weights: Sequence[_Weights]) -> list[Tensor]:
    """Return all states y, and the last ones, of a layer in each of its directions."""
    x = _wide(node, node.x(0))
    if len(x.shape) != 3:
        raise node.fault(f"X has rank {len(x.shape)}, expected 3")
    batched = bool(node.get_int("layout", 0))
    x = node.transpose(x, [1, 0, 2]) if batched else x
    functions = _functions(node, cell, len(weights))
    found = [_direction(node, cell, x, each, functions[d], d) for d, each in enumerate(weights)]
    first, *states = (_together(node, parts) for parts in zip(*found, strict=True))
    # Now y[D, T, B, H] and the states [D, B, H].
    y = node.transpose(first, [2, 1, 0, 3] if batched else [1, 0, 2, 3])
    states = [node.transpose(s, [1, 0, 2]) if batched else s for s in states]
    return [node.cast(each, node.value(0).kind) for each in (y, *states)]


def _together(node: Node, parts: Sequence[Tensor]) -> Tensor:
    return node.concat([node.reshape(part, [1, *part.shape]) for part in parts], 0)


def _direction(
    node: Node, cell: str, x: Tensor, weights: _Weights, functions: Sequence[Function], d: int
) -> list[Tensor]:
    """Return y[T, B, H] and the last states [B, H] of one direction."""
    steps, rows, inputs = x.shape
    gates, width = GATES[cell], weights.r.shape[0]
    linear = bool(node.get_int("linear_before_reset", 0)) and cell == "gru"
    given = weights.products(node.reshape(x, [steps * rows, inputs]))
    bias = _bias(node, gates, width, d, linear=linear) if node.has(3) else {}
    if "x" in bias:
        given = node.binary(nn.AddOp, given, bias.pop("x"))
    operands = {
        "x": node.reshape(given, [steps, rows, gates, width]),
        "r": node.reshape(weights.r, [width, gates, width]),
        **_states(node, cell, x, width, d),
        **bias,
    }
    op = nn.RecurrentOp(
        cell,
        {name: each.value for name, each in operands.items()},
        functions,
        clip=node.get_float("clip") if node.given("clip") else None,
        reverse=node.get_text("direction", "forward") == "reverse" or d == 1,
        linear=linear,
        coupled=cell == "lstm" and bool(node.get_int("input_forget", 0)),
        levels=weights.levels,
    )
    node.add(op, x.kind)
    return [Tensor(y, x.kind) for y in op.ys]


def _bias(node: Node, gates: int, width: Dim, d: int, *, linear: bool) -> dict[str, Tensor]:
    """Return what is added to what the inputs give, and for `linear` to a product before reset."""
    whole = node.reshape(_of(node, node.x(3), d), [2, gates, width])
    of_inputs, of_state = (
        node.reshape(node.part(whole, 0, i, 1), [gates, width]) for i in range(2)
    )
    found: dict[str, Tensor] = {}
    if linear:
        last = node.part(of_state, 0, gates - 1, 1)
        found["bias"] = node.reshape(last, [width])
        of_state = node.concat([node.part(of_state, 0, 0, gates - 1), node.like(0, last)], 0)
    total = node.binary(nn.AddOp, of_inputs, of_state)
    return {"x": node.reshape(total, [width * gates]), **found}


def _states(node: Node, cell: str, x: Tensor, width: Dim, d: int) -> dict[str, Tensor]:
    """Return the first states, and what else a direction has beside its weights."""
    _, rows, _ = x.shape
    found: dict[str, Tensor] = {}
    for name, index in (("h", 5), ("c", 6)):
        if name == "c" and cell != "lstm":
            continue
        if node.has(index):
            state = node.x(index)
            state = node.transpose(state, [1, 0, 2]) if node.get_int("layout", 0) else state
            found[name] = node.retyped(_of(node, state, d), [rows, width])
        else:
            found[name] = node.full(0.0, x.kind, [rows, width])
    if cell == "lstm" and node.has(7):
        found["peepholes"] = node.reshape(_of(node, node.x(7), d), [3, width])
    if node.has(4):
        found["lengths"] = node.retyped(node.cast(node.x(4), INT32), [rows])
    return found


def _functions(node: Node, cell: str, count: int) -> list[list[Function]]:
    """Return the functions of each direction, with their parameters."""
    each = FUNCTIONS[cell]
    names = node.get_texts("activations", [*_USUAL[cell]] * count)
    if len(names) != each * count:
        raise node.fault(f"{len(names)} activations for {count} directions of a {cell}")
    alphas = iter(node.get_floats("activation_alpha", []))
    betas = iter(node.get_floats("activation_beta", []))
    found: list[Function] = []
    for text in names:
        name = _NAMES.get(text.lower().replace("_", ""))
        if name is None:
            raise node.refuse(f"the activation {text!r}")
        usual = _PARAMETERS.get(name, ())
        found.append(
            (
                name,
                tuple(
                    next(given, number)
                    for given, number in zip((alphas, betas), usual, strict=False)
                ),
            )
        )
    return [found[d * each : (d + 1) * each] for d in range(count)]
