"""What every ONNX graph must be before it is imported: names, order, functions, branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from lamina.errors import FormatError
from lamina.frontend.shown import shown

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

BRANCHES: Final = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}
"""The graphs that an operator must have."""

_DEEPEST: Final = 64
_GRAPH, _GRAPHS = 5, 10
"""`AttributeProto.GRAPH` and `GRAPHS`."""


def check_model(model: ModelProto, where: str) -> None:
    """Raise `FormatError` naming node and field for a graph that no order of work can run."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    if len(functions) != len(model.functions):
        raise FormatError(f"{where}: two functions have one name")
    _check_recursion(functions, where)
    _Names(where).graph(model.graph, frozenset(), "", 0)
    for function in functions.values():
        known = _Names(where)
        scope = frozenset(function.input)
        known.nodes(function.node, scope, f"{function.name}/", 0)


def check_texts(model: ModelProto, where: str) -> None:
    """Raise `FormatError` naming the field for a text that is no UTF-8: it is read as bytes."""
    waiting: list[Any] = [model]
    while waiting:
        message = waiting.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            # Its data may be large, and to look at it is to copy it.
            _check_text(message.name, "name of a tensor", where)
            waiting.extend(message.external_data)
            continue
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                waiting.extend([value] if hasattr(value, "ListFields") else value)
            elif field.type == field.TYPE_STRING:
                for text in [value] if isinstance(value, str | bytes) else value:
                    _check_text(text, field.full_name.removeprefix("onnx."), where)


def _check_text(text: str | bytes, field: str, where: str) -> None:
    if not isinstance(text, str):
        raise FormatError(f"{where}: field {field}: expected text in UTF-8, got {shown(text)}")


class _Names:
    """Follows names through nested scopes."""

    def __init__(self, where: str) -> None:
        self._where = where

    def graph(self, graph: GraphProto, outer: frozenset[str], path: str, depth: int) -> None:
        """Check a graph whose nodes may also use the names of `outer`."""
        if depth > _DEEPEST:
            raise FormatError(f"{self._where}: {path}: graphs are nested more than {_DEEPEST} deep")
        inputs = [value.name for value in graph.input]
        self._once(inputs, path, "input")
        stored = [tensor.name for tensor in graph.initializer]
        stored += [tensor.values.name for tensor in graph.sparse_initializer]
        self._once(stored, path, "initializer")
        defined = self.nodes(graph.node, outer | {*inputs, *stored}, path, depth)
        for output in graph.output:
            if output.name not in defined:
                raise self._fault(path, f"output {shown(output.name)} is no value of the graph")

    def nodes(self, nodes: Any, outer: frozenset[str], path: str, depth: int) -> frozenset[str]:
        """Check nodes in turn; return all the names that are known after them."""
        known, own = set(outer), set[str]()
        later = {name: i for i, node in enumerate(nodes) for name in node.output}
        for i, node in enumerate(nodes):
            label = node_label(node, path)
            for name in node.input:
                if name and name not in known:
                    if later.get(name, -1) >= i:
                        what = f"input {shown(name)} comes from a later node, or from itself"
                        raise self._fault(
                            label, f"{what}: the graph has a cycle or is not in order"
                        )
                    raise self._fault(label, f"input {shown(name)} is not defined")
            self._inner(node, frozenset(known), label, depth)
            for name in node.output:
                if name and (name in own or name in outer):
                    raise self._fault(label, f"output {shown(name)} is defined twice")
                if name:
                    own.add(name)
                    known.add(name)
        return frozenset(known)

    def _inner(self, node: NodeProto, known: frozenset[str], label: str, depth: int) -> None:
        attributes = {each.name: each for each in node.attribute}
        if len(attributes) != len(node.attribute):
            raise self._fault(label, "two attributes have one name")
        for name in BRANCHES.get(node.op_type, ()) if node.domain in ("", "ai.onnx") else ():
            if name not in attributes or attributes[name].type != _GRAPH:
                raise self._fault(label, f"attribute {name} is missing, expected a graph")
        for each in node.attribute:
            if each.type == _GRAPH:
                self.graph(each.g, known, f"{label}/{each.name}/", depth + 1)
            elif each.type == _GRAPHS:
                for graph in each.graphs:
                    self.graph(graph, known, f"{label}/{each.name}/", depth + 1)

    def _once(self, names: list[str], path: str, what: str) -> None:
        seen = set[str]()
        for name in names:
            if name in seen:
                raise self._fault(path, f"{what} {shown(name)} appears twice")
            seen.add(name)

    def _fault(self, label: str, what: str) -> FormatError:
        return FormatError(f"{self._where}: {label or 'graph'}: {what}")


def node_label(node: NodeProto, path: str) -> str:
    """Return what a node is called in messages and sources: its name, or its first output."""
    named = node.name or next((name for name in node.output if name), "")
    return f"{path}{named or node.op_type}"


def graph_path(node: NodeProto, attribute: str, path: str) -> str:
    """Return what the names of a graph inside a node are distinguished by."""
    return f"{path}{next((name for name in node.output if name), '')}/{attribute}/"


def graphs_of(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the names of a node's attributes that are graphs, and the graphs."""
    for each in node.attribute:
        if each.type == _GRAPH:
            yield each.name, each.g
        elif each.type == _GRAPHS:
            yield from ((f"{each.name}.{i}", graph) for i, graph in enumerate(each.graphs))


def _check_recursion(functions: dict[tuple[str, str, str], FunctionProto], where: str) -> None:
    state: dict[tuple[str, str, str], bool] = {}

    def visit(key: tuple[str, str, str], chain: tuple[str, ...]) -> None:
        if state.get(key):
            return
        if key in state or len(chain) > _DEEPEST:
            called = " calls ".join((*chain, key[1]))
            raise FormatError(f"{where}: functions call themselves or too deep: {called}")
        state[key] = False
        for node in _all_nodes(functions[key].node):
            inner = (node.domain, node.op_type, node.overload)
            if inner in functions:
                visit(inner, (*chain, key[1]))
        state[key] = True

    for key in functions:
        visit(key, ())


def _all_nodes(nodes: Any) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for _, graph in graphs_of(node):
            yield from _all_nodes(graph.node)
