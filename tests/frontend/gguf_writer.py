"""Write GGUF files for tests: whole valid ones, or the pieces to build a broken one from."""

import math
from collections.abc import Mapping, Sequence
from struct import pack

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)

FORMATS = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f"}
FORMATS |= {BOOL: "<B", U64: "<Q", I64: "<q", F64: "<d"}

INFERRED = {bool: BOOL, int: U32, float: F32, str: STRING}
"""The type of a value that states none."""

TENSOR_IDS = {
    **{"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10},
    **{"q3_k": 11, "q4_k": 12, "q5_k": 13, "q6_k": 14, "iq2_xxs": 16, "iq2_xs": 17},
    **{"iq3_xxs": 18, "iq1_s": 19, "iq4_nl": 20, "iq3_s": 21, "iq2_s": 22, "iq4_xs": 23},
    **{"i8": 24, "i16": 25, "i32": 26, "i64": 27, "f64": 28, "iq1_m": 29, "bf16": 30},
    **{"tq1_0": 34, "tq2_0": 35, "mxfp4": 39, "nvfp4": 40},
}

Tensor = tuple[str | int, Sequence[int], bytes]
"""Type name or number, shape in NumPy order, and the raw bytes."""


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return pack("<Q", len(data)) + data


def header(tensors: int, pairs: int, version: int = 3) -> bytes:
    return b"GGUF" + pack("<IQQ", version, tensors, pairs)


def pair(key: str | bytes, kind: int, payload: bytes) -> bytes:
    """One metadata record whose value is already bytes."""
    return string(key) + pack("<I", kind) + payload


def array(kind: int, values: Sequence[object] | np.ndarray) -> bytes:
    """The payload of an array value."""
    return pack("<IQ", kind, len(values)) + b"".join(scalar(kind, value) for value in values)


def scalar(kind: int, value: object) -> bytes:
    return string(value) if kind == STRING else pack(FORMATS[kind], value)


def value(value: object) -> tuple[int, bytes]:
    """The type and payload of a Python value; a tuple `(type, value)` states the type itself."""
    stated = isinstance(value, tuple)
    kind, item = value if stated else (None, value)
    if isinstance(item, list | np.ndarray):
        return ARRAY, array(INFERRED[type(item[0])] if kind is None else kind, item)
    kind = INFERRED[type(item)] if kind is None else kind
    return kind, scalar(kind, item)


def info(name: str | bytes, dims: Sequence[int], kind: int, offset: int) -> bytes:
    """One tensor record; `dims` are in the file's order, the row length first."""
    return string(name) + pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def padding(size: int, alignment: int = 32) -> bytes:
    return bytes(-size % alignment)


def gguf_bytes(
    metadata: Mapping[str, object], tensors: Mapping[str, Tensor | np.ndarray], version: int = 3
) -> bytes:
    """A whole valid file. Float32 arrays may stand for themselves among the tensors."""
    stated = metadata.get("general.alignment", 32)
    alignment = stated if isinstance(stated, int) else 32
    head = header(len(tensors), len(metadata), version)
    head += b"".join(pair(key, *value(item)) for key, item in metadata.items())
    data = b""
    for name, tensor in tensors.items():
        kind, shape, raw = tensor if isinstance(tensor, tuple) else f32(tensor)
        number = TENSOR_IDS[kind] if isinstance(kind, str) else kind
        head += info(name, list(reversed(shape)), number, len(data))
        data += raw + padding(len(raw), alignment)
    return head + padding(len(head), alignment) + data


def f32(values: np.ndarray) -> Tensor:
    return "f32", values.shape, values.astype("<f4").tobytes()


def random_tensor(kind: str, shape: Sequence[int], elements: int, size: int, seed: int) -> Tensor:
    """Random bytes for a tensor whose blocks are `elements` elements in `size` bytes."""
    count = math.prod(shape) // elements * size
    return kind, shape, np.random.default_rng(seed).bytes(count)
