"""Instructions of independent chains in turns, so that a machine sees several chains at once."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from lamina.targets.cpu.builder import Builder

CHAINS: Final = 2
"""Chains that take turns: the values of more, in a long formula, would not fit the registers."""

_NAME: Final = re.compile(r"%v\d+")


def alternate(builder: Builder, level: int, makes: Iterable[Callable[[], object]]) -> None:
    """Have each of `makes` write its instructions in scope `level`, and let these take turns.

    A machine looks some sixty instructions ahead: of long chains, one after another, it would see
    two or three, too few to keep its multipliers busy.
    """
    lines = builder.scopes[level].lines
    start, ends = len(lines), list[int]()
    for make in makes:
        make()
        ends.append(len(lines))
    pieces = [lines[a:b] for a, b in zip([start, *ends], ends, strict=False)]
    lines[start:] = in_turns(pieces)


def in_turns(pieces: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of all pieces, one of each in turn, but no line before what it needs."""
    queues = [deque((line, _NAME.findall(line)) for line in piece) for piece in pieces]
    waiting = {names[0] for queue in queues for line, names in queue if _defines(line)}
    result: list[str] = []
    while any(queues):
        for queue in filter(None, queues):
            line, names = queue[0]
            if not waiting.intersection(names[1:] if _defines(line) else names):
                queue.popleft()
                result.append(line)
                waiting.discard(names[0] if _defines(line) else "")
    return result


def _defines(line: str) -> bool:
    return line.startswith("  %v")
