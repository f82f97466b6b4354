"""What a node of an ONNX graph means whose form its inputs' values decide.

At every run the node is imported for the values that it is given, and the graph that it becomes is
run by the meanings of its operations; loops go round in Python. It is correct, and slow.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from lamina.dialects import nn
from lamina.errors import InputError, UnsupportedError
from lamina.frontend.onnx.checks import node_label
from lamina.frontend.onnx.foreign import ONNX, captured, model_of_graph, model_of_payload
from lamina.frontend.onnx.hosted import HOSTED, TRAINING, Call
from lamina.frontend.onnx.importer import Importer
from lamina.frontend.onnx.kinds import KINDS, STRING, Kind, kind_of_array
from lamina.frontend.onnx.model_file import OnnxFile, open_onnx
from lamina.targets.known import KNOWN
from lamina.targets.reference.interpreter import Interpreter, Meaning, Program, bind
from lamina.targets.reference.prepare import array_of
from lamina.targets.signature import arguments_of, forward_of, texts_of
from lamina.targets.text_table import TEXT_TABLE

if TYPE_CHECKING:
    from onnx import ModelProto

Array = npt.NDArray[Any]

_MOST_ROUNDS = 1 << 31


def _foreign(run: Interpreter, op: nn.ForeignOp, args: tuple[Any, ...]) -> Sequence[Array]:
    if not op.kind.data.startswith(ONNX):
        raise UnsupportedError(f"{op.kind.data}: there is no such node")
    runner = _runner(op.payload.data)
    results = runner.run([np.asarray(x) for x in args])
    run.learn(bind([y.type for y in op.ys], results, run.extents))
    return results


@lru_cache(maxsize=128)
def _runner(payload: str) -> GraphRunner:
    return GraphRunner(model_of_payload(payload))


class GraphRunner:
    """Runs a small model on arrays, its graph imported anew at every run."""

    def __init__(self, model: ModelProto) -> None:
        """Take a model whose inputs need no shapes."""
        self._file = open_onnx(model, "node")
        self._kinds = {v.name: KINDS[v.type.tensor_type.elem_type] for v in model.graph.input}
        self._node = node = model.graph.node[0]
        name = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        alone = len(model.graph.node) == 1 and not model.functions
        self._hosted = (HOSTED | TRAINING).get(name) if alone else None
        self._loop = _Loop.of(model)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the outputs for inputs in order."""
        named = dict(zip(self._kinds, arrays, strict=True))
        if self._loop is not None:
            return self._loop.run(named)
        if self._hosted is not None:
            call = Call.of(self._node, _decoded(named, self._kinds), self._kinds)
            try:
                found = self._hosted(call)
            except InputError as error:
                raise InputError(f"node {node_label(self._node, '')!r}: {error}") from error
            return [TEXT_TABLE.encode(y) if y.dtype == object else y for y in found]
        return _imported(self._file, self._kinds, named)


def _imported(
    file: OnnxFile, kinds: Mapping[str, Kind], arrays: Mapping[str, Array]
) -> list[Array]:
    seen = _decoded(arrays, kinds)
    module = Importer(file).module({name: (seen[name], kind) for name, kind in kinds.items()})
    forward = forward_of(module)
    given: list[Array] = []
    for names, _ in arguments_of(forward):
        if "lamina.input" in names:
            given.append(arrays[names["lamina.input"]])
        else:
            given.append(array_of(file.weights[names["lamina.weight"]]))
    interpreter = Interpreter(Program(KNOWN.meanings(), module))
    with _known(texts_of(forward)):
        found = interpreter.call("forward", given)
    interpreter.finish()
    return [np.asarray(each) for each in found]


def _decoded(arrays: Mapping[str, Array], kinds: Mapping[str, Kind]) -> dict[str, Array]:
    """Return arrays in which texts are objects of str."""
    return {
        name: TEXT_TABLE.decode(x) if name in kinds and kinds[name].is_text else x
        for name, x in arrays.items()
    }


@contextmanager
def _known(texts: Sequence[str] | None) -> Generator[None]:
    """Have the table know the texts of a graph while it runs."""
    if texts is None:
        yield
        return
    with TEXT_TABLE.call():
        TEXT_TABLE.encode(np.array(texts, np.object_))
        yield


