"""The groups of a plan that run by their NumPy meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lamina.targets.base import Array

if TYPE_CHECKING:
    from lamina.targets.plans.plan_tables import HostCall, Plan
    from lamina.targets.reference.interpreter import Program

HostFunction = Callable[[Mapping[str, int], Sequence[Array]], Sequence[Array]]
"""Runs one group, given the plan's symbols and the group's buffers, and returns its results.

They are also in the buffers, if there are some behind those of the operands.
"""


def host_functions(plan: Plan, text: bytes) -> list[HostFunction]:
    """Return what each host call of a plan runs; `text` is a module of their groups."""
    if all(call.kind != "run" for call in plan.hosts):
        return [_nothing] * len(plan.hosts)
    from lamina.targets.known import KNOWN
    from lamina.targets.module_text import module_of
    from lamina.targets.reference.interpreter import Program

    module = module_of(text, "the artifact's host calls")
    program = Program(KNOWN.meanings(), module)
    return [
        _host_function(program, call) if call.kind == "run" else _nothing for call in plan.hosts
    ]


def _nothing(symbols: Mapping[str, int], buffers: Sequence[Array]) -> Sequence[Array]:
    return ()


def _host_function(program: Program, call: HostCall) -> HostFunction:
    from lamina.targets.reference.interpreter import Interpreter, quiet

    name = call.name
    count = len(program.named[name].regions[0].block.args)

    def run(symbols: Mapping[str, int], buffers: Sequence[Array]) -> Sequence[Array]:
        interpreter = Interpreter(program, dict(symbols))
        with quiet():
            results = interpreter.call(name, buffers[:count])
        interpreter.finish()
        for buffer, result in zip(buffers[count:], results, strict=False):
            buffer[...] = result
        return results

    return run
