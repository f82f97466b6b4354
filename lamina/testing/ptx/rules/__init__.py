"""What each instruction does: a table from its name to the function that decodes it."""

from __future__ import annotations

from lamina.testing.ptx.rules import (
    atomics,
    bits,
    comparison,
    control,
    conversion,
    copy,
    floats,
    integers,
    matrix,
    mbarrier,
    memory,
    moves,
    warp,
    warpgroup,
)
from lamina.testing.ptx.rules.rule import Rule, by_type

_TABLES = (
    *(atomics.RULES, bits.RULES, comparison.RULES, control.RULES, conversion.RULES, copy.RULES),
    *(matrix.RULES, mbarrier.RULES, memory.RULES, moves.RULES, warp.RULES),
    warpgroup.RULES,
)


def _all() -> dict[str, Rule]:
    found: dict[str, Rule] = {
        name: by_type(integers.RULES.get(name), floats.RULES.get(name))
        for name in (*integers.RULES, *floats.RULES)
    }
    for table in _TABLES:
        assert not found.keys() & table.keys(), "two rules for one instruction"
        found.update(table)
    return found


RULES: dict[str, Rule] = _all()
"""The rule of every instruction."""
