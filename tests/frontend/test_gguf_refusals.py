import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from struct import pack

import gguf_writer as g
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lamina
from lamina.errors import FormatError, InputError
from lamina.frontend.gguf import read_gguf

Refusal = Callable[..., str]


@pytest.fixture(scope="session")
def small() -> bytes:
    """A valid file with a value of every kind, whose last byte is tensor data."""
    metadata = {
        "general.architecture": "llama",
        "general.alignment": 32,
        "tokenizer.ggml.tokens": ["a", "b", "\u2581c"],
        "tokenizer.ggml.token_type": (g.I32, [3, 1, 1]),
        "tokenizer.ggml.scores": [0.0, -1.0, -2.0],
        "flag": True,
        "flags": (g.BOOL, [0, 1]),
        "wide": (g.U64, 2**63),
    }
    tensors = {"a.weight": np.arange(8.0), "b.weight": ("q8_0", (2, 32), bytes(64 + 4))}
    tensors["c.weight"] = ("f32", (8,), bytes(32))
    return g.gguf_bytes(metadata, tensors)


Cases = Iterator[tuple[str, bytes, str]]
"""A name, the bytes of a file, and what the message must say."""

PAIR, TENSOR = g.header(0, 1), g.header(1, 0)


def keyed(kind: int, payload: bytes) -> bytes:
    return PAIR + g.pair("key", kind, payload)


def tensor(dims: list[int], kind: int = 0, offset: int = 0, name: str | bytes = "x") -> bytes:
    return TENSOR + g.info(name, dims, kind, offset) + bytes(4096)


def headers() -> Cases:
    yield "magic", b"GGJT" + bytes(64), r"at byte 0, magic: .*b'GGJT'"
    for version in (0, 1, 4):
        yield f"version {version}", g.header(0, 0, version), f"byte 4, version: .* got {version}"
    yield "big-endian", g.header(0, 0, 3 << 24), "at byte 4, version: .*big-endian"
    yield "2**61 tensors", g.header(2**61, 0), "at byte 8, tensor_count: 2305843009213693952"
    yield "2**63 pairs", g.header(0, 2**63), "at byte 16, kv_count: 9223372036854775808"
    room = bytes(2**20)
    yield "many tensors", g.header(2**14 + 1, 0) + room, "byte 8, tensor_count: .*at most 16384"
    yield "many pairs", g.header(0, 2**14 + 1) + room, "byte 16, kv_count: .*at most 16384"


def keys() -> Cases:
    long = PAIR + pack("<Q", 2**64 - 1) + bytes(32)
    yield "long key", long, "byte 24, metadata pair 0: .* claims 18446744073709551615 bytes"
    cut = PAIR + pack("<Q", 33) + bytes(32)
    yield "cut key", cut, "byte 24, metadata pair 0: the key claims 33 bytes, 32 are left"
    yield "empty key", PAIR + g.pair("", g.U8, b"\0\0"), "byte 24, metadata pair 0: the key is emp"
    yield "key not UTF-8", PAIR + g.pair(b"\xff", 0, bytes(9)), "byte 24, metadata pair 0: .*UTF-8"
    twice = g.pair("key", g.U8, b"\0") * 2
    yield "duplicate key", g.header(0, 2) + twice, "byte 40, metadata pair 1: the key 'key' .*twice"


def values() -> Cases:
    yield "value type 13", keyed(13, bytes(8)), "byte 35, key 'key': unknown value type 13"
    long = keyed(g.STRING, pack("<Q", 2**64 - 1))
    yield "long string", long, "byte 39, key 'key': .* claims 18446744073709551615 bytes, 0 are"
    yield "string not UTF-8", keyed(g.STRING, g.string(b"\xc3(")), "byte 39, key 'key': .*UTF-8"
    yield "bool 2", keyed(g.BOOL, b"\2"), "byte 39, key 'key': expected a bool of 0 or 1, got 2"
    for alignment in (0, 3, 48, 2**31):
        data = PAIR + g.pair("general.alignment", g.U32, pack("<I", alignment))
        yield f"alignment {alignment}", data, f"byte 53, key 'general.alignment': .*got {alignment}"
    data = PAIR + g.pair("general.alignment", g.I32, pack("<i", 32))
    yield "alignment as i32", data, r"byte 49, key 'general.alignment': .*type 4 \(u32\), got 5"


