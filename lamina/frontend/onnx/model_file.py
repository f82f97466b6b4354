"""An ONNX file: its graph, its operator sets, and its tensors as weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.model import MOST_READ, Weight, Weights
from lamina.frontend.onnx.checks import check_model, check_texts, graph_path, graphs_of, node_label
from lamina.frontend.onnx.kinds import INT64, Kind, kind_of_array
from lamina.frontend.onnx.tensors import TensorReader
from lamina.frontend.onnx.values import Known, Stored, codes_of

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

_OLDEST: Final = 1
_TENSOR: Final = 4
"""`AttributeProto.TENSOR`."""


@dataclass(frozen=True)
class OnnxFile:
    """A model as its file says it, checked; `stamp` tells it from every other.

    `constants` are its tensors by the path of their graph and their name.
    """

    where: str
    proto: ModelProto = field(repr=False)
    opsets: Mapping[str, int]
    weights: Weights = field(repr=False)
    constants: Mapping[str, Known | Stored] = field(repr=False)
    stamp: bytes


def read_onnx(path: Path) -> OnnxFile:
    """Return the model in `path`.

    Raises `FormatError` naming node and field for a file that breaks the format,
    `UnsupportedError` for an operator set that there is not, or where the package onnx is missing.
    """
    mapped = MappedFile(path)
    data = bytes(mapped.data)
    # Download caches keep folders of links to files of one other folder.
    return open_onnx(
        _parsed(data, str(path)),
        str(path),
        path.parent,
        sha256(data).digest(),
        path.resolve().parent,
        mapped,
    )


def open_onnx(
    proto: ModelProto,
    where: str = "model",
    folder: Path | None = None,
    stamp: bytes = b"",
    linked: Path | None = None,
    source: MappedFile | None = None,
) -> OnnxFile:
    """Return a parsed model, checked; external data may lie in `folder`.

    Links in it may lead into `linked`. `stamp` tells it from every other; by default it is a digest
    of the whole model. `source` is the file that it was parsed from.
    """
    check_texts(proto, where)
    opsets = _opsets(proto, where)
    stamp = stamp or sha256(proto.SerializeToString(deterministic=True)).digest()
    check_model(proto, where)
    collected = _Collected(TensorReader(where, folder, linked), source)
    collected.graph(proto.graph, "")
    for function in proto.functions:
        collected.nodes(function.node, function_path(function.domain, function.name))
    weights = Weights(collected.weights, where)
    return OnnxFile(where, proto, opsets, weights, collected.constants, stamp)


def function_path(domain: str, name: str) -> str:
    """Return what the tensors of a function's body are called by."""
    return f"{domain}:{name}/"


def _parsed(data: bytes, where: str) -> ModelProto:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise UnsupportedError(
            f"{where}: reading ONNX needs the package onnx: pip install 'lamina[onnx]'"
        ) from None
    try:
        proto = onnx.ModelProto.FromString(data)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise FormatError(f"{where}: is no ONNX model: {error}") from None
    if not proto.HasField("graph"):
        raise FormatError(f"{where}: is no ONNX model: field graph is missing")
    return proto


def _opsets(proto: ModelProto, where: str) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for each in proto.opset_import:
        domain = "" if each.domain == "ai.onnx" else each.domain
        if domain in opsets and opsets[domain] != each.version:
            raise FormatError(f"{where}: opset_import: domain {domain!r} has two versions")
        if not 0 <= each.version < 1 << 31:
            raise FormatError(f"{where}: opset_import: domain {domain!r} has no such version")
        opsets[domain] = each.version
    if opsets.get("", _OLDEST) < _OLDEST:
        raise UnsupportedError(
            f"{where}: operator set {opsets['']} is not supported: the oldest is {_OLDEST}"
        )
    from onnx import defs

    newest = int(defs.onnx_opset_version())
    if opsets.get("", 0) > newest:
        raise UnsupportedError(
            f"{where}: operator set {opsets['']} is not supported: the newest that this package "
            f"onnx knows is {newest}"
        )
    return opsets


@dataclass
class _Collected:
    """All tensors of a model, by the path of their graph and their name."""

    reader: TensorReader
    source: MappedFile | None
    weights: list[Weight] = field(default_factory=list[Weight])
    constants: dict[str, Known | Stored] = field(default_factory=dict[str, Known | Stored])

    def graph(self, graph: GraphProto, path: str) -> None:
        for tensor in graph.initializer:
            self._keep(tensor, f"{path}{tensor.name}", f"initializer {tensor.name!r}")
        self.nodes(graph.node, path)

    def nodes(self, nodes: Any, path: str) -> None:
        for node in nodes:
            for name, tensor in _constants(node):
                label = node_label(node, path)
                self._keep(tensor, f"{path}{node.output[0]}", f"node {label!r}: {name}")
            for name, graph in graphs_of(node):
                self.graph(graph, graph_path(node, name, path))

    def _keep(self, proto: TensorProto, name: str, what: str) -> None:
        array, source = self.reader.array(proto, what)
        kind = self.reader.kind(proto.data_type, what)
        self.constants[name] = self._value(name, array, kind, source)

    def _value(
        self, name: str, array: npt.NDArray[Any], kind: Kind, source: MappedFile | None
    ) -> Known | Stored:
        own = name or "tensor"
        if kind.is_text:
            return self._texts(own, array, kind)
        array = stored_form(array)
        array.flags.writeable = False
        dtype = kind.stored or kind_of_array(array).stored
        self.weights.append(Weight(own, dtype, array.shape, array, source or self.source))
        if array.size <= MOST_READ:
            return Known(array if kind.stored else loaded_form(array, kind), kind, own)
        return Stored(own, array.shape, kind)

    def _texts(self, name: str, array: npt.NDArray[Any], kind: Kind) -> Known:
        """Return texts; of many, the codes are a weight."""
        if array.size <= MOST_READ:
            return Known(array, kind)
        codes = codes_of(array)
        codes.flags.writeable = False
        self.weights.append(Weight(name, INT64.stored, codes.shape, codes, self.source))
        return Known(array, kind, name)


def stored_form(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return elements as a weight has them: 4- and 2-bit integers a byte each, f8 as its bits."""
    name = array.dtype.name
    if name in ("int4", "int2"):
        return array.astype(np.int8)
    if name in ("uint4", "uint2"):
        return array.astype(np.uint8)
    return array.view(np.uint8) if name.startswith(("float8", "float4")) else array.view()


def loaded_form(array: npt.NDArray[Any], kind: Kind) -> npt.NDArray[Any]:
    """Return elements that are stored a byte each as elements of their kind."""
    if kind.stored:
        return array
    return array.view(kind.dtype) if kind.is_float else array.astype(kind.dtype)


def _constants(node: NodeProto) -> Iterator[tuple[str, TensorProto]]:
    if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1:
        yield from (
            (a.name, a.t) for a in node.attribute if a.name == "value" and a.type == _TENSOR
        )
