"""GGUF files, versions 2 and 3: metadata, and tensors mapped where they lie.

Source: the GGUF specification of the ggml project. What its parser refuses is refused here.
"""

import math
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from lamina.dialects.block_types import (
    ACTIVATION_TYPES,
    GGML_TYPES,
    REMOVED_GGML_TYPES,
    BlockType,
)
from lamina.errors import FormatError
from lamina.frontend.gguf_values import UINT32_TYPE, Cursor, StringArray, Value
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.model import PLAIN_DTYPES, Weight, Weights
from lamina.frontend.shown import shown

_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_LARGEST_ALIGNMENT = 2**16
_MOST_DIMS = 4
_LONGEST_NAME = 63
# A record's smallest size bounds its count by the file; these bound what a large file may ask for.
_LEAST_PAIR_BYTES, _LEAST_TENSOR_BYTES = 14, 25
_MOST_RECORDS = 2**14

_TOKENS = "tokenizer.ggml.tokens"
_PER_TOKEN = {"tokenizer.ggml.token_type": np.int32, "tokenizer.ggml.scores": np.float32}


@dataclass(frozen=True)
class GgufFile:
    """The contents of a GGUF file.

    `metadata` values are bool, int, float, str, read-only NumPy arrays, or `StringArray`.
    `tensors` are in file order, their shapes in NumPy order (the reverse of the file's).
    """

    path: Path
    version: int
    alignment: int
    metadata: Mapping[str, object]
    tensors: Weights


@dataclass(frozen=True, slots=True)
class _TensorInfo:
    name: str
    kind: BlockType
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Read the header of `path` and map its tensors, or raise a `FormatError`.

    The error names the file, and the byte offset and field at fault. Time and memory are bounded
    by the bytes that are there, not by what the header claims.
    """
    source = MappedFile(path)
    cursor = Cursor(source)
    version = _read_version(cursor)
    tensor_count = _read_count(cursor, "tensor_count", _LEAST_TENSOR_BYTES)
    pair_count = _read_count(cursor, "kv_count", _LEAST_PAIR_BYTES)
    metadata, places = _read_metadata(cursor, pair_count)
    _check_vocabulary(source.path, metadata, places)
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    assert isinstance(alignment, int)
    infos = _read_tensor_infos(cursor, tensor_count, alignment)
    data_start = _padded(cursor.position, alignment)
    weights = Weights((_map_tensor(source, info, data_start) for info in infos), source.path)
    source.verify_unchanged()
    return GgufFile(source.path, version, alignment, MappingProxyType(metadata), weights)


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _read_version(cursor: Cursor) -> int:
    cursor.field = "magic"
    magic = cursor.u32("magic").to_bytes(4, "little")
    if magic != b"GGUF":
        cursor.fail(f"expected b'GGUF', got {magic!r}: this is not a GGUF file")
    cursor.field = "version"
    version = cursor.u32("version")
    if version and version & 0xFFFF == 0:
        cursor.fail(f"{version:#x} has the bytes of a big-endian file, expected little-endian")
    if version not in _VERSIONS:
        cursor.fail(f"expected GGUF version 2 or 3, got {version}")
    return version


def _read_count(cursor: Cursor, field: str, least_bytes: int) -> int:
    cursor.field = field
    count = cursor.u64("count")
    if count * least_bytes > cursor.left:
        cursor.fail(f"{count} records do not fit in the {cursor.left} bytes left")
    if count > _MOST_RECORDS:
        cursor.fail(f"expected at most {_MOST_RECORDS} records, got {count}")
    return count


def _read_metadata(cursor: Cursor, count: int) -> tuple[dict[str, Value], dict[str, int]]:
    """Return the values, and the byte at which each one's record says its type."""
    metadata: dict[str, Value] = {}
    places: dict[str, int] = {}
    for index in range(count):
        cursor.field = f"metadata pair {index}"
        key = cursor.string("key")
        if not key:
            cursor.fail("the key is empty")
        if key in metadata:
            cursor.fail(f"the key {shown(key)} appears twice")
        cursor.field = f"key {shown(key)}"
        places[key] = cursor.position
        kind = cursor.u32("value type")
        if key == "general.alignment" and kind != UINT32_TYPE:
            cursor.fail(f"expected value type {UINT32_TYPE} (u32), got {kind}")
        value = metadata[key] = cursor.value(kind)
        if key == "general.alignment" and not _is_alignment(value):
            cursor.fail(f"expected a power of two up to {_LARGEST_ALIGNMENT}, got {value}")
    return metadata, places


