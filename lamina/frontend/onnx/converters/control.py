"""Branches and loops: what is known about them now decides; the rest is kept as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from xdsl.ir import Block, Region

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.errors import LaminaError
from lamina.frontend.onnx.emit import is_bound
from lamina.frontend.onnx.kinds import BOOL, INT64, Kind
from lamina.frontend.onnx.node import NeedsValueError, Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Array, Known, Several, Tensor, Value

_MOST_ROUNDS: Final = 64
"""How often a loop may go round for its rounds to be written out."""


@converts("If")
def branch(node: Node) -> list[Value]:
    """One of two graphs, by a condition that is known now, or as the model runs.

    If extents decide it, and what the graphs give is not alike, one is taken to be meant: other
    calls are refused.
    """
    value = node.value(0)
    if isinstance(value, Known) and value.is_plain:
        return node.graphs("then_branch" if bool(node.number(0)) else "else_branch", [])
    if not isinstance(value, Known):
        condition = node.cast(node.reshape(node.x(), [1]), INT64)
        chosen = node.cast(node.compare("ne", condition, node.like(0, condition)), INT64)
        (c,) = names = node.symbols(1)
        return _switch(node, c, lambda: node.bind(chosen, names))
    (c,) = node.dims(0)
    try:
        with node.graph.attempt():
            return _switch(node, c)
    except NeedsValueError:
        return _meant(node, c)


def _meant(node: Node, c: Dim) -> list[Value]:
    """Return what one of two graphs gives, in a call for which `c` is 1 or, failing that, 0."""
    try:
        with node.graph.attempt():
            node.graph.assume(c, Dim.of(1))
            return node.graphs("then_branch", [])
    except LaminaError:
        node.graph.assume(c, Dim.of(0))
        return node.graphs("else_branch", [])


def _switch(node: Node, c: Dim, bind: Callable[[], object] | None = None) -> list[Value]:
    """Return what two graphs give, the first where `c` is 1, which `bind` gives it."""
    blocks, guards = [Block(), Block()], [1 + c * -1, c]
    names_of = ("else_branch", "then_branch")
    found = [node.graph_inside(*each) for each in zip(names_of, blocks, guards, strict=True)]
    outputs: list[list[Tensor]] = [[], []]
    for pair in zip(*found, strict=True):
        for side, each in zip(outputs, _alike(node, pair, blocks, c), strict=True):
            side.append(each)
    for block, side in zip(blocks, outputs, strict=True):
        block.add_op(nn.YieldOp(*(each.value for each in side)))
    if bind is not None:
        bind()
    types = [each.value.type for each in outputs[0]]
    switch = nn.SwitchOp(c, [0], [Region(block) for block in blocks], types)
    node.graph.effect(switch)
    return [Tensor(y, x.kind) for y, x in zip(switch.ys, outputs[0], strict=True)]


def _alike(
    node: Node, pair: Sequence[Value], blocks: Sequence[Block], c: Dim
) -> tuple[Tensor, Tensor]:
    """Return what the branches give for one output under one type, in which c is 0 or 1."""
    tensors: list[Tensor] = []
    for value, block in zip(pair, blocks, strict=True):
        if value is None or isinstance(value, Several):
            raise NeedsValueError(f"{node.where}: which branch is taken has to be known", 0)
        with node.graph.inside(block, c):
            tensors.append(node.tensor(value))
    a, b = tensors
    bound = any(is_bound(name) for x in tensors for n in x.shape for name in n.symbols)
    if len(a.shape) != len(b.shape) or a.kind != b.kind or bound:
        raise NeedsValueError(f"{node.where}: which branch is taken has to be known", 0)
    shape = [m if m == n else m + c * (n - m) for m, n in zip(a.shape, b.shape, strict=True)]
    for i, block in enumerate(blocks):
        if tensors[i].shape != tuple(shape):
            with node.graph.inside(block, c):
                op = nn.ReshapeOp(tensors[i].value, shape, assumed=True)
                tensors[i] = node.add(op, a.kind)
    return tensors[0], tensors[1]


@converts("Loop")
def loop(node: Node) -> list[Value]:
    """A graph run again and again, written out if it is known how often."""
    most = _known_number(node, 0, None)
    going = _known_number(node, 1, 1)
    states, width = list(node.inputs[2:]), len(node.inputs) - 2
    if going is None or (going and (most is None or most > _MOST_ROUNDS)):
        what = f"{node.where}: the number of rounds has to be known"
        raise NeedsValueError(what, 0, _of_a_round(node, states))
    rows: list[list[Tensor]] = [[] for _ in range(len(node.proto.output) - width)]
    for i in range(most or 0) if going else ():
        given = [_scalar(i), Known(np.array(True), BOOL), *states]
        found = node.graphs("body", given)
        states = found[1 : 1 + width]
        for row, value in zip(rows, found[1 + width :], strict=True):
            row.append(_row(node, value))
        if not _goes_on(node, found[0]):
            break
    return [*states, *(_stacked(node, row, 0) for row in rows)]


def _known_number(node: Node, index: int, usual: int | None) -> int | None:
    """Return an input of one integer, the usual one if it is not given; None if not known."""
    if not node.has(index):
        return usual
    value = node.value(index)
    return int(node.number(index)) if isinstance(value, Known) and value.is_plain else None


def _of_a_round(node: Node, states: Sequence[Value]) -> list[tuple[Kind, int] | None]:
    """Return the element types and ranks of a loop's outputs, if a round tells them."""
    found: list[tuple[Kind, int] | None] = []
    try:
        with node.graph.attempt():
            own = [None if each is None else node.tensor(_array(node, each)) for each in states]
            given = [node.full(0, INT64, []), node.full(1, BOOL, []), *own]
            values = [_array(node, each) for each in node.graphs("body", given)[1:]]
            for i, value in enumerate(values):
                rank = len(value.shape)
                if i >= len(own):
                    found.append((value.kind, rank + 1))
                    continue
                state = own[i]
                same = state is not None and len(state.shape) == rank
                found.append((value.kind, rank) if same else None)
            raise _LearnedError
    except _LearnedError:
        return found
    except LaminaError:
        return []


