"""Traits of operations that passes go by, whatever the dialect."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.traits import OpTrait


@dataclass(frozen=True)
class Elementwise(OpTrait):
    """An element of the operation's results needs that element of its operands, and no other."""
