"""The part of a product's result that is in registers at once, as a schedule asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.dialects import nn, quant
from lamina.dialects.dims import Dim
from lamina.dialects.quant import ROWS
from lamina.errors import LoweringError

MOST_REGISTERS = 128
"""Registers of 16 sums: four times what any machine has, so that no useful tile is refused."""

MOST_STEPS = 256
"""Columns of K at once: each is written out, and takes its time to compile."""

MOST_PRODUCTS = 4096
"""Registers of sums by columns of K at once: so many multiplications of a register are written out,
which take a second or two to compile."""


class TileDoesNotFit(LoweringError):
    """A schedule asks for a tile that its product or the registers have no room for."""


@dataclass(frozen=True)
class RegisterTile:
    """A tile of `rows` by `count` tiles of 16 columns, `abreast` of them in registers at once.

    `step` columns of K are multiplied at once. Programs take `band` such tiles, side by side,
    before they come to the next rows.
    """

    rows: int
    count: int
    abreast: int
    step: int
    band: int

    @staticmethod
    def of(group: nn.GroupOp, products: Sequence[object], tiles: Dim | int) -> RegisterTile:
        """Return what a group's schedule asks for; `TileDoesNotFit` where that cannot be.

        Each product has `tiles` tiles of 16 columns. An integer product has two sums for each
        element: of the columns that share a scale, and of all.
        """
        name, schedule, all_columns = group.sym_name.data, group.schedule, Dim.of(tiles) * ROWS
        if schedule is None or not {"m", "n"} <= {*schedule.values.data}:
            raise LoweringError(f"group {name} has no schedule with the rows m and columns n")
        rows, columns = schedule.get("m"), schedule.get("n")
        at_once = schedule.get("r", ROWS if rows > 1 else columns)
        step, band = schedule.get("k", 8), schedule.get("b", columns)
        asked = f"group {name} asks for a tile of m={rows} n={columns} r={at_once} k={step}"
        if min(rows, columns, at_once, step, band) < 1 or step > MOST_STEPS:
            raise TileDoesNotFit(f"{asked}: sizes start at 1, and k ends at {MOST_STEPS}")
        if columns % ROWS or at_once % ROWS or columns % at_once or all_columns % columns != 0:
            raise TileDoesNotFit(
                f"{asked}: r and n are multiples of {ROWS}, r divides n and n divides the "
                f"product's {all_columns} columns"
            )
        if band % columns or all_columns % band != 0:
            raise TileDoesNotFit(
                f"{asked} in bands of b={band}: n divides b and b divides the product's "
                f"{all_columns} columns"
            )
        sums = 2 if any(isinstance(op, quant.LinearOp) for op in products) else 1
        registers = rows * at_once // ROWS * sums
        if registers > MOST_REGISTERS:
            raise TileDoesNotFit(
                f"{asked}: m * r sums take {registers} registers of {ROWS}, at most "
                f"{MOST_REGISTERS} fit"
            )
        if registers * step > MOST_PRODUCTS:
            raise TileDoesNotFit(
                f"{asked}: m * r * k are {registers * step} products of registers of {ROWS}, at "
                f"most {MOST_PRODUCTS} are written out"
            )
        return RegisterTile(rows, columns // ROWS, at_once // ROWS, step, band // columns)
