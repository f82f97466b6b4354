"""The reader of ONNX files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lamina.frontend.model import Model
from lamina.frontend.onnx.model_file import OnnxFile, read_onnx
from lamina.frontend.shown import shown

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from lamina.frontend.examination import Examination
    from lamina.frontend.onnx.registry import Converter

    Operators = Mapping[tuple[str, str], Sequence[tuple[int, Converter]]]


@dataclass(frozen=True)
class OnnxFrontend:
    """Reads ONNX files; `operators` are converters besides those of the box."""

    name: ClassVar[str] = "onnx"

    operators: Operators | None = field(default=None, repr=False)

    def sniff(self, path: Path) -> bool:
        """Return whether `path` is called an ONNX file, or is a serialized model."""
        if not path.is_file():
            return False
        if path.suffix.lower() == ".onnx":
            return True
        with path.open("rb") as file:
            head = file.read(2)
        # Field 1 (ir_version) of a small number is what every writer puts first.
        return len(head) == 2 and head[0] == 0x08 and 0 < head[1] < 0x20

    def read(self, path: Path) -> Model:
        """Return the model in `path`.

        Raises `FormatError` or `UnsupportedError` naming the file, the node and the field.
        """
        return model_of(read_onnx(path), self.operators)

    def examine(self, path: Path) -> Examination:
        """Return everything in the model in `path` that is not supported."""
        from lamina.frontend.onnx.examiner import examine

        return examine(path, self.operators)


def model_of(file: OnnxFile, operators: Operators | None = None) -> Model:
    """Return a model whose graph is made when it is first asked for."""

    def graph() -> ModuleOp:
        from lamina.frontend.onnx.importer import import_onnx

        return import_onnx(file, operators)

    return Model(graph, file.weights, stamp=file.stamp, facts=_facts(file))


def _facts(file: OnnxFile) -> dict[str, object]:
    proto = file.proto
    operators = Counter(node.op_type for node in proto.graph.node)
    producer = f"{proto.producer_name} {proto.producer_version}".strip()
    opsets = (f"{domain or 'ai.onnx'} {version}" for domain, version in file.opsets.items())
    return {
        "ir_version": proto.ir_version,
        "producer": shown(producer)[1:-1],
        "operator sets": ", ".join(opsets),
        "nodes": len(proto.graph.node),
        "operators": ", ".join(f"{shown(op)[1:-1]} {n}" for op, n in operators.most_common()),
        "functions": len(proto.functions),
    }
