"""The groups of a plan that run by their NumPy meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lamina.targets.base import Array

if TYPE_CHECKING:
    from lamina.targets.plans.plan_tables import Plan
    from lamina.targets.reference.interpreter import Program

HostFunction = Callable[[Mapping[str, int], Sequence[Array]], None]
"""Runs one group, given the plan's symbols and the group's buffers: operands, then results."""


def host_functions(plan: Plan, text: bytes) -> list[HostFunction]:
    """Return what each host call of a plan runs; `text` is a module of their groups."""
    if not plan.hosts:
        return []
    from lamina.targets.known import KNOWN
    from lamina.targets.module_text import module_of
    from lamina.targets.reference.interpreter import Program

    module = module_of(text, "the artifact's host calls")
    program = Program(KNOWN.meanings(), module)
    return [_host_function(program, call.name) for call in plan.hosts]


def _host_function(program: Program, name: str) -> HostFunction:
    from lamina.targets.reference.interpreter import Interpreter, quiet

    count = len(program.named[name].regions[0].block.args)

    def run(symbols: Mapping[str, int], buffers: Sequence[Array]) -> None:
        interpreter = Interpreter(program, dict(symbols))
        with quiet():
            results = interpreter.call(name, buffers[:count])
        interpreter.finish()
        for buffer, result in zip(buffers[count:], results, strict=True):
            buffer[...] = result

    return run
