"""What is said of groups that have no kernel and run on the host: a warning each, or an error."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Final, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp

from lamina.dialects import nn
from lamina.errors import InputError, UnsupportedError
from lamina.passes.groups import body_ops
from lamina.passes.rewriting import SOURCE

FALLBACKS: Final = ("host", "error")
"""What becomes of a group without a kernel: it runs on the host, or it is refused."""

_MOST_NODES: Final = 8


def check_fallback(fallback: str, where: str) -> None:
    """Raise InputError, saying `where`, unless `fallback` is one of FALLBACKS."""
    if fallback not in FALLBACKS:
        known = " or ".join(FALLBACKS)
        raise InputError(f"{where}: fallback is {fallback!r}, expected {known}")


def say_hosted(
    function: FuncOp, groups: Mapping[str, nn.GroupOp], reasons: Mapping[str, str], fallback: str
) -> None:
    """Warn of each group that runs on the host; UnsupportedError names all of them for `error`."""
    called = {name: f"{_operations(groups[name])}" for name in reasons}
    if fallback == "host":
        for name, reason in reasons.items():
            said = f"{called[name]} runs by its NumPy meaning, slowly: {reason}"
            warnings.warn(said, stacklevel=3)
    elif reasons:
        said = (f"{called[name]}{_nodes(function, name)}: {why}" for name, why in reasons.items())
        raise UnsupportedError(
            f"with fallback=error nothing may run on the host: {'; '.join(said)}"
        )


def _operations(group: nn.GroupOp) -> str:
    names = (op.kind.data if isinstance(op, nn.ForeignOp) else op.name for op in body_ops(group))
    return ", ".join(dict.fromkeys(names))


def _nodes(function: FuncOp, name: str) -> str:
    """Return the nodes of the source that calls of a group came from, as a phrase."""
    found: dict[str, None] = {}
    for op in function.walk():
        if isinstance(op, nn.CallOp) and op.callee.string_value() == name:
            nodes = op.attributes.get(SOURCE)
            if isinstance(nodes, ArrayAttr):
                texts = cast("ArrayAttr[StringAttr]", nodes)
                found |= dict.fromkeys(node.data for node in texts)
    listed = [*list(found)[:_MOST_NODES], *(["…"] if len(found) > _MOST_NODES else [])]
    return f" (from node {', '.join(listed)})" if listed else ""
