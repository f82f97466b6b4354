"""One node of an ONNX graph, as its converter sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block

from lamina.dialects.dims import Dim
from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.onnx.emit import Emit
from lamina.frontend.onnx.kinds import INT64, KINDS, Kind
from lamina.frontend.onnx.values import Array, Known, Several, Tensor, Value
from lamina.frontend.shown import shown

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

_MISSING: Any = object()


class NeedsValueError(UnsupportedError):
    """A graph's form depends on an input whose elements are known only when it runs.

    `outputs` are the element types and ranks of outputs, as far as they are known all the same.
    """

    def __init__(
        self, message: str, index: int, outputs: Sequence[tuple[Kind, int] | None] = ()
    ) -> None:
        super().__init__(message)
        self.index, self.outputs = index, tuple(outputs)


class Node(Emit):
    """A node: its inputs, its attributes with their defaults, and the graph to add to.

    `version` is that of the operator set; `label` names the node in messages. `graphs` imports
    the graph of an attribute for given inputs and returns its outputs; `graph_inside` does so
    without inputs, into a block, a branch that is taken where the extent is 1.
    """

    def __init__(
        self, emit: Emit, proto: NodeProto, inputs: Sequence[Value], version: int, label: str
    ) -> None:
        self.op = proto.op_type
        super().__init__(emit.graph, f"{emit.where}: node {label!r} ({self.op})")
        self.proto, self.version, self.label = proto, version, label
        self.inputs = list(inputs)
        self._attributes = {each.name: each for each in proto.attribute}
        self.graphs: Callable[[str, Sequence[Value]], list[Value]] = _no_graphs
        self.graph_inside: Callable[[str, Block, Dim], list[Value]] = _no_graphs

    # Inputs

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Array:
        """Return an input; `FormatError` if it is missing, or is no tensor."""
        if not self.has(index):
            raise FormatError(f"{self.where}: input {index} is missing")
        found = self.inputs[index]
        if isinstance(found, Several):
            raise FormatError(f"{self.where}: input {index} is a sequence, expected a tensor")
        assert found is not None
        return found

    def x(self, index: int = 0) -> Tensor:
        """Return an input as a tensor of the graph."""
        return self.tensor(self.value(index))

    def xs(self) -> list[Tensor]:
        """Return every input as a tensor of the graph."""
        return [self.x(i) for i in range(len(self.inputs))]

    def sequence(self, index: int = 0) -> tuple[Value, ...]:
        """Return the values of an input that is a sequence."""
        found = self.inputs[index] if self.has(index) else None
        if not isinstance(found, Several):
            raise FormatError(f"{self.where}: input {index} is no sequence")
        return found.values

    def known(self, index: int) -> npt.NDArray[Any]:
        """Return an input's elements; NeedsValueError if they are not known as numbers."""
        found = self.value(index)
        if isinstance(found, Known) and found.is_plain:
            return found.array
        raise NeedsValueError(
            f"{self.where}: input {index} has to be known before the model runs", index
        )

    def dims(self, index: int) -> list[Dim]:
        """Return an input's integers, which may be extents; NeedsValueError if not known."""
        found = self.value(index)
        if isinstance(found, Known) and not found.kind.is_float and found.kind.bits:
            return [Dim.of(n if isinstance(n, Dim) else int(n)) for n in found.array.ravel()]
        raise NeedsValueError(
            f"{self.where}: input {index} has to be known before the model runs", index
        )

    def number(self, index: int, default: float | None = None) -> Any:
        """Return an input of one element as a Python number, or a str."""
        if default is not None and not self.has(index):
            return default
        found = self.known(index)
        if found.size != 1:
            raise FormatError(
                f"{self.where}: input {index}: expected one element, got {found.size}"
            )
        return found.ravel().tolist()[0]

    def integers(self, index: int) -> list[int]:
        """Return an input's elements as Python integers."""
        return [int(n) for n in self.known(index).ravel()]

    def axes(self, index: int, rank: int, name: str = "axes") -> list[int] | None:
        """Return axes given as an input, or as the attribute `name`; None if neither is there."""
        if self.has(index):
            found: Sequence[int] = self.integers(index)
        elif self.given(name):
            found = self.get_ints(name)
        else:
            return None
        return [self.axis(a, rank) for a in found]

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the start; `FormatError` outside of the rank."""
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise FormatError(f"{self.where}: axis {axis} of rank {rank}")
        return axis % max(rank, 1)

    # Attributes

    def given(self, name: str) -> bool:
        """Whether an attribute is there."""
        return name in self._attributes

    def get_int(self, name: str, default: int = _MISSING) -> int:
        """Return an attribute of one integer."""
        return int(self._get(name, 2, "i", default))

    def get_float(self, name: str, default: float = _MISSING) -> float:
        """Return an attribute of one number."""
        return float(self._get(name, 1, "f", default))

    def get_text(self, name: str, default: str = _MISSING) -> str:
        """Return an attribute of text."""
        found: bytes | str = self._get(name, 3, "s", default)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    def get_ints(self, name: str, default: Sequence[int] = _MISSING) -> list[int]:
        """Return an attribute of integers."""
        return [int(n) for n in self._get(name, 7, "ints", default)]

    def get_floats(self, name: str, default: Sequence[float] = _MISSING) -> list[float]:
        """Return an attribute of numbers."""
        return [float(n) for n in self._get(name, 6, "floats", default)]

    def get_texts(self, name: str, default: Sequence[str] = _MISSING) -> list[str]:
        """Return an attribute of texts."""
        found: Sequence[bytes | str] = self._get(name, 8, "strings", default)
        return [n.decode("utf-8", "replace") if isinstance(n, bytes) else n for n in found]

    def attribute(self, name: str) -> AttributeProto:
        """Return an attribute as the file has it."""
        if name not in self._attributes:
            raise FormatError(f"{self.where}: attribute {name} is missing")
        return self._attributes[name]

    def get_kind(self, name: str, default: int = _MISSING) -> Kind:
        """Return an attribute that is a number of an element type."""
        number = self.get_int(name, default)
        if number not in KINDS:
            raise UnsupportedError(f"{self.where}: element type {number} is not known")
        return KINDS[number]

    def _get(self, name: str, kind: int, field: str, default: Any) -> Any:
        if name not in self._attributes:
            if default is _MISSING:
                raise FormatError(f"{self.where}: attribute {name} is missing")
            return default
        found = self._attributes[name]
        if found.type != kind:
            raise FormatError(f"{self.where}: attribute {name}: type {found.type}, expected {kind}")
        return getattr(found, field)

    # Refusals

    def refuse(self, what: str) -> UnsupportedError:
        """Return the error for a form of the operator that is not supported."""
        return UnsupportedError(f"{self.where}: {what} is not supported")

    def fault(self, what: str) -> FormatError:
        """Return the error for what the format does not allow."""
        return FormatError(f"{self.where}: {what}")

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """Return an attribute of text that must be one of a few."""
        found = self.get_text(name, default)
        if found not in allowed:
            known = ", ".join(allowed)
            raise self.fault(f"attribute {name}: expected one of {known}, got {shown(found)}")
        return found


def scalar(number: int, kind: Kind = INT64) -> Known:
    """Return one integer as a known value of no dimensions."""
    return Known(np.array(number, kind.dtype), kind)


def _no_graphs(name: str, *values: object) -> list[Value]:
    raise FormatError(f"the graph {name} is not there")
