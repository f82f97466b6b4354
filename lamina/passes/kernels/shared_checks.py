"""Which node a check names, where groups that differ in nothing else share a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation

from lamina.dialects import nn

NODES: Final = "lamina.nodes"
"""The attribute of an operation that names the nodes which share its kernel."""

WHICH: Final = "lamina.node"
"""The symbol that says which of them a call is of."""

SHARED: Final = (
    nn.GatherElementsOp,
    nn.GatherNdOp,
    nn.GatherOp,
    nn.ScatterElementsOp,
    nn.ScatterNdOp,
)
"""Operations that refuse an index by the name of their node, which may be one of several."""

_MOST: Final = 24
"""How many nodes share a kernel: each takes a check of its own."""

Nodes = tuple[str, ...]
"""The node of each such operation of a group."""


@dataclass
class SharedChecks:
    """The nodes of the groups of one kernel, but for their names; those of each `_MOST` apart."""

    rounds: list[list[Nodes]] = field(default_factory=lambda: [[]])

    def place(self, nodes: Nodes) -> tuple[int, int]:
        """Return the round that `nodes` are in, and their place in it; they are added if new."""
        for i, known in enumerate(self.rounds):
            if nodes in known:
                return i, known.index(nodes)
        if len(self.rounds[-1]) == _MOST:
            self.rounds.append([])
        self.rounds[-1].append(nodes)
        return len(self.rounds) - 1, len(self.rounds[-1]) - 1


def nodes_of(group: nn.GroupOp) -> Nodes:
    """Return what the checks of a group's operations name."""
    return tuple(source_of(op) for op in group.body.block.ops if isinstance(op, SHARED))


def name_nodes(group: nn.GroupOp, nodes: Sequence[Nodes]) -> nn.GroupOp:
    """Return a group whose operations name those of all groups `nodes`, by the symbol `WHICH`."""
    if len(nodes) < 2:
        return group
    new = group.clone()
    shared = [op for op in new.body.block.ops if isinstance(op, SHARED)]
    for op, names in zip(shared, zip(*nodes, strict=True), strict=True):
        op.attributes[NODES] = ArrayAttr([StringAttr(name) for name in names])
    return new


def sources_of(op: Operation) -> Nodes:
    """Return the nodes that checks of an operation name: one, or by `WHICH` one of several."""
    match op.attributes.get(NODES):
        case ArrayAttr(data=names):
            return tuple(name.data for name in names if isinstance(name, StringAttr))
        case _:
            return (source_of(op),)


def source_of(op: Operation) -> str:
    """Return the first node that an operation came from, or the operation's name."""
    match op.attributes.get("lamina.src"):
        case ArrayAttr(data=(StringAttr(data=text), *_)):
            return text
        case _:
            return op.name
