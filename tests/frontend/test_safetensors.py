import json
import re
from collections.abc import Callable
from pathlib import Path
from struct import pack

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from lamina.errors import FormatError, InputError, UnsupportedError
from lamina.frontend.safetensors import read_safetensors, read_safetensors_index

DTYPES = {
    **{"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1"},
    **{"u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bool": "?"},
    "bf16": ml_dtypes.bfloat16,
    "f8_e4m3": ml_dtypes.float8_e4m3fn,
    "f8_e5m2": ml_dtypes.float8_e5m2,
}
Refusal = Callable[..., str]


def entry(begin: object = 0, end: object = 8, **other: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [begin, end], **other}


def write(path: Path, header: object, data: bytes = bytes(8)) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize("name", DTYPES)
def test_tensors_written_by_the_library_come_back(name: str, tmp_path: Path) -> None:
    values = np.arange(6).astype(DTYPES[name]).reshape(2, 3)
    save_file({"x": values}, tmp_path / "x.safetensors", metadata={"format": "pt"})
    file = read_safetensors(tmp_path / "x.safetensors")
    found = file.tensors["x"]
    assert (found.dtype, found.shape, found.array.dtype) == (name, (2, 3), values.dtype)
    np.testing.assert_array_equal(found.array, values)
    assert not found.array.flags.writeable
    assert file.metadata == {"format": "pt"}


def test_scalars_empty_tensors_and_padding_are_legal(tmp_path: Path) -> None:
    header = {"none": entry(0, 0, shape=[0, 3]), "one": entry(0, 4, shape=[])}
    text = json.dumps(header).encode() + b"   "
    found = read_safetensors(write(tmp_path / "x", text, pack("<f", 2.5))).tensors
    assert found["one"].array == 2.5
    assert found["none"].array.shape == (0, 3)


def test_a_file_without_tensors_is_read(tmp_path: Path) -> None:
    assert len(read_safetensors(write(tmp_path / "x", {}, b"")).tensors) == 0


def test_tensors_come_in_the_order_of_their_data(tmp_path: Path) -> None:
    header = {"second": entry(8, 16), "first": entry(0, 8)}
    found = read_safetensors(write(tmp_path / "x", header, bytes(16))).tensors
    assert list(found) == ["first", "second"]


def test_a_tensor_of_another_shape_than_expected_is_named(tmp_path: Path) -> None:
    weights = read_safetensors(write(tmp_path / "w.bin", {"x": entry()})).tensors
    assert weights.expect("x", (2,)) is weights["x"]
    with pytest.raises(FormatError, match=r"w\.bin: tensor 'x': expected shape \(3,\), got \(2,\)"):
        weights.expect("x", (3,))
    with pytest.raises(FormatError, match=r"w\.bin: tensor 'y' is missing"):
        weights.expect("y", (2,))


