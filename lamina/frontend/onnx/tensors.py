"""The tensors of an ONNX file as arrays, checked before they are read."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.onnx.kinds import KINDS, Kind
from lamina.frontend.onnx.values import HIGHEST_RANK
from lamina.frontend.shown import shown

if TYPE_CHECKING:
    from onnx import TensorProto

_EXTERNAL: Final = 1
"""`TensorProto.EXTERNAL`."""

_MOST_ELEMENTS: Final = 1 << 40

_FIELDS: Final = {
    "float": "float_data",
    "double": "double_data",
    "int64": "int64_data",
    "uint64": "uint64_data",
    "uint32": "uint64_data",
    "string": "string_data",
}
"""Where elements lie that are not raw bytes; all other kinds have `int32_data`."""


class TensorReader:
    """Reads tensors of one file; `folder` is where its external data may lie.

    Links there may lead to elsewhere in it, or into `linked`.
    """

    def __init__(self, where: str, folder: Path | None, linked: Path | None = None) -> None:
        self._where, self._folder = where, folder
        self._roots = [each.resolve() for each in (folder, linked) if each is not None]
        self._files: dict[Path, MappedFile] = {}

    def kind(self, number: int, what: str) -> Kind:
        """Return an element type; `UnsupportedError` naming `what` has it for one unknown."""
        if number not in KINDS:
            raise UnsupportedError(f"{self._where}: {what}: element type {number} is not known")
        return KINDS[number]

    def array(self, proto: TensorProto, what: str) -> tuple[npt.NDArray[Any], MappedFile | None]:
        """Return the elements of a tensor, read-only, and the external file that has them.

        Raises `FormatError` naming `what` where extents, bytes or a path are wrong.
        """
        kind, shape = self.kind(proto.data_type, what), self.shape(proto.dims, what)
        size = _size(shape)
        if proto.HasField("segment"):
            raise UnsupportedError(f"{self._where}: {what}: tensors in segments are not supported")
        if proto.data_location == _EXTERNAL:
            return self._external(proto, kind, shape, what)
        if proto.HasField("raw_data") and kind.bits:
            raw = np.frombuffer(proto.raw_data, np.uint8)
            return self._plain(raw, kind, shape, what), None
        field = list(getattr(proto, _FIELDS.get(kind.name, "int32_data")))
        if kind.bits in (2, 4):
            return self._plain(np.array(field, np.uint8), kind, shape, what), None
        if len(field) != size:
            raise self._fault(what, f"{size} elements of shape {shape}", f"{len(field)}")
        return _typed(field, kind).reshape(shape), None

    def shape(self, dims: Any, what: str) -> tuple[int, ...]:
        """Return extents; `FormatError` for what no tensor can have."""
        shape = tuple(int(n) for n in dims)
        if any(not 0 <= n <= _MOST_ELEMENTS for n in shape) or _size(shape) > _MOST_ELEMENTS:
            raise self._fault(what, "extents from 0 to what memory holds", shown(shape))
        if len(shape) > HIGHEST_RANK:
            raise self._fault(what, f"a rank of at most {HIGHEST_RANK}", f"{len(shape)}")
        return shape

    def _plain(
        self, raw: npt.NDArray[np.uint8], kind: Kind, shape: tuple[int, ...], what: str
    ) -> npt.NDArray[Any]:
        size = _size(shape)
        stored = max(kind.bits, 8) if kind.bits not in (2, 4) else kind.bits
        expected = -(-size * stored // 8)
        if raw.size != expected:
            raise self._fault(what, f"{expected} bytes for shape {shape}", f"{raw.size}")
        if kind.bits in (2, 4):
            return _unpacked(raw, kind, size).reshape(shape)
        if kind.bits == 1:
            raw = (raw != 0).view(np.uint8)
        return raw.view(kind.dtype.newbyteorder("<") if kind.bits > 8 else kind.dtype).reshape(
            shape
        )

    def _external(
        self, proto: TensorProto, kind: Kind, shape: tuple[int, ...], what: str
    ) -> tuple[npt.NDArray[Any], MappedFile]:
        entries = {entry.key: entry.value for entry in proto.external_data}
        file = self._file(entries.get("location", ""), what)
        offset = self._number(entries.get("offset", "0"), "offset", what)
        stored = kind.bits if kind.bits in (2, 4) else max(kind.bits, 8)
        expected = -(-_size(shape) * stored // 8)
        length = self._number(entries.get("length", str(expected)), "length", what)
        if length != expected or offset + length > file.size:
            got = f"{length} at {offset} of {file.size}"
            raise self._fault(what, f"{expected} bytes for shape {shape}", got)
        raw = file.view(offset, np.dtype(np.uint8), (length,))
        return self._plain(raw, kind, shape, what), file

    def _number(self, text: str, key: str, what: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise self._fault(f"{what}: external_data.{key}", "a number", shown(text))
        return int(text)

    def _file(self, location: str, what: str) -> MappedFile:
        path = PurePosixPath(location)
        inside = bool(path.parts) and not path.is_absolute() and ".." not in path.parts
        if self._folder is None or not inside or "\\" in location or not location.isprintable():
            hint = "a path inside the model's folder"
            raise self._fault(f"{what}: external_data.location", hint, shown(location))
        full = self._folder / path
        try:
            real, there = full.resolve(), full.is_file()
        except (OSError, RuntimeError):
            raise self._fault(what, "a path that leads to a file", shown(location)) from None
        if not any(real.is_relative_to(root) for root in self._roots):
            raise self._fault(what, "a path inside the model's folder", shown(location))
        if full not in self._files:
            if not there:
                raise FormatError(
                    f"{self._where}: {what}: its data is to be in {shown(location)}: no such file"
                )
            self._files[full] = MappedFile(full)
        return self._files[full]

    def _fault(self, what: str, expected: str, got: str) -> FormatError:
        return FormatError(f"{self._where}: {what}: expected {expected}, got {got}")


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def _typed(field: list[Any], kind: Kind) -> npt.NDArray[Any]:
    """Return elements of a field of numbers: 8- and 16-bit floats are there as their bits."""
    if kind.bits == 0:
        found = np.empty(len(field), np.object_)
        found[:] = [text.decode("utf-8", "surrogateescape") for text in field]
        return found
    if kind.is_float and kind.bits <= 16:
        bits = np.array(field, np.int64).astype(f"u{kind.bits // 8}")
        return bits.view(kind.dtype)
    return np.array(field, np.float64 if kind.is_float else np.object_).astype(kind.dtype)


def _unpacked(raw: npt.NDArray[np.uint8], kind: Kind, size: int) -> npt.NDArray[Any]:
    """Return 4- or 2-bit elements, the lowest bits of a byte first."""
    shifts = np.arange(0, 8, kind.bits, dtype=np.uint8)
    bits = ((raw[:, None] >> shifts) & ((1 << kind.bits) - 1)).ravel()[:size]
    if kind.name.startswith("int"):
        high = 1 << (kind.bits - 1)
        signed = bits.astype(np.int8)
        return np.where(signed >= high, signed - (high << 1), signed).astype(kind.dtype)
    return bits.view(kind.dtype) if kind.is_float else bits.astype(kind.dtype)