class _LearnedError(Exception):
    """A round was imported to learn of it, and is taken back."""


def _array(node: Node, value: Value) -> Array:
    if value is None or isinstance(value, Several):
        raise node.refuse("a sequence of what rounds give")
    return value


def _goes_on(node: Node, value: Value) -> bool:
    if isinstance(value, Known) and value.is_plain and value.array.size == 1:
        return bool(value.array.ravel()[0])
    raise NeedsValueError(f"{node.where}: whether it goes on has to be known", 1)


@dataclass(frozen=True)
class _Scanned:
    """How a Scan goes: axes and directions, of what goes in and of what comes out."""

    in_axes: Sequence[int]
    out_axes: Sequence[int]
    back: Sequence[int]
    front: Sequence[int]


@converts("Scan", since=8)
def scan_batches(node: Node) -> list[Value]:
    """The same for each of several sequences: the first dimension of all that there is."""
    if node.has(0):
        raise node.refuse("sequence_lens")
    scanned = node.get_int("num_scan_inputs")
    inputs = [node.x(i) for i in range(1, len(node.inputs))]
    outputs = len(node.proto.output) - len(inputs) + scanned
    how = _Scanned(
        [0] * scanned, [0] * outputs, node.get_ints("directions", [0] * scanned), [0] * outputs
    )
    count = inputs[0].shape[0].constant
    if not count or count > _MOST_ROUNDS:
        raise node.refuse(f"a batch of {inputs[0].shape[0]} sequences")
    found: list[list[Tensor]] = []
    for i in range(count):
        own = [_taken(node, x, 0, i) for x in inputs]
        width = len(own) - scanned
        try:
            each = _scanned(node, own[:width], [node.tensor(x) for x in own[width:]], how)
        except NeedsValueError as error:
            raise node.refuse("a sequence of many or unknown rounds") from error
        found.append([_row(node, value) for value in each])
    return [_stacked(node, list(row), 0) for row in zip(*found, strict=True)]


@converts("Scan", since=9)
def scan(node: Node) -> list[Value]:
    """A graph run for every part of some tensors, written out if there are few."""
    scanned = node.get_int("num_scan_inputs")
    width = len(node.inputs) - scanned
    outputs = len(node.proto.output) - width
    none = [0] * max(scanned, outputs)
    how = _Scanned(
        node.get_ints("scan_input_axes", none[:scanned]),
        node.get_ints("scan_output_axes", none[:outputs]),
        node.get_ints("scan_input_directions", none[:scanned]),
        node.get_ints("scan_output_directions", none[:outputs]),
    )
    return _scanned(node, node.inputs[:width], [node.x(width + i) for i in range(scanned)], how)


def _scanned(
    node: Node, initial: Sequence[Value], xs: Sequence[Tensor], how: _Scanned
) -> list[Value]:
    states = list(initial)
    width = len(states)
    length = xs[0].shape[how.in_axes[0]].constant
    if length is None or length > _MOST_ROUNDS:
        raise NeedsValueError(f"{node.where}: the number of rounds has to be known", width)
    rows: list[list[Tensor]] = [[] for _ in how.out_axes]
    for i in range(length):
        parts = [
            _taken(node, x, node.axis(axis, len(x.shape)), length - 1 - i if turned else i)
            for x, axis, turned in zip(xs, how.in_axes, how.back, strict=True)
        ]
        found = node.graphs("body", [*states, *parts])
        states = found[:width]
        for row, value, turned in zip(rows, found[width:], how.front, strict=True):
            row.insert(0 if turned else len(row), _row(node, value))
    stacked = [_stacked(node, row, axis) for row, axis in zip(rows, how.out_axes, strict=True)]
    return [*states, *stacked]


def _scalar(number: int) -> Known:
    return Known(np.array(number, np.int64), INT64)


def _row(node: Node, value: Value) -> Tensor:
    return node.tensor(_array(node, value))


def _taken(node: Node, x: Tensor, axis: int, index: int) -> Array:
    part = node.part(x, axis, index, 1)
    return node.reshape(part, [n for d, n in enumerate(x.shape) if d != axis])


def _stacked(node: Node, row: list[Tensor], axis: int) -> Tensor:
    if not row:
        raise NeedsValueError(f"{node.where}: there is no round", 0)
    rank = len(row[0].shape) + 1
    place = node.axis(axis, rank)
    one = Dim.of(1)
    parts = [node.reshape(x, [*x.shape[:place], one, *x.shape[place:]]) for x in row]
    return node.concat(parts, place)