ENTRIES = {
    "negative offset": (entry(-8, 0), "'x': field data_offsets: expected .*-8"),
    "reversed offsets": (entry(8, 0), "'x': field data_offsets: expected .*begin, end"),
    "empty offsets": (entry(data_offsets=[]), "'x': field data_offsets: expected"),
    "three offsets": (entry(data_offsets=[0, 8, 8]), "'x': field data_offsets: expected"),
    "float offsets": (entry(0.0, 8.0), "'x': field data_offsets: expected"),
    "true as an offset": (entry(True, 9), "'x': field data_offsets: expected"),
    "offsets as text": (entry(data_offsets="08"), "'x': field data_offsets: expected"),
    "offsets of 2**63": (entry(2**63, 2**63 + 8), "'x': field data_offsets: expected"),
    "no offsets": ({"dtype": "F32", "shape": [2]}, "'x': expected an object of dtype, shape and"),
    "one key more": (entry(device="cpu"), "'x': expected an object of .*device"),
    "a list": ([0, 8], "'x': expected an object"),
    "negative shape": (entry(shape=[-2]), "'x': field shape: expected"),
    "float shape": (entry(shape=[2.0]), "'x': field shape: expected"),
    "null shape": (entry(shape=None), "'x': field shape: expected"),
    "33 dimensions": (entry(shape=[1] * 33), "'x': field shape: expected at most 32"),
    "wrapping shape": (entry(shape=[2**32 + 1, 2**32]), "'x': field shape: .*more than 2"),
    "wrapping empty": (entry(0, 0, shape=[0, 2**62, 8]), "'x': field shape: .*more than 2"),
    "wrong size": (entry(shape=[3]), r"'x': field data_offsets: expected 12 bytes .*got 8"),
    "unknown dtype": (entry(dtype="F31"), "'x': field dtype: 'F31' is not"),
    "null dtype": (entry(dtype=None), "'x': field dtype: None is not"),
    "list as dtype": (entry(dtype=["F32"]), "'x': field dtype: .* is not"),
    "gap at the start": (entry(8, 16), "'x': field data_offsets: begins at 8, expected 0.*gap"),
    "past the end": (entry(0, 16, shape=[4]), "take 16 bytes of data, the file holds 8"),
    "trailing bytes": (entry(0, 4, shape=[1]), "take 4 bytes of data, the file holds 8"),
}


@pytest.mark.parametrize(("value", "said"), ENTRIES.values(), ids=ENTRIES)
def test_a_bad_entry_is_refused_by_tensor_and_field(
    value: object, said: str, tmp_path: Path, refusal: Refusal
) -> None:
    message = refusal(read_safetensors, write(tmp_path / "bad.safetensors", {"x": value}))
    assert re.search(said, message), message


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (entry(4, 12), "'y': field data_offsets: begins at 4, expected 8: it overlaps"),
        (entry(0, 8), "'y': field data_offsets: begins at 0, expected 8: it overlaps"),
        (entry(12, 20), "'y': field data_offsets: begins at 12, expected 8: it leaves a gap"),
    ],
)
def test_overlaps_and_gaps_are_refused(
    second: object, said: str, tmp_path: Path, refusal: Refusal
) -> None:
    path = write(tmp_path / "bad", {"x": entry(), "y": second}, bytes(20))
    assert said in refusal(read_safetensors, path)


HEADERS = {
    "duplicate tensor": (b'{"x": 1, "x": 1}', "the key 'x' appears twice"),
    "duplicate field": (b'{"x": {"dtype": "F32", "dtype": "F32"}}', "the key 'dtype' appears"),
    "leading space": (b" {}", "expected it to begin with an opening brace"),
    "a list": (b"[]", "expected it to begin with an opening brace"),
    "no end": (b'{"x": ', "not valid JSON"),
    "two objects": (b"{}{}", "not valid JSON"),
    "not UTF-8": (b'{"\xff": 1}', "not valid JSON"),
    "NaN": (b'{"x": NaN}', "NaN is not a JSON number"),
    "lone surrogate": (b'{"\\ud800": 1}', "not valid JSON"),
    "nesting": (b'{"x":' + b"[" * 200_000, "nested too deeply"),
    "long number": (b'{"x": ' + b"9" * 100_000 + b"}", "not valid JSON"),
    "metadata of numbers": (b'{"__metadata__": {"a": 1}}', "field __metadata__: expected"),
    "metadata as text": (b'{"__metadata__": "a"}', "field __metadata__: expected"),
}


@pytest.mark.parametrize(("text", "said"), HEADERS.values(), ids=HEADERS)
def test_a_bad_header_is_refused(text: bytes, said: str, tmp_path: Path, refusal: Refusal) -> None:
    assert said in refusal(read_safetensors, write(tmp_path / "bad", text, b""))


