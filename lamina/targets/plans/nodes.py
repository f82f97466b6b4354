"""The source nodes that checks name, by number."""

from __future__ import annotations


class NodeTable:
    """The nodes that checks name, numbered from 1 in the order of their first use."""

    def __init__(self) -> None:
        """Begin with none."""
        self.names: list[str] = []

    def number(self, node: str) -> int:
        """Return the number of a node, entered if it is new."""
        if node not in self.names:
            self.names.append(node)
        return self.names.index(node) + 1