def arrays() -> Cases:
    yield "bools of 2", keyed(g.ARRAY, g.array(g.BOOL, [1, 2])), "byte 43, key 'key': .*0 or 1"
    nested = pack("<IQ", g.ARRAY, 1) + g.array(g.U8, [1])
    yield "nested array", keyed(g.ARRAY, nested), "byte 39, key 'key': arrays of arrays"
    unknown = keyed(g.ARRAY, pack("<IQ", 13, 0))
    yield "element type 13", unknown, "byte 39, key 'key': unknown element type 13"
    for kind in (g.U8, g.F64, g.STRING):
        for count in (2**30 + 1, 2**61, 2**64 - 1):
            data = keyed(g.ARRAY, pack("<IQ", kind, count) + bytes(64))
            yield f"{count} of type {kind}", data, f"byte 43, key 'key': .* claims {count} elements"
    cut = pack("<IQ", g.STRING, 2) + g.string("ab") + pack("<Q", 2**63) + bytes(8)
    yield "long string in array", keyed(g.ARRAY, cut), "byte 61, key 'key': string 1 of 2 runs past"
    wrong = pack("<IQ", g.STRING, 1) + g.string(b"\xff")
    yield "array not UTF-8", keyed(g.ARRAY, wrong), "byte 59, key 'key': string 0 of 1 .*UTF-8"


def shapes() -> Cases:
    yield "no name", tensor([4], name=""), "byte 24, tensor 0: expected a name of 1 to 63 bytes"
    yield "name of 64 bytes", tensor([4], name="n" * 64), "byte 24, tensor 0: .*got 64 bytes"
    yield "5 dimensions", tensor([1] * 5), "byte 33, tensor 'x': .*at most 4 dimensions, got 5"
    ranks = TENSOR + g.string("x") + pack("<I", 2**32 - 1) + bytes(64)
    yield "2**32-1 dimensions", ranks, "byte 33, tensor 'x': .*at most 4 .*got 4294967295"
    for dims in ([2**42 + 1, 2**42], [2**63], [2**32, 2**31], [2**63, 0], [2**31] * 4):
        yield f"dims {dims}", tensor(dims), r"tensor 'x': the dimensions .* 2\*\*63 - 1 elements"
    yield "2**64 bytes", tensor([2**62]), r"tensor 'x': .*of f32 take more than 2\*\*63 - 1"
    yield "33 in q4_0", tensor([33, 32], 2), "'x': q4_0 needs rows of a multiple of 32, got 33"
    yield "288 in q4_k", tensor([288, 256], 12), "'x': q4_k needs rows of a multiple of 256, got"
    yield "scalar in q8_0", tensor([], 8), "'x': q8_0 needs rows of a multiple of 32, got 1"


def types() -> Cases:
    for kind in (4, 5, 31, 32, 33, 36, 37, 38):
        yield f"removed type {kind}", tensor([32], kind), f"byte 45, tensor 'x': type {kind} .*remo"
    for kind in (99, 2**32 - 1):
        yield f"type {kind}", tensor([32], kind), f"byte 45, tensor 'x': unknown .*type {kind}"
    yield "q8_1", tensor([32], 9), r"byte 45, tensor 'x': type 9 \(q8_1\) holds activations"
    yield "q8_k", tensor([256], 15), r"byte 45, tensor 'x': type 15 \(q8_k\) holds activations"


def places() -> Cases:
    first, both = g.info("x", [8], 0, 0), g.header(2, 0)
    again = both + first + g.info("x", [8], 0, 32) + bytes(4096)
    yield "duplicate tensor", again, "byte 57, tensor 'x': another tensor has the same name"
    yield "first offset", tensor([8], offset=32), "byte 49, tensor 'x': expected data offset 0"
    for offset in (0, 16, 64, 2**64 - 32):
        data = both + first + g.info("y", [8], 0, offset) + bytes(4096)
        yield f"offset {offset}", data, f"byte 82, tensor 'y': .*offset 32, .*got {offset}"
    yield "past the end", tensor([2048]), "byte 64, tensor 'x': 8192 bytes expected, the file ends"
    far = TENSOR + g.info("x", [2**60], 24, 0) + bytes(64)
    yield "far past the end", far, "byte 64, tensor 'x': 1152921504606846976 bytes expected"


