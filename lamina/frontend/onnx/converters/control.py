"""Branches and loops: what is known about them now decides; the rest is kept as it is."""

from __future__ import annotations

from typing import Final

import numpy as np

from lamina.dialects.dims import Dim
from lamina.frontend.onnx.kinds import BOOL, INT64
from lamina.frontend.onnx.node import NeedsValueError, Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Array, Known, Several, Tensor, Value

_MOST_ROUNDS: Final = 64
"""How often a loop may go round for its rounds to be written out."""


@converts("If")
def branch(node: Node) -> list[Value]:
    """One of two graphs, by a condition that is known."""
    condition = bool(node.number(0))
    return node.graphs("then_branch" if condition else "else_branch", [])


@converts("Loop")
def loop(node: Node) -> list[Value]:
    """A graph run again and again, written out if it is known how often."""
    most = int(node.number(0)) if node.has(0) else None
    going = bool(node.number(1)) if node.has(1) else True
    if going and (most is None or most > _MOST_ROUNDS):
        raise NeedsValueError(f"{node.where}: the number of rounds has to be known", 0)
    states, width = list(node.inputs[2:]), len(node.inputs) - 2
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


def _goes_on(node: Node, value: Value) -> bool:
    if isinstance(value, Known) and value.is_plain and value.array.size == 1:
        return bool(value.array.ravel()[0])
    raise NeedsValueError(f"{node.where}: whether it goes on has to be known", 1)


@converts("Scan", since=9)
def scan(node: Node) -> list[Value]:
    """A graph run for every part of some tensors, written out if there are few."""
    scanned = node.get_int("num_scan_inputs")
    width = len(node.inputs) - scanned
    states, xs = list(node.inputs[:width]), [node.x(width + i) for i in range(scanned)]
    outputs = len(node.proto.output) - width
    none = [0] * max(scanned, outputs)
    in_axes = node.get_ints("scan_input_axes", none[:scanned])
    out_axes = node.get_ints("scan_output_axes", none[:outputs])
    back = node.get_ints("scan_input_directions", none[:scanned])
    front = node.get_ints("scan_output_directions", none[:outputs])
    length = xs[0].shape[in_axes[0]].constant
    if length is None or length > _MOST_ROUNDS:
        raise NeedsValueError(f"{node.where}: the number of rounds has to be known", width)
    rows: list[list[Tensor]] = [[] for _ in range(outputs)]
    for i in range(length):
        parts = [
            _taken(node, x, node.axis(axis, len(x.shape)), length - 1 - i if turned else i)
            for x, axis, turned in zip(xs, in_axes, back, strict=True)
        ]
        found = node.graphs("body", [*states, *parts])
        states = found[:width]
        for row, value, turned in zip(rows, found[width:], front, strict=True):
            row.insert(0 if turned else len(row), _row(node, value))
    stacked = [_stacked(node, row, axis) for row, axis in zip(rows, out_axes, strict=True)]
    return [*states, *stacked]


def _scalar(number: int) -> Known:
    return Known(np.array(number, np.int64), INT64)


def _row(node: Node, value: Value) -> Tensor:
    if value is None or isinstance(value, Several):
        raise node.refuse("a sequence of what rounds give")
    return node.tensor(value)


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