class _Loop:
    """A Loop or a Scan: its body is a runner, called for each round."""

    def __init__(self, model: ModelProto) -> None:
        self._node = node = model.graph.node[0]
        self._attributes = {each.name: each for each in node.attribute}
        body = self._attributes["body"].g
        self._inputs = [value.name for value in body.input]
        self._outer = [n for n in captured(node) if n]
        self._opsets = {each.domain: each.version for each in model.opset_import}
        self._functions = list(model.functions)
        self._body = body
        self._kinds = {v.name: KINDS[v.type.tensor_type.elem_type] for v in model.graph.input}
        declared = {v.name: v.type.tensor_type.elem_type for v in body.input}
        self._texts = {name: STRING for name, kind in declared.items() if kind == STRING.number}
        self._runners: dict[tuple[int, ...], GraphRunner] = {}

    @staticmethod
    def of(model: ModelProto) -> _Loop | None:
        """Return the loop that a model of one node is, if it is one."""
        nodes = list(model.graph.node)
        if len(nodes) != 1 or nodes[0].domain not in ("", "ai.onnx"):
            return None
        return _Loop(model) if nodes[0].op_type in ("Loop", "Scan") else None

    def run(self, arrays: Mapping[str, Array]) -> list[Array]:
        """Return the outputs of all rounds."""
        given = [arrays[name] if name else None for name in self._node.input]
        outer = {name: arrays[name] for name in self._outer}
        return (
            self._rounds(given, outer) if self._node.op_type == "Loop" else self._scan(given, outer)
        )

    def _rounds(self, given: list[Array | None], outer: Mapping[str, Array]) -> list[Array]:
        most = given[0] if given else None
        count = _MOST_ROUNDS if most is None else int(most.reshape(()))
        first = given[1] if len(given) > 1 else None
        going = True if first is None else bool(first.reshape(()))
        states = [_present(x) for x in given[2:]]
        width = len(states)
        rows: list[list[Array]] = [[] for _ in range(len(self._body.output) - 1 - width)]
        n = 0
        while n < count and going:
            found = self._call([np.array(n, np.int64), np.array(going), *states], outer)
            going, states = bool(found[0].reshape(())), found[1 : 1 + width]
            for row, value in zip(rows, found[1 + width :], strict=True):
                row.append(value)
            n += 1
        return [*states, *(_stacked(row, 0) for row in rows)]

    def _scan(self, given: list[Array | None], outer: Mapping[str, Array]) -> list[Array]:
        scanned = int(self._attributes["num_scan_inputs"].i)
        values = [_present(x) for x in given]
        width = len(values) - scanned
        states, xs = values[:width], values[width:]
        outputs = len(self._body.output) - width
        in_axes = self._ints("scan_input_axes", scanned)
        out_axes = self._ints("scan_output_axes", outputs)
        back = self._ints("scan_input_directions", scanned)
        front = self._ints("scan_output_directions", outputs)
        length = xs[0].shape[in_axes[0]]
        rows: list[list[Array]] = [[] for _ in range(outputs)]
        for n in range(length):
            parts = [
                np.take(x, length - 1 - n if turned else n, axis)
                for x, axis, turned in zip(xs, in_axes, back, strict=True)
            ]
            found = self._call([*states, *parts], outer)
            states = found[:width]
            for row, value, turned in zip(rows, found[width:], front, strict=True):
                row.insert(0, value) if turned else row.append(value)
        stacked = [_stacked(row, axis) for row, axis in zip(rows, out_axes, strict=True)]
        return [*states, *stacked]

    def _ints(self, name: str, count: int) -> list[int]:
        found = self._attributes.get(name)
        return list(found.ints) if found is not None else [0] * count

    def _call(self, values: Sequence[Array], outer: Mapping[str, Array]) -> list[Array]:
        named = {**dict(zip(self._inputs, values, strict=True)), **outer}
        kinds = {name: self._kind(name, x) for name, x in named.items()}
        key = tuple(kind.number for kind in kinds.values())
        if key not in self._runners:
            graph = type(self._body)()
            graph.CopyFrom(self._body)
            outputs = [value.name for value in self._body.output]
            model = model_of_graph(graph, kinds, outputs, self._opsets, self._functions)
            self._runners[key] = GraphRunner(model)
        return self._runners[key].run(list(named.values()))

    def _kind(self, name: str, array: Array) -> Kind:
        """Return the element type of what the body sees under a name."""
        return self._kinds.get(name) or self._texts.get(name) or kind_of_array(array)


def _present(array: Array | None) -> Array:
    if array is None:
        raise InputError("a loop lacks the first value of a state")
    return array


def _stacked(row: Sequence[Array], axis: int) -> Array:
    return np.stack(row, axis) if row else np.zeros((0,), np.float32)


MEANINGS: dict[type[Operation], Meaning] = {nn.ForeignOp: _foreign}
