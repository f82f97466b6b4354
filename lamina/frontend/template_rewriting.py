"""The syntax tree of a chat template, rewritten so that all it makes is counted and bounded."""

from typing import Any, Final, cast

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.visitor import NodeTransformer

COUNTED: Final = "_counted"
"""The filter that makes each item of a loop a step."""
BOUNDED: Final = "_bounded"
"""The filter that refuses a value whose text, repeats counted, is too long."""
JOINED: Final = "_joined"
"""The filter that joins texts."""
MADE: Final = "_made"
"""The filter that counts a value as made."""
LISTED: Final = "_listed"
"""The filter for what a call takes apart into arguments."""


class BoundsRewriter(NodeTransformer):
    """Puts filters around what neither an operator nor a call of the environment makes.

    Those are items of loops, operands of comparisons, keys of dicts (comparing and hashing go
    into what a value holds), `~`, displays of lists, tuples and dicts, slices, and starred
    arguments.
    """

    def visit_For(self, node: nodes.For) -> nodes.Node:
        """Count the items of a loop; refuse a recursive one."""
        if node.recursive:
            raise SecurityError("it has a recursive loop")
        self.generic_visit(node)
        node.iter = filtered(node.iter, COUNTED)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        """Bound both sides of a comparison."""
        self.generic_visit(node)
        node.expr = filtered(node.expr, BOUNDED)
        for operand in node.ops:
            operand.expr = filtered(operand.expr, BOUNDED)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """Join by the sandbox's own function."""
        self.generic_visit(node)
        return filtered(nodes.List(node.nodes, lineno=node.lineno), JOINED)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        """Count what a list display makes."""
        self.generic_visit(node)
        return filtered(node, MADE)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        """Count what a tuple display makes; names to assign to are none."""
        self.generic_visit(node)
        return filtered(node, MADE) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        """Count what a dict display makes, and bound its keys."""
        self.generic_visit(node)
        for pair in node.items:
            pair.key = filtered(pair.key, BOUNDED)
        return filtered(node, MADE)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        """Count a slice, and bound a key."""
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            return filtered(node, MADE)
        if not isinstance(node.arg, nodes.Const):
            node.arg = filtered(node.arg, BOUNDED)
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        """Bound what is taken apart into arguments."""
        return self._arguments(node)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        """Bound what is taken apart into arguments."""
        return self._arguments(node)

    def visit_Test(self, node: nodes.Test) -> nodes.Node:
        """Bound what is taken apart into arguments."""
        return self._arguments(node)

    def _arguments(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        for part in ("dyn_args", "dyn_kwargs"):
            if getattr(node, part) is not None:
                setattr(node, part, filtered(getattr(node, part), LISTED))
        return node


def filtered(node: nodes.Node, name: str) -> nodes.Filter:
    """Return `node` with a filter applied."""
    expression = cast(nodes.Expr, node)
    return nodes.Filter(expression, name, [], [], None, None, lineno=node.lineno)