def vocabularies() -> Cases:
    tokens = g.pair("tokenizer.ggml.tokens", g.ARRAY, g.array(g.STRING, ["a", "b"]))
    for key, right, wrong in (("token_type", g.I32, g.U8), ("scores", g.F32, g.F64)):
        name = f"tokenizer.ggml.{key}"
        other = g.pair(name, g.ARRAY, g.array(wrong, [1, 1]))
        where = f"at byte {24 + len(tokens) + 8 + len(name)}, field {name}: "
        yield f"{key} of another type", g.header(0, 2) + tokens + other, f"{where}.*got "
        short = g.pair(name, g.ARRAY, g.array(right, [1]))
        yield f"short {key}", g.header(0, 2) + tokens + short, f"{where}.*2 tokens, got 1"
        long = g.pair(name, g.ARRAY, g.array(right, [1] * 3))
        yield f"long {key}", g.header(0, 2) + tokens + long, f"{where}.*2 tokens, got 3"
        yield f"{key} alone", g.header(0, 1) + short, f"field {name}: .*0 tokens, got 1"
        single = g.pair(name, right, g.scalar(right, 1))
        yield f"{key} as a number", g.header(0, 2) + tokens + single, f"{where}.*array of"
    numbers = g.pair("tokenizer.ggml.tokens", g.ARRAY, g.array(g.U32, [1, 2]))
    yield "tokens as numbers", PAIR + numbers, "field tokenizer.ggml.tokens: .*array of strings"
    merges = g.pair("tokenizer.ggml.merges", g.STRING, g.string("a b"))
    yield "merges as a string", PAIR + merges, "field tokenizer.ggml.merges: .*array of strings"


def long_files() -> Cases:
    words = [f"token {i}" for i in range(20_000)]
    tokens = g.header(0, 2) + g.pair("tokens", g.ARRAY, g.array(g.STRING, words))
    yield "fault after many tokens", tokens + g.pair("key", 13, b""), "'key': unknown value type 13"
    empty = keyed(g.ARRAY, pack("<IQ", g.STRING, 50_001) + bytes(8 * 50_000) + pack("<Q", 2**40))
    yield "many empty strings", empty, "byte 400051, key 'key': string 50000 of 50001 runs past"
    names = b"".join(g.info(f"t{i}", [0], 0, 0) for i in range(2000))
    many = g.header(2001, 0) + names + g.info("t7", [0], 0, 0)
    yield "fault after many tensors", many, "tensor 't7': another tensor has the same name"


KINDS = (headers, keys, values, arrays, shapes, types, places, vocabularies, long_files)
HOSTILE = [pytest.param(data, said, id=name) for kind in KINDS for name, data, said in kind()]


@pytest.mark.parametrize(("data", "said"), HOSTILE)
def test_a_hostile_file_is_refused_by_offset_and_field(
    data: bytes, said: str, tmp_path: Path, refusal: Refusal
) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(data)
    message = refusal(read_gguf, path)
    assert re.search(said, message), message


@pytest.mark.parametrize(("data", "said"), HOSTILE)
def test_a_hostile_file_is_no_model(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=said):
        lamina.read(path)


def test_a_file_cut_at_any_byte_is_refused(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(small)
    assert len(read_gguf(path).tensors) == 3
    for size in range(len(small)):
        path.write_bytes(small[:size])
        with pytest.raises(FormatError, match=r"cut\.gguf"):
            read_gguf(path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_changed_bytes_is_read_or_refused(
    data: st.DataObject, small: bytes, tmp_path: Path
) -> None:
    changed = bytearray(small)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(small) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "changed.gguf").write_bytes(changed)
    with suppress(FormatError):
        weights = read_gguf(tmp_path / "changed.gguf").tensors
        assert sum(weight.array.nbytes for weight in weights.values()) < len(small)


def test_paths_that_are_no_files_are_refused(tmp_path: Path, refusal: Refusal) -> None:
    assert "cannot be opened" in refusal(read_gguf, tmp_path / "none.gguf", InputError)
    assert "expected a regular file" in refusal(read_gguf, tmp_path, InputError)
    (tmp_path / "empty.gguf").touch()
    assert "the file is empty" in refusal(read_gguf, tmp_path / "empty.gguf")
