"""The shape of a rule, and how one for computing threads apart from each other is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.scalars import SCALARS, Scalar
from lamina.testing.ptx.syntax import Instruction
from lamina.testing.ptx.threads import Threads

Compute = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
)
"""What is computed of one to four sources, arrays over all threads or scalars."""

Rule = Callable[[Decoder, Instruction], Step]
"""Decode an instruction; raise `UnsupportedError` for a form that is not known."""


def pointwise(
    decoder: Decoder,
    op: Instruction,
    compute: Compute,
    result: Scalar,
    sources: Sequence[Scalar],
) -> Step:
    """Return the step that computes the first operand from the others, element by element."""
    write = decoder.write(op, op.operands[0], result)
    reads = [
        decoder.read(op, operand, scalar)
        for operand, scalar in zip(op.operands[1:], sources, strict=True)
    ]

    of_sources = cast("Callable[..., Any]", compute)

    def step(t: Threads, lanes: Lanes) -> None:
        write(t, lanes, of_sources(*[read(t) for read in reads]))

    return step


def by_type(integers: Rule | None, floats: Rule | None) -> Rule:
    """Return the rule that looks at the last modifier to choose between two."""

    def rule(decoder: Decoder, op: Instruction) -> Step:
        scalar = SCALARS.get(op.modifiers[-1]) if op.modifiers else None
        chosen = floats if scalar is not None and scalar.is_float else integers
        if chosen is None:
            raise decoder.unknown(op)
        return chosen(decoder, op)

    return rule


def nothing(decoder: Decoder, op: Instruction) -> Step:
    """Decode an instruction that changes nothing here, such as a prefetch."""
    return lambda t, lanes: None