def _is_alignment(value: Value) -> bool:
    return isinstance(value, int) and 0 < value <= _LARGEST_ALIGNMENT and value.bit_count() == 1


def _check_vocabulary(path: Path, metadata: Mapping[str, Value], places: Mapping[str, int]) -> None:
    def fault(key: str, problem: str) -> FormatError:
        return FormatError(f"{path}: at byte {places[key]}, field {key}: expected {problem}")

    for key in (_TOKENS, "tokenizer.ggml.merges"):
        if key in metadata and not isinstance(metadata[key], StringArray):
            raise fault(key, f"an array of strings, got {shown(metadata[key])}")
    tokens = metadata.get(_TOKENS)
    count = len(tokens) if isinstance(tokens, StringArray) else 0
    for key, dtype in _PER_TOKEN.items():
        values = metadata.get(key)
        if values is None:
            continue
        if not isinstance(values, np.ndarray) or values.dtype != dtype:
            got = f"{values.dtype}" if isinstance(values, np.ndarray) else shown(values)
            raise fault(key, f"an array of {np.dtype(dtype).name}, got {got}")
        if values.shape != (count,):
            raise fault(key, f"one value for each of the {count} tokens, got {values.size}")


def _read_tensor_infos(cursor: Cursor, count: int, alignment: int) -> list[_TensorInfo]:
    infos: list[_TensorInfo] = []
    names: set[str] = set()
    end = 0
    for index in range(count):
        info = _read_tensor_info(cursor, index, names)
        if info.offset != end:
            cursor.fail(f"expected data offset {end}, where the last one ends, got {info.offset}")
        names.add(info.name)
        infos.append(info)
        end = _padded(info.offset + info.nbytes, alignment)
    return infos


def _read_tensor_info(cursor: Cursor, index: int, names: Container[str]) -> _TensorInfo:
    cursor.field = f"tensor {index}"
    name = cursor.string("name")
    size = len(name.encode())
    if not 0 < size <= _LONGEST_NAME:
        cursor.fail(f"expected a name of 1 to {_LONGEST_NAME} bytes, got {size} bytes")
    cursor.field = f"tensor {shown(name)}"
    if name in names:
        cursor.fail("another tensor has the same name")
    rank = cursor.u32("number of dimensions")
    if rank > _MOST_DIMS:
        cursor.fail(f"expected at most {_MOST_DIMS} dimensions, got {rank}")
    dims = [cursor.u64("dimension") for _ in range(rank)]
    # Zeros count as ones, so that no view of the tensor can overflow an index either.
    elements = math.prod(max(dim, 1) for dim in dims)
    if elements >= 2**63:
        cursor.fail(f"the dimensions {dims} make more than 2**63 - 1 elements")
    kind = _read_tensor_type(cursor)
    row = dims[0] if dims else 1
    if row % kind.elements:
        cursor.fail(f"{kind.name} needs rows of a multiple of {kind.elements}, got {row}")
    if elements // kind.elements * kind.bytes >= 2**63:
        cursor.fail(f"{elements} elements of {kind.name} take more than 2**63 - 1 bytes")
    nbytes = kind.row_bytes(math.prod(dims))
    return _TensorInfo(name, kind, tuple(reversed(dims)), cursor.u64("data offset"), nbytes)


def _read_tensor_type(cursor: Cursor) -> BlockType:
    number = cursor.u32("type")
    if number in REMOVED_GGML_TYPES:
        name = REMOVED_GGML_TYPES[number]
        cursor.fail(f"type {number} ({name}) was removed from GGUF: convert the model again")
    kind = GGML_TYPES.get(number)
    if kind is None:
        cursor.fail(f"unknown tensor type {number}")
    if kind.name in ACTIVATION_TYPES:
        cursor.fail(f"type {number} ({kind.name}) holds activations, a file cannot store it")
    return kind


def _map_tensor(source: MappedFile, info: _TensorInfo, data_start: int) -> Weight:
    start = data_start + info.offset
    if start + info.nbytes > source.size:
        raise FormatError(
            f"{source.path}: at byte {start}, tensor {shown(info.name)}: "
            f"{info.nbytes} bytes expected, the file ends at byte {source.size}"
        )
    if info.kind.plain:
        array = source.view(start, PLAIN_DTYPES[info.kind.name], info.shape)
    else:
        row = info.kind.row_bytes(info.shape[-1])
        array = source.view(start, PLAIN_DTYPES["u8"], (*info.shape[:-1], row))
    return Weight(info.name, info.kind.name, info.shape, array, source, start)
