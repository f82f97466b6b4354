"""The values of a GGUF file: numbers, strings and arrays, each checked before it is read."""

from array import array
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from lamina.errors import FormatError
from lamina.frontend.mapped_file import MappedFile

U32, U64 = Struct("<I"), Struct("<Q")
UINT32_TYPE, BOOL_TYPE, STRING_TYPE, ARRAY_TYPE = 4, 7, 8, 9

_SCALARS: dict[int, Struct] = {
    0: Struct("<B"),
    1: Struct("<b"),
    2: Struct("<H"),
    3: Struct("<h"),
    4: U32,
    5: Struct("<i"),
    6: Struct("<f"),
    10: U64,
    11: Struct("<q"),
    12: Struct("<d"),
}
_ELEMENTS: dict[int, np.dtype[Any]] = {
    BOOL_TYPE: np.dtype("?"),
    **{kind: np.dtype(form.format) for kind, form in _SCALARS.items()},
}
_LONGEST = 2**30
"""The most bytes of a string and elements of an array that the format allows."""


class StringArray(Sequence[str]):
    """An array of strings that stays in the mapped file; items are decoded when asked for."""

    def __init__(self, data: Any, begin: int, ends: "array[int]") -> None:
        """Take strings whose length fields start at `begin` and at each of `ends` but the last."""
        self._data = data
        self._begin = begin
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        start = self._ends[index - 1] if index else self._begin
        return self._data[start + U64.size : self._ends[index]].decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        data, start = self._data, self._begin + U64.size
        for end in self._ends:
            yield data[start:end].decode("utf-8")
            start = end + U64.size

    def __repr__(self) -> str:
        return f"<{len(self)} strings>"


Value = bool | int | float | str | StringArray | npt.NDArray[Any]
"""What a metadata key can hold; arrays are read-only."""


class Cursor:
    """Reads a GGUF file from front to back.

    Every read is checked against the bytes left, and every refusal is a `FormatError` that names
    the file, the offset of the value at fault, and `field`, the part being read.
    """

    source: MappedFile
    field: str

    def __init__(self, source: MappedFile) -> None:
        self.source = source
        self.field = "header"
        self.position = 0
        self._start = 0

    @property
    def left(self) -> int:
        """The bytes between the position and the end of the file."""
        return self.source.size - self.position

    def fail(self, problem: str) -> NoReturn:
        """Raise the error for the value that was read last."""
        raise FormatError(f"{self.source.path}: at byte {self._start}, {self.field}: {problem}")

    def unpack(self, form: Struct, what: str) -> Any:
        """Return one number; `what` names it if the file ends before it does."""
        self._start = self.position
        if self.left < form.size:
            self.fail(f"the {what} needs {form.size} bytes, {self.left} are left in the file")
        self.position += form.size
        return form.unpack_from(self.source.data, self._start)[0]

    def u32(self, what: str) -> int:
        """Return an unsigned 32-bit number."""
        return self.unpack(U32, what)

    def u64(self, what: str) -> int:
        """Return an unsigned 64-bit number."""
        return self.unpack(U64, what)

    def string(self, what: str) -> str:
        """Return a string: a 64-bit length, then UTF-8."""
        length = self.u64(f"length of the {what}")
        if length > _LONGEST or length > self.left:
            self.fail(f"the {what} claims {length} bytes, {self.left} are left")
        start, self.position = self.position, self.position + length
        try:
            return self.source.data[start : self.position].decode("utf-8")
        except UnicodeDecodeError as error:
            self.fail(f"the {what} is not UTF-8: {error.reason}")

    def value(self, kind: int) -> Value:
        """Return a metadata value of type number `kind`.

        Numbers become int or float, strings str, arrays a `StringArray` or a read-only NumPy view.
        """
        if kind in _SCALARS:
            return self.unpack(_SCALARS[kind], "value")
        if kind == STRING_TYPE:
            return self.string("value")
        if kind == BOOL_TYPE:
            value = self.unpack(_SCALARS[0], "value")
            if value > 1:
                self.fail(f"expected a bool of 0 or 1, got {value}")
            return bool(value)
        if kind == ARRAY_TYPE:
            return self._array()
        self.fail(f"unknown value type {kind}")

    def _array(self) -> StringArray | npt.NDArray[Any]:
        kind = self.u32("element type")
        if kind == ARRAY_TYPE:
            self.fail("arrays of arrays are not allowed")
        if kind != STRING_TYPE and kind not in _ELEMENTS:
            self.fail(f"unknown element type {kind}")
        count = self.u64("array length")
        least = U64.size if kind == STRING_TYPE else _ELEMENTS[kind].itemsize
        if count > _LONGEST or count * least > self.left:
            self.fail(f"the array claims {count} elements, {self.left} bytes are left")
        if kind == STRING_TYPE:
            return self._strings(count)
        values = self.source.view(self.position, _ELEMENTS[kind], (count,))
        if kind == BOOL_TYPE and count and values.view(np.uint8).max() > 1:
            self.fail("expected bools of 0 or 1 only")
        self.position += values.nbytes
        return values

    def _strings(self, count: int) -> StringArray:
        # One loop with local names: vocabularies have hundreds of thousands of strings.
        data, size, length_at = self.source.data, self.source.size, U64.unpack_from
        begin = position = self.position
        ends: array[int] = array("q")
        for index in range(count):
            start = position + U64.size
            if start <= size:
                position = start + length_at(data, position)[0]
            if max(start, position) > size:
                self._start = start - U64.size
                self.fail(f"string {index} of {count} runs past the end of the file")
            try:
                data[start:position].decode("utf-8")
            except UnicodeDecodeError as error:
                self._start = start
                self.fail(f"string {index} of {count} is not UTF-8: {error.reason}")
            ends.append(position)
        self.position = position
        return StringArray(data, begin, ends)
