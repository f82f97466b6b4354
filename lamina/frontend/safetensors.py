"""Safetensors files, single or sharded: tensors mapped where they lie.

Source: the format's README in the safetensors project; its rules are all enforced.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import cast

from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.members import member
from lamina.frontend.model import PLAIN_DTYPES, Weight, Weights
from lamina.frontend.shown import shown
from lamina.frontend.strict_json import parse_json_object, read_json_object

_LENGTH = Struct("<Q")
_LARGEST_HEADER = 100_000_000
_MOST_DIMS = 32
_METADATA = "__metadata__"
_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}

_DTYPES = {
    "F64": "f64",
    "F32": "f32",
    "F16": "f16",
    "BF16": "bf16",
    "F8_E4M3": "f8_e4m3",
    "F8_E5M2": "f8_e5m2",
    "I64": "i64",
    "I32": "i32",
    "I16": "i16",
    "I8": "i8",
    "U64": "u64",
    "U32": "u32",
    "U16": "u16",
    "U8": "u8",
    "BOOL": "bool",
}
_UNREAD_DTYPES = {"F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "C64"}


@dataclass(frozen=True)
class SafetensorsFile:
    """The contents of one safetensors file; `tensors` are in the order of their data."""

    path: Path
    metadata: Mapping[str, str]
    tensors: Weights


@dataclass(frozen=True)
class _Entry:
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_safetensors(path: str | os.PathLike[str]) -> SafetensorsFile:
    """Read the header of `path` and map its tensors.

    Raises `FormatError` naming the file and the offset or tensor at fault, and `UnsupportedError`
    for a dtype that the format knows and Lamina does not.
    """
    source = MappedFile(path)
    header, data_start = _read_header(source)
    metadata = _read_metadata(source.path, header.pop(_METADATA, {}))
    entries = [_read_entry(source.path, name, value) for name, value in header.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_cover(source.path, entries, source.size - data_start)
    weights = Weights((_map_entry(source, entry, data_start) for entry in entries), source.path)
    source.verify_unchanged()
    return SafetensorsFile(source.path, metadata, weights)


def read_safetensors_index(path: str | os.PathLike[str]) -> Weights:
    """Read the shards that a `model.safetensors.index.json` names, and map the tensors it lists.

    Other files of the folder are not opened. Raises `FormatError` naming every missing shard or
    tensor, and for a shard whose name would leave the folder.
    """
    path = Path(path)
    weight_map = read_json_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise FormatError(f"{path}: field weight_map: expected an object that names tensors")
    files = cast(dict[str, object], weight_map)
    shards = {name: _shard(path, name, file) for name, file in files.items()}
    if lost := sorted({shard.name for shard in shards.values() if not shard.is_file()}):
        raise FormatError(f"{path}: field weight_map: missing files: {', '.join(lost)}")
    opened = {shard: read_safetensors(shard).tensors for shard in dict.fromkeys(shards.values())}
    if lost := [name for name, shard in shards.items() if name not in opened[shard]]:
        names = ", ".join(f"{shown(name)} of {shards[name].name}" for name in lost)
        raise FormatError(f"{path}: field weight_map: missing tensors: {names}")
    return Weights((opened[shard][name] for name, shard in shards.items()), path)


def _shard(index: Path, name: str, file: object) -> Path:
    where = f"{index}: field weight_map, tensor {shown(name)}"
    shard = member(index.parent, file, where)
    if shard.suffix != ".safetensors":
        raise FormatError(f"{where}: expected a .safetensors file, got {shown(file)}")
    return shard


def _read_header(source: MappedFile) -> tuple[dict[str, object], int]:
    left = source.size - _LENGTH.size
    if left < 0:
        raise FormatError(
            f"{source.path}: at byte 0, header length: 8 bytes needed, got {source.size}"
        )
    (length,) = _LENGTH.unpack_from(source.data, 0)
    if length > min(left, _LARGEST_HEADER):
        raise FormatError(
            f"{source.path}: at byte 0, header length: {length} claimed, {left} bytes are left "
            f"and {_LARGEST_HEADER} allowed"
        )
    data_start = _LENGTH.size + length
    text = source.data[_LENGTH.size : data_start]
    where = f"{source.path}: at byte 8, header"
    if not text.startswith(b"{"):
        raise FormatError(f"{where}: expected it to begin with an opening brace")
    return parse_json_object(text, where), data_start


def _read_metadata(path: Path, value: object) -> dict[str, str]:
    found = cast(dict[str, object], value) if isinstance(value, dict) else None
    if found is None or not all(isinstance(item, str) for item in found.values()):
        raise FormatError(f"{path}: field {_METADATA}: expected an object of strings")
    return cast(dict[str, str], found)


def _read_entry(path: Path, name: str, value: object) -> _Entry:
    where = f"{path}: tensor {shown(name)}"
    entry = cast(dict[str, object], value if isinstance(value, dict) else {})
    if set(entry) != _ENTRY_KEYS:
        keys, got = "dtype, shape and data_offsets", ", ".join(entry)
        raise FormatError(f"{where}: expected an object of {keys}, got {shown(got)}")
    dtype, shape, offsets = entry["dtype"], _whole(entry["shape"]), _whole(entry["data_offsets"])
    if not isinstance(dtype, str) or dtype not in _DTYPES.keys() | _UNREAD_DTYPES:
        raise FormatError(f"{where}: field dtype: {shown(dtype)} is not a safetensors dtype")
    if dtype not in _DTYPES:
        raise UnsupportedError(f"{where}: field dtype: {dtype} is not supported")
    if shape is None or len(shape) > _MOST_DIMS:
        expected = f"at most {_MOST_DIMS} whole numbers"
        raise FormatError(f"{where}: field shape: expected {expected}, got {shown(entry['shape'])}")
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        got = shown(entry["data_offsets"])
        raise FormatError(f"{where}: field data_offsets: expected [begin, end], got {got}")
    itemsize = PLAIN_DTYPES[_DTYPES[dtype]].itemsize
    # Zeros count as ones, so that no view of the tensor can overflow an index either.
    if math.prod(max(extent, 1) for extent in shape) * itemsize >= 2**63:
        raise FormatError(f"{where}: field shape: {shown(shape)} takes more than 2**63 - 1 bytes")
    begin, end = offsets
    if end - begin != math.prod(shape) * itemsize:
        raise FormatError(
            f"{where}: field data_offsets: expected {math.prod(shape) * itemsize} bytes for "
            f"{dtype} {shown(list(shape))}, got {end - begin}"
        )
    return _Entry(name, _DTYPES[dtype], shape, begin, end)


def _whole(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    items = cast(list[object], value)
    if not all(type(item) is int and 0 <= item < 2**63 for item in items):
        return None
    return tuple(cast(list[int], items))


def _check_cover(path: Path, entries: list[_Entry], size: int) -> None:
    end = 0
    for entry in entries:
        if entry.begin != end:
            kind = "overlaps the tensor before it" if entry.begin < end else "leaves a gap"
            raise FormatError(
                f"{path}: tensor {shown(entry.name)}: field data_offsets: begins at "
                f"{entry.begin}, expected {end}: it {kind}"
            )
        end = entry.end
    if end != size:
        raise FormatError(f"{path}: the tensors take {end} bytes of data, the file holds {size}")


def _map_entry(source: MappedFile, entry: _Entry, data_start: int) -> Weight:
    start = data_start + entry.begin
    array = source.view(start, PLAIN_DTYPES[entry.dtype], entry.shape)
    return Weight(entry.name, entry.dtype, entry.shape, array, source, start)
