"""Reads a whole ONNX graph and keeps every refusal, where an import ends at the first."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lamina.errors import FormatError, LaminaError, UnsupportedError
from lamina.frontend.examination import (
    BY_MEANING,
    COMPILED,
    REFUSED,
    STATES,
    UNCHECKED,
    Examination,
    Finding,
)
from lamina.frontend.onnx.checks import graph_path, graphs_of, node_label
from lamina.frontend.onnx.foreign import captured
from lamina.frontend.onnx.hosted import HOSTED
from lamina.frontend.onnx.importer import Converters, Importer, Scope
from lamina.frontend.onnx.model_file import OnnxFile, read_onnx
from lamina.frontend.onnx.node import NeedsValueError
from lamina.frontend.onnx.registry import CONVERTERS
from lamina.frontend.onnx.values import Several, Value

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto
    from xdsl.ir import Block

    from lamina.dialects.dims import Dim

OP, OPSET, ATTR = "ONNX-OP", "ONNX-OPSET", "ONNX-ATTR"
TYPE, RANK, VALUE = "ONNX-TYPE", "ONNX-RANK", "ONNX-VALUE"
FORM, FORMAT = "ONNX-FORM", "ONNX-FORMAT"

SUGGESTIONS: Final[Mapping[str, str]] = {
    OP: "give it a converter in a plugin (hook register_operators), or export without it",
    OPSET: "convert the model with onnx.version_converter, or import the domain it names",
    ATTR: "export the model with another value of the attribute",
    TYPE: "cast to float or int32 before the node, or export with another element type",
    RANK: "state the rank of the inputs, or reshape before the node",
    VALUE: "make the input an initializer, or fold constants before the export",
    FORM: "export the node in another form, or give it a converter in a plugin",
    FORMAT: "export the model anew: the file breaks the rules of its format",
}
"""Every code of a finding, and what a person may do about it."""

_ATTRIBUTE: Final = re.compile(r"\battribute \S+:")

_SENTENCES: Final = (
    (OPSET, re.compile(r"operator set")),
    (TYPE, re.compile(r"element type|strings|\b(of|from|to) (u?int|float|bfloat|double|bool)")),
    (ATTR, re.compile(r"attribute|_mode\b|policy|activation|saturate|g_idx|packed|Batch[AB]")),
    (RANK, re.compile(r"\brank\b|axes")),
)
"""What the sentence of a refusal is about, the first that fits."""

_REFUSED: Final = Several(())
"""Stands for the outputs of a node that was refused."""

_EXTENTS: Final = ("Shape", "Size")
"""What needs no converter, since extents are known."""

_Key = tuple[str, tuple[str, ...]]


class _HiddenError(LaminaError):
    """A graph inside a node has no outputs, since a node of it was refused."""


def examine(path: Path, extra: Converters | None = None) -> Examination:
    """Return all that is said of the model in `path`; nothing of it is refused by an error."""
    try:
        file = read_onnx(path)
    except LaminaError as error:
        return Examination((_finding(error, "", ""),))
    return examine_file(file, extra)


def examine_file(file: OnnxFile, extra: Converters | None = None) -> Examination:
    """Return all that is said of a model that was read."""
    examiner = Examiner(file, extra)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        examiner.examine()
    notes = dict.fromkeys(str(each.message) for each in said)
    nodes = Counter(examiner.states.values())
    return Examination(tuple(examiner.findings.values()), nodes, tuple(notes))


class Examiner(Importer):
    """An import that goes on behind every refusal."""

    def __init__(self, file: OnnxFile, extra: Converters | None = None) -> None:
        """Begin with a file."""
        super().__init__(file, extra)
        self.findings: dict[tuple[str, str], Finding] = {}
        self.states: dict[_Key, tuple[str, str]] = {}
        self._within = 0
        self._wrong: set[tuple[str, str]] = set()

    def examine(self) -> None:
        """Import all there is of the graph."""
        main, scope = self.file.proto.graph, Scope("", self.file.opsets)
        self._constants(main, scope)
        for value in main.input:
            if value.name not in scope.values:
                try:
                    scope.values[value.name] = self._input(value)
                except LaminaError as error:
                    self._say(error, value.name, "")
                    scope.values[value.name] = _REFUSED
        self.nodes(main.node, scope)
        for value in main.output:
            found = scope.find(value.name)
            if found is not _REFUSED:
                try:
                    self._output(value, found)
                except LaminaError as error:
                    self._say(error, value.name, "")

    def _node(self, proto: NodeProto, scope: Scope) -> Sequence[Value]:
        if self._within:
            return super()._node(proto, scope)
        used = [scope.find(name) for name in [*proto.input, *captured(proto)] if name]
        if any(value is _REFUSED for value in used):
            self._operators([proto], scope.path, scope.opsets, UNCHECKED)
            return [_REFUSED] * len(proto.output)
        try:
            found = super()._node(proto, scope)
        except _HiddenError:
            self._graphs(proto, scope.path, scope.opsets, UNCHECKED)
            self._mark(proto, scope.path, UNCHECKED)
        except LaminaError as error:
            self._graphs(proto, scope.path, scope.opsets, UNCHECKED)
            self._refuse(error, proto, scope.path, scope.opsets)
        else:
            hidden = any(value is _REFUSED for value in found)
            self._mark(proto, scope.path, UNCHECKED if hidden else COMPILED)
            return found
        return [_REFUSED] * len(proto.output)

    def _foreign(self, proto: NodeProto, reason: UnsupportedError, scope: Scope) -> list[Value]:
        found = super()._foreign(proto, reason, scope)
        if not self._within:
            self._operators([proto], scope.path, scope.opsets, BY_MEANING)
        return found

    def _branch(
        self, proto: NodeProto, name: str, values: Sequence[Value], scope: Scope
    ) -> list[Value]:
        found = super()._branch(proto, name, values, scope)
        if any(value is _REFUSED for value in found):
            raise _HiddenError
        return found

    def _inside(
        self, proto: NodeProto, name: str, block: Block, guard: Dim, scope: Scope
    ) -> list[Value]:
        before = dict(self.findings), dict(self.states)
        try:
            found = super()._inside(proto, name, block, guard, scope)
        except _HiddenError:
            found = None
        new = [key for key in self.findings if key not in before[0]]
        if new and new[0] in self._wrong:
            # As an import does: it keeps the node for the branch that is taken.
            self.findings, self.states = before
            raise NeedsValueError(new[0][1], 0)
        if new or found is None:
            raise _HiddenError
        return found

    def _function(
        self, function: FunctionProto, proto: NodeProto, inputs: Sequence[Value], outer: Scope
    ) -> list[Value]:
        # The body of an operator of the standard is no part of the file.
        standard = (proto.domain, proto.op_type) not in self._functions
        self._within += standard
        try:
            return super()._function(function, proto, inputs, outer)
        finally:
            self._within -= standard

    def _operators(
        self, nodes: Sequence[NodeProto], path: str, opsets: Mapping[str, int], state: str
    ) -> None:
        """Say of each node which is not imported that its operator is not known, if so."""
        for proto in nodes:
            if self._serves(proto, opsets):
                self._mark(proto, path, state)
            else:
                said = f"{self._where(proto, path)}: the operator {_name(proto)} is not supported"
                self._refuse(LaminaError(said), proto, path, opsets)
            self._graphs(proto, path, opsets, state)

    def _graphs(self, proto: NodeProto, path: str, opsets: Mapping[str, int], state: str) -> None:
        for name, graph in graphs_of(proto):
            self._operators(list(graph.node), graph_path(proto, name, path), opsets, state)

    def _serves(self, proto: NodeProto, opsets: Mapping[str, int]) -> bool:
        from onnx import defs

        domain = "" if proto.domain == "ai.onnx" else proto.domain
        version = opsets.get(domain, 0)
        known = self._converter(proto, domain, version) is not None
        if known or (proto.domain, proto.op_type) in self._functions:
            return True
        if _name(proto) in HOSTED or (domain == "" and proto.op_type in _EXTENTS):
            return True
        try:
            schema: Any = defs.get_schema(proto.op_type, version, domain)
        except defs.SchemaError:
            return False
        return bool(schema.has_function or schema.has_context_dependent_function)

    def _where(self, proto: NodeProto, path: str) -> str:
        return f"{self.file.where}: node {node_label(proto, path)!r} ({proto.op_type})"

    def _refuse(
        self, error: LaminaError, proto: NodeProto, path: str, opsets: Mapping[str, int]
    ) -> None:
        code = None if self._serves(proto, opsets) else _missing(proto)
        self._say(error, node_label(proto, path), _name(proto), code)
        self._mark(proto, path, REFUSED)

    def _say(self, error: LaminaError, node: str, operator: str, code: str | None = None) -> None:
        found = _finding(error, node, operator, code)
        key = found.code, found.message
        self.findings.setdefault(key, found)
        if isinstance(error, FormatError):
            self._wrong.add(key)

    def _mark(self, proto: NodeProto, path: str, state: str) -> None:
        """Note what becomes of a node; of one that is imported twice, the worse."""
        key = path, tuple(proto.output)
        before = self.states.get(key, ("", COMPILED))[1]
        worse = max(before, state, key=STATES.index)
        self.states[key] = _name(proto), worse


def _name(proto: NodeProto) -> str:
    domain = "" if proto.domain == "ai.onnx" else f"{proto.domain}."
    return f"{domain if proto.domain else ''}{proto.op_type}"


def _missing(proto: NodeProto) -> str:
    """Return the code of an operator that is not known: of no version, or not of the model's."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    return OPSET if (domain, proto.op_type) in CONVERTERS else OP


def _finding(error: LaminaError, node: str, operator: str, code: str | None = None) -> Finding:
    message = str(error)
    said = message.rpartition(f"{node!r}")[2] if node else message
    code = code or _code(error, said)
    return Finding(code, node, operator, message, _suggestion(code, operator))


def _code(error: LaminaError, said: str) -> str:
    if _ATTRIBUTE.search(said):
        return ATTR
    if isinstance(error, FormatError):
        return FORMAT
    if isinstance(error, NeedsValueError):
        return VALUE
    return next((code for code, about in _SENTENCES if about.search(said)), FORM)


def _suggestion(code: str, operator: str) -> str:
    domain, _, name = operator.rpartition(".")
    near = get_close_matches(name, [op for d, op in CONVERTERS if d == domain], 2, 0.8)
    if code == OP and near:
        return f"did you mean {' or '.join(near)}? Or {SUGGESTIONS[code]}"
    return SUGGESTIONS[code]
