"""Cases of recurrent networks: every cell, its options, and steps and rows of any number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.nn_recurrent import GATES, Function
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.values import below, near

WIDTH = 20
"""The state's width: more than a vector of lanes, and no multiple of one."""

SIZES = (0, 1, 3)

SIGMOID, TANH = ("sigmoid", ()), ("tanh", ())

TOLERANCE = 2e-5
"""The tolerance of states around 1 after a few steps."""

LEVEL = 2e-2
"""The same where a sum that is rounded to a level may be near the middle of two."""

USUAL: Mapping[str, Sequence[Function]] = {
    "rnn": (TANH,),
    "gru": (SIGMOID, TANH),
    "lstm": (SIGMOID, TANH, TANH),
}

OTHER: Mapping[str, Sequence[Function]] = {
    "rnn": (("relu", ()),),
    "gru": (("hard_sigmoid", (0.2, 0.5)), ("softsign", ())),
    "lstm": (("affine", (0.1, 0.5)), ("leaky_relu", (0.1,)), ("scaled_tanh", (1.5, 0.5))),
}


def cases() -> Iterator[Case]:
    """Yield the cases of each cell."""
    for cell in GATES:
        yield Case(f"recurrent-{cell}", partial(_layers, cell), SIZES)


def _layers(cell: str, sheet: Sheet) -> None:
    """Some layers of a cell: steps are N, or rows are."""
    small = near(0.0, 0.5)
    by_steps = _operands(cell, sheet, "steps", ["N", 2])
    by_rows = _operands(cell, sheet, "rows", [3, "N"])
    lengths = {"lengths": sheet.given("lengths", i32, ["N"], below(4))}
    _layer(sheet, cell, "plain", by_steps, USUAL)
    _layer(sheet, cell, "back", by_rows | lengths, USUAL, reverse=True)
    _layer(sheet, cell, "other", by_rows, OTHER, clip=0.5)
    if cell == "gru":
        bias = {"bias": sheet.given("bias", f32, [WIDTH], small)}
        _layer(sheet, cell, "linear", by_steps | bias, USUAL, linear=True)
    if cell == "lstm":
        peepholes = {"peepholes": sheet.given("peepholes", f32, [3, WIDTH], small)}
        _layer(sheet, cell, "peepholes", by_rows | peepholes | lengths, USUAL)
        _layer(sheet, cell, "coupled", by_steps, USUAL, coupled=True)
        _layer(sheet, cell, "levels", by_rows, USUAL, atol=LEVEL, levels=True)


def _operands(
    cell: str, sheet: Sheet, name: str, shape: list[Dim | int | str]
) -> dict[str, SSAValue]:
    gates, rows, small = GATES[cell], shape[1], near(0.0, 0.5)
    shapes: dict[str, list[Dim | int | str]] = {
        "x": [*shape, gates, WIDTH],
        "r": [WIDTH, gates, WIDTH],
        "h": [rows, WIDTH],
        **({"c": [rows, WIDTH]} if cell == "lstm" else {}),
    }
    return {
        role: sheet.given(f"{role}_of_{name}", f32, dims, small) for role, dims in shapes.items()
    }


def _layer(
    sheet: Sheet,
    cell: str,
    name: str,
    operands: dict[str, SSAValue],
    functions: Mapping[str, Sequence[Function]],
    *,
    atol: float = TOLERANCE,
    **options: Any,
) -> None:
    op = nn.RecurrentOp(cell, operands, functions[cell], **options)
    sheet.compute(name, op, atol=atol)
    for n, state in enumerate(op.ys[1:]):
        sheet.check(f"{name}_{n}", state, atol=atol)
