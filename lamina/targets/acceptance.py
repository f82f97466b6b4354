"""Whether a target has a rule for everything that is left in a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from lamina.dialects.plan import HostOp
from lamina.errors import LoweringError
from lamina.targets.base import Target
from lamina.targets.signature import forward_of

PREPARE = "prepare"
"""The function on weights alone: it is run by the operations' meanings, whatever the target."""


def check_accepted(module: ModuleOp, target: Target) -> None:
    """Raise a `LoweringError` that names the first operation `target` has no rule for.

    Where there is no `@forward`, that is what is wrong: passes leave other functions as they are.
    """
    accepts = target.accepts
    for op in _for_target(module):
        if op.name not in accepts:
            forward_of(module)
            raise LoweringError(f"{target.name} has no rule for {op.name}{_origin(op)}")


def _for_target(module: ModuleOp) -> Iterator[Operation]:
    walked = list(module.walk())
    hosted = {op.callee.string_value() for op in walked if isinstance(op, HostOp)}
    skipped = hosted | {PREPARE}
    yield module
    for op in module.ops:
        name = op.get_attr_or_prop("sym_name")
        if getattr(name, "data", None) not in skipped:
            yield from op.walk()


def _origin(op: Operation | None) -> str:
    while op is not None:
        names = op.attributes.get("lamina.src")
        if isinstance(names, ArrayAttr):
            listed = [n.data for n in cast("ArrayAttr[StringAttr]", names)]
            return f" (from node {', '.join(listed)})" if listed else ""
        op = op.parent_op()
    return ""