@pytest.mark.parametrize("length", [3, 100_000_001, 2**63, 2**64 - 1])
def test_a_lying_header_length_is_refused(length: int, tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "bad").write_bytes(pack("<Q", length) + b"{}")
    message = refusal(read_safetensors, tmp_path / "bad")
    assert f"at byte 0, header length: {length} claimed, 2 bytes are left" in message


def test_a_dtype_that_is_known_but_not_read_is_unsupported(
    tmp_path: Path, refusal: Refusal
) -> None:
    path = write(tmp_path / "new", {"x": entry(dtype="F8_E8M0")})
    assert "field dtype: F8_E8M0" in refusal(read_safetensors, path, UnsupportedError)


def test_a_file_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "cut", {"x": entry(), "y": entry(8, 16)}, bytes(16)).read_bytes()
    for size in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(FormatError, match="cut"):
            read_safetensors(tmp_path / "cut")


def test_a_missing_file_is_an_input_error(tmp_path: Path, refusal: Refusal) -> None:
    assert "cannot be opened" in refusal(read_safetensors, tmp_path / "none", InputError)


@pytest.fixture
def shards(tmp_path: Path) -> Callable[[object], Path]:
    """Write two shards, one stray broken file, and an index with the given weight map."""
    write(tmp_path / "one.safetensors", {"x": entry()}, pack("<2f", 1, 2))
    write(tmp_path / "two.safetensors", {"y": entry(), "z": entry(8, 16)}, bytes(16))
    (tmp_path / "stray.safetensors").write_bytes(b"stray")

    def index(weight_map: object) -> Path:
        path = tmp_path / "model.safetensors.index.json"
        path.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": weight_map}))
        return path

    return index


def test_shards_are_read_by_their_index_alone(shards: Callable[[object], Path]) -> None:
    path = shards({"z": "two.safetensors", "x": "one.safetensors"})
    weights = read_safetensors_index(path)
    assert list(weights) == ["z", "x"]
    assert weights["x"].array.tolist() == [1, 2]


INDEXES = {
    "two missing shards": ({"x": "a.safetensors", "y": "b.safetensors"}, "missing files: a.*b.s"),
    "two missing tensors": (
        {"v": "one.safetensors", "x": "one.safetensors", "w": "two.safetensors"},
        "missing tensors: 'v' of one.safetensors, 'w' of two.safetensors",
    ),
    "parent": ({"x": "../one.safetensors"}, "tensor 'x': expected the name of a file in the same"),
    "absolute": ({"x": "/etc/one.safetensors"}, "tensor 'x': expected the name of a file"),
    "backslash": ({"x": "..\\one.safetensors"}, "tensor 'x': expected the name of a file"),
    "folder": ({"x": "sub/one.safetensors"}, "tensor 'x': expected the name of a file"),
    "NUL": ({"x": "one\0.safetensors"}, "tensor 'x': expected the name of a file"),
    "long": ({"x": "o" * 300 + ".safetensors"}, "tensor 'x': expected the name of a file"),
    "number": ({"x": 1}, "tensor 'x': expected the name of a file in the same folder, got 1"),
    "pickle": ({"x": "one.bin"}, "tensor 'x': expected a .safetensors file, got 'one.bin'"),
    "empty": ({}, "field weight_map: expected an object"),
    "list": (["x"], "field weight_map: expected an object"),
    "null": (None, "field weight_map: expected an object"),
}


@pytest.mark.parametrize(("weight_map", "said"), INDEXES.values(), ids=INDEXES)
def test_a_bad_index_is_refused(
    weight_map: object, said: str, shards: Callable[[object], Path], refusal: Refusal
) -> None:
    message = refusal(read_safetensors_index, shards(weight_map))
    assert re.search(said, message), message


def test_a_broken_shard_is_named(shards: Callable[[object], Path], tmp_path: Path) -> None:
    path = shards({"x": "stray.safetensors"})
    with pytest.raises(FormatError, match=r"stray\.safetensors: at byte 0, header length"):
        read_safetensors_index(path)
