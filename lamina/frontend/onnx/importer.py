"""From an ONNX graph to `@forward`: node after node, each by the converter of its operator set."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from lamina.dialects.dims import FUNCTIONS, Dim
from lamina.errors import FormatError, LaminaError, UnsupportedError
from lamina.frontend.graph import Graph
from lamina.frontend.model import MOST_READ
from lamina.frontend.onnx import converters as _converters
from lamina.frontend.onnx.checks import graph_path, node_label
from lamina.frontend.onnx.converters.by_value import BY_VALUE
from lamina.frontend.onnx.emit import Emit, element_of, is_bound
from lamina.frontend.onnx.folding import fold
from lamina.frontend.onnx.foreign import captured, foreign
from lamina.frontend.onnx.hosted import HOSTED
from lamina.frontend.onnx.kinds import KINDS, Kind
from lamina.frontend.onnx.known import KNOWN
from lamina.frontend.onnx.legacy import BROADCASTS, align_operand
from lamina.frontend.onnx.model_file import OnnxFile, function_path
from lamina.frontend.onnx.node import NeedsValueError, Node
from lamina.frontend.onnx.registry import CONVERTERS, Converter, converter_of
from lamina.frontend.onnx.standard import standard_defaults, standard_function
from lamina.frontend.onnx.text_operands import check_text_operands
from lamina.frontend.onnx.values import HIGHEST_RANK, Array, Known, Several, Tensor, Value
from lamina.frontend.shown import shown

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, ValueInfoProto

_converters.load()

_FAULTS: Final = (
    VerifyException, AssertionError, AttributeError, IndexError, KeyError, OverflowError, TypeError,
    ValueError, ZeroDivisionError,
)  # fmt: skip
"""What a converter may meet in a graph whose parts do not fit together."""

_HUGE: Final = 1 << 40

Converters = Mapping[tuple[str, str], Sequence[tuple[int, Converter]]]


@dataclass
class Scope:
    """The names of one graph, and those around it; `path` tells its tensors from others'."""

    path: str
    opsets: Mapping[str, int]
    outer: Scope | None = None
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict[str, Any])

    def find(self, name: str) -> Value:
        """Return what a name stands for; an empty one for nothing."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None


def import_onnx(file: OnnxFile, extra: Converters | None = None) -> ModuleOp:
    """Return the plain graph of a model.

    Inputs and outputs have the names of the file; extents without a number are symbols. `extra`
    are converters that come before those of the box. Raises `FormatError` or `UnsupportedError`
    naming the node.
    """
    aliases: dict[str, Dim] = {}
    while True:
        importer = Importer(file, extra, aliases)
        module = importer.module()
        found = _aliases(importer.graph.assumed, aliases)
        if not found:
            return module
        # Symbols that have to be equal are one, so that every type says so.
        aliases = {name: dim.substitute(found) for name, dim in aliases.items()} | found


class Importer:
    """One import: the graph that is being built, and how nodes get there."""

    def __init__(
        self,
        file: OnnxFile,
        extra: Converters | None = None,
        aliases: Mapping[str, Dim] | None = None,
    ) -> None:
        """Begin the graph of a file; `aliases` are what symbols of its inputs stand for."""
        self.file = file
        self._aliases = dict(aliases or {})
        self.graph = Graph(file.weights)
        self.emit = Emit(self.graph, file.where)
        self._tables: list[Converters] = [*([extra] if extra else []), *KNOWN.tables()]
        self._functions = {(f.domain, f.name): f for f in file.proto.functions}
        self._ranks = _declared(file.proto.graph)

    def module(self, given: Mapping[str, tuple[npt.NDArray[Any], Kind]] | None = None) -> ModuleOp:
        """Return the module of the whole model; for `given` inputs, which are no longer any.

        Of those, large ones stay inputs, of the shape that they have.
        """
        main = self.file.proto.graph
        scope = Scope("", self.file.opsets)
        self._constants(main, scope)
        for value in main.input:
            if given is not None and value.name in given:
                scope.values[value.name] = self._given(value.name, *given[value.name])
            elif value.name not in scope.values:
                scope.values[value.name] = self._input(value)
        self.nodes(main.node, scope)
        for value in main.output:
            found = scope.find(value.name)
            self._output(value, found)
        return self.graph.finish(lambda _: True)

    # Graphs

    def run(
        self, graph: GraphProto, path: str, outer: Scope, inputs: Sequence[Value]
    ) -> list[Value]:
        """Import a graph inside a node for given inputs; return its outputs."""
        scope = Scope(path, outer.opsets, outer, attributes=outer.attributes)
        self._constants(graph, scope)
        names = [value.name for value in graph.input]
        scope.values |= dict(zip(names, inputs, strict=False))
        self.nodes(graph.node, scope)
        return [scope.find(value.name) for value in graph.output]

    def nodes(self, nodes: Iterable[NodeProto], scope: Scope) -> None:
        """Import nodes in turn; their outputs become names of the scope."""
        for proto in nodes:
            outputs = self._node(proto, scope)
            named = zip(proto.output, outputs, strict=False)
            scope.values |= {name: value for name, value in named if name}

    def _constants(self, graph: GraphProto, scope: Scope) -> None:
        for tensor in graph.initializer:
            scope.values[tensor.name] = self.file.constants[f"{scope.path}{tensor.name}"]

    # Nodes

    def _node(self, proto: NodeProto, scope: Scope) -> Sequence[Value]:
        label = node_label(proto, scope.path)
        inputs = [scope.find(name) for name in proto.input]
        proto = self._resolved(proto, scope)
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        with self.graph.at(f"/{label.removeprefix('/')}"):
            try:
                found = self._converted(proto, domain, inputs, label, scope)
                for value in found:
                    _check_extents(value)
                return found
            except LaminaError:
                raise
            except _FAULTS as error:
                what = str(error).splitlines()[0] if str(error) else type(error).__name__
                where = f"{self.file.where}: node {label!r} ({proto.op_type})"
                raise FormatError(f"{where}: its parts do not fit together: {what}") from error

    def _converted(
        self, proto: NodeProto, domain: str, inputs: list[Value], label: str, scope: Scope
    ) -> Sequence[Value]:
        stored = f"{scope.path}{next(iter(proto.output), '')}"
        if (domain, proto.op_type) == ("", "Constant") and stored in self.file.constants:
            return [self.file.constants[stored]]
        node = Node(self.emit, proto, inputs, scope.opsets.get(domain, 0), label)
        check_text_operands(node)
        if domain == "" and node.version < BROADCASTS:
            align_operand(node)
        if domain == "" and (folded := fold(node)) is not None:
            return folded
        convert = self._converter(proto, domain, node.version)
        if convert is not None:
            node.graphs = lambda name, values: self._branch(proto, name, values, scope)
            node.graph_inside = lambda name, block, guard: self._inside(
                proto, name, block, guard, scope
            )
            try:
                with self.graph.attempt():
                    return _outputs(convert(node))
            except NeedsValueError as error:
                return self._by_value(node, proto, error, scope)
        if _qualified(domain, proto.op_type) in HOSTED:
            return self._foreign(proto, node.refuse("a rank that is not known"), scope)
        body = self._functions.get((proto.domain, proto.op_type))
        body = body or standard_function(proto, domain, node.version, inputs)
        if body is not None:
            return self._function(body, proto, inputs, scope)
        known = domain in scope.opsets or domain == ""
        raise UnsupportedError(
            f"{node.where}: the operator {_qualified(domain, proto.op_type)} of operator set "
            f"{node.version if known else 'none'} is not supported"
        )

    def _converter(self, proto: NodeProto, domain: str, version: int) -> Converter | None:
        """Return what converts an operator, unless the file defines it itself."""
        tables = self._tables
        if (proto.domain, proto.op_type) in self._functions:
            tables = [table for table in tables if table is not CONVERTERS]
        found = (converter_of(table, domain, proto.op_type, version) for table in tables)
        return next((each for each in found if each is not None), None)

    def _by_value(
        self, node: Node, proto: NodeProto, reason: NeedsValueError, scope: Scope
    ) -> Sequence[Value]:
        """Import a node whose form its inputs decide as it runs."""
        convert = BY_VALUE.get(proto.op_type) if proto.domain in ("", "ai.onnx") else None
        if convert is not None:
            try:
                with self.graph.attempt():
                    return _outputs(convert(node))
            except NeedsValueError:
                pass
        return self._foreign(proto, reason, scope)

    def _foreign(self, proto: NodeProto, reason: UnsupportedError, scope: Scope) -> list[Value]:
        """Keep a node that cannot be imported before its inputs are known."""
        values = {name: scope.find(name) for name in [*proto.input, *captured(proto)]}
        functions = list(self._functions.values())
        ranks = self._ranks if scope.outer is None and not scope.path else {}
        if isinstance(reason, NeedsValueError):
            learned = zip(proto.output, reason.outputs, strict=False)
            ranks = {name: each for name, each in learned if each is not None} | ranks
        return foreign(
            self.emit,
            proto,
            values,
            scope.opsets,
            functions,
            reason,
            self.graph.fresh_symbols,
            ranks,
        )

    def _branch(
        self, proto: NodeProto, name: str, values: Sequence[Value], scope: Scope
    ) -> list[Value]:
        graph = next(each.g for each in proto.attribute if each.name == name)
        return self.run(graph, graph_path(proto, name, scope.path), scope, values)

    def _inside(
        self, proto: NodeProto, name: str, block: Block, guard: Dim, scope: Scope
    ) -> list[Value]:
        try:
            with self.graph.inside(block, guard):
                return self._branch(proto, name, [], scope)
        except FormatError as error:
            # A branch that is never taken may be at odds with what is known.
            raise NeedsValueError(str(error), 0) from None

    def _function(
        self, function: FunctionProto, proto: NodeProto, inputs: Sequence[Value], outer: Scope
    ) -> list[Value]:
        opsets = {
            "" if each.domain == "ai.onnx" else each.domain: each.version
            for each in function.opset_import
        }
        given = {each.name: each for each in proto.attribute}
        defaults = {each.name: each for each in function.attribute_proto}
        if function.name == proto.op_type and (proto.domain, proto.op_type) not in self._functions:
            defaults |= standard_defaults(proto, outer.opsets)
        path = function_path(function.domain, function.name)
        scope = Scope(path, {**outer.opsets, **opsets}, None, attributes={**defaults, **given})
        scope.values |= dict(
            zip(function.input, [*inputs, *[None] * len(function.input)], strict=False)
        )
        self.nodes(function.node, scope)
        return [scope.find(name) for name in function.output]

    def _resolved(self, proto: NodeProto, scope: Scope) -> NodeProto:
        """Return a node whose attributes that refer to those of its function have their values."""
        if not any(each.ref_attr_name for each in proto.attribute):
            return proto
        copy = type(proto)()
        copy.CopyFrom(proto)
        del copy.attribute[:]
        for each in proto.attribute:
            if not each.ref_attr_name:
                copy.attribute.append(each)
            elif each.ref_attr_name in scope.attributes:
                copy.attribute.append(scope.attributes[each.ref_attr_name])
                copy.attribute[-1].name = each.name
        return copy

    # Inputs and outputs

    def _input(self, value: ValueInfoProto) -> Tensor:
        where = f"{self.file.where}: input {value.name!r}"
        if value.type.WhichOneof("value") != "tensor_type":
            raise UnsupportedError(f"{where}: only tensors can be inputs")
        tensor = value.type.tensor_type
        if tensor.elem_type not in KINDS:
            raise FormatError(f"{where}: element type {tensor.elem_type} is not known")
        kind = KINDS[tensor.elem_type]
        if not tensor.HasField("shape"):
            raise UnsupportedError(f"{where}: its rank is not said, and has to be")
        if len(tensor.shape.dim) > HIGHEST_RANK:
            raise UnsupportedError(f"{where}: its rank is above {HIGHEST_RANK}")
        dims = [self._dim(value.name, i, dim) for i, dim in enumerate(tensor.shape.dim)]
        found = self.graph.input(value.name, element_of(kind), dims, text=kind.is_text)
        return Tensor(found, kind)

    def _given(self, name: str, array: npt.NDArray[Any], kind: Kind) -> Array:
        if array.size <= MOST_READ:
            return Known(array, kind)
        return Tensor(self.graph.input(name, element_of(kind), array.shape), kind)

    def _dim(self, name: str, axis: int, dim: Any) -> Dim:
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
            if dim.dim_value > _HUGE:
                raise FormatError(
                    f"{self.file.where}: input {name!r}: extent {dim.dim_value} is too large"
                )
            return Dim.of(int(dim.dim_value))
        named = dim.WhichOneof("value") == "dim_param" and dim.dim_param.strip("?-0123456789")
        symbol = _symbol(dim.dim_param if named else f"{name}_{axis}")
        return self._aliases.get(symbol, Dim.symbol(symbol))

    def _output(self, value: ValueInfoProto, found: Value) -> None:
        where = f"{self.file.where}: output {value.name!r}"
        if found is None or isinstance(found, Several):
            raise UnsupportedError(f"{where}: only tensors can be outputs")
        with self.graph.at(f"/{value.name}"):
            tensor = self.emit.tensor(found)
        self._compare(value, tensor)
        self.graph.output(value.name, tensor.value, text=tensor.kind.is_text)

    def _compare(self, value: ValueInfoProto, found: Tensor) -> None:
        """Warn where a declared output has another form than what the graph computes."""
        declared = value.type.tensor_type
        if not declared.HasField("shape"):
            return
        dims = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
        own = [n.constant for n in found.shape]
        differ = len(dims) != len(own) or any(
            a is not None and a > 0 and b is not None and a != b
            for a, b in zip(dims, own, strict=True)
        )
        if differ:
            shape = ", ".join(str(n) for n in found.shape)
            warnings.warn(
                f"{self.file.where}: output {value.name!r} is declared with another shape than "
                f"the graph gives it: [{shape}]",
                stacklevel=2,
            )


def _aliases(assumed: Iterable[tuple[Dim, Dim]], known: Mapping[str, Dim]) -> dict[str, Dim]:
    """Return what symbols of inputs have to stand for, so that extents are equal."""
    found: dict[str, Dim] = {}
    for pair in assumed:
        a, b = (dim.substitute(found) for dim in pair)
        for one, other in ((a, b), (b, a)):
            name = str(one)
            free = one == Dim.symbol(name) and name not in known and not is_bound(name)
            if free and name not in other.symbols and not any(map(is_bound, other.symbols)):
                found = {key: dim.substitute({name: other}) for key, dim in found.items()}
                found[name] = other
                break
    return found


def _declared(graph: GraphProto) -> dict[str, tuple[Kind, int]]:
    """Return the element types and ranks that a graph declares for its values."""
    found: dict[str, tuple[Kind, int]] = {}
    for value in [*graph.value_info, *graph.output]:
        kind = value.type.tensor_type
        if (
            value.type.HasField("tensor_type")
            and kind.HasField("shape")
            and kind.elem_type in KINDS
        ):
            found[value.name] = KINDS[kind.elem_type], len(kind.shape.dim)
    return found


def _check_extents(value: Value) -> None:
    if isinstance(value, Tensor):
        if len(value.shape) > HIGHEST_RANK:
            raise ValueError(f"a rank of {len(value.shape)}, expected at most {HIGHEST_RANK}")
        for n in value.shape:
            if n.constant is not None and n.constant < 0:
                raise ValueError(f"an extent becomes {n}")


def _outputs(result: Value | Sequence[Value]) -> Sequence[Value]:
    single = result is None or isinstance(result, Array | Several)
    return [result] if single else result  # pyright: ignore[reportReturnType]


def _symbol(name: str) -> str:
    """Return the nearest to a name that an extent may be called."""
    plain = re.sub(r"[^A-Za-z0-9_.]", "_", name, flags=re.ASCII)
    if not re.match(r"[A-Za-z_]", plain) or plain in FUNCTIONS:
        return f"_{plain}"
    return f"{plain}_" if is_bound(plain) else plain


def _qualified(domain: str, op: str) -> str:
    return f"{shown(domain)[1:-1]}.{op}" if domain else op
