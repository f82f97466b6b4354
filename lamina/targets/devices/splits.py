"""How a step is divided on devices that run many programs at once."""

from __future__ import annotations

from typing import Final

from xdsl.passes import ModulePass

from lamina.passes.choose_splits import ChooseSplitsPass
from lamina.passes.choose_variants import ChooseVariantsPass

FEW_ROWS: Final = 16
"""Rows up to which attention has too few programs to fill a device: a step of as many sequences."""

SPAN: Final = 256
"""Positions that a program of attention goes over: so few that 8 sequences of 4,096 are some
hundreds of programs for each key-value head, and so many that merging them is no work beside."""

ENTRY: Final = 24
"""Rows of an entry of a prompt's attention, at most: 64 threads then have 24 sums each, of scores
as of values 64 wide."""


def split_passes() -> tuple[ModulePass, ...]:
    """Return the passes that give few rows of attention a branch, and split it there."""
    return ChooseVariantsPass((1,), (FEW_ROWS,)), ChooseSplitsPass(SPAN, FEW_ROWS, ENTRY)
