import os
import re
from collections.abc import Callable
from pathlib import Path
from struct import pack

import gguf_writer as g
import ml_dtypes
import numpy as np
import pytest

from lamina.dialects.block_types import ACTIVATION_TYPES, BLOCK_TYPES, GGML_TYPES
from lamina.errors import FormatError
from lamina.frontend.gguf import read_gguf

PLAIN = {
    **{"f32": "<f4", "f16": "<f2", "bf16": ml_dtypes.bfloat16, "f64": "<f8"},
    **{"i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8"},
}
BITS_PER_WEIGHT = {
    **{"q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q5_1": 6.0, "q8_0": 8.5, "q2_k": 2.625},
    **{"q3_k": 3.4375, "q4_k": 4.5, "q5_k": 5.5, "q6_k": 6.5625, "iq2_xxs": 2.0625},
    **{"iq2_xs": 2.3125, "iq2_s": 2.5625, "iq3_xxs": 3.0625, "iq3_s": 3.4375, "iq1_s": 1.5625},
    **{"iq1_m": 1.75, "iq4_nl": 4.5, "iq4_xs": 4.25, "tq1_0": 1.6875, "tq2_0": 2.0625},
    **{"mxfp4": 4.25, "nvfp4": 4.5},
}
Write = Callable[..., Path]


def test_metadata_of_every_type_comes_back(write_gguf: Write) -> None:
    numbers = {
        **{"u8": (g.U8, 255), "i8": (g.I8, -128), "u16": (g.U16, 65535)},
        **{"i16": (g.I16, -5), "u32": (g.U32, 2**32 - 1), "i32": (g.I32, -(2**31))},
        **{"u64": (g.U64, 2**64 - 1), "i64": (g.I64, -(2**63)), "f64": (g.F64, 0.1)},
        **{"f32": (g.F32, 0.5), "bool": (g.BOOL, 1), "text": (g.STRING, "né\0")},
    }
    found = read_gguf(write_gguf(numbers, {})).metadata
    assert found == {key: value for key, (_, value) in numbers.items()}
    assert found["bool"] is True


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12])
def test_arrays_of_numbers_are_read_only_views(kind: int, write_gguf: Write) -> None:
    found = read_gguf(write_gguf({"pad": "x", "key": (kind, [0, 1, 1])}, {})).metadata["key"]
    assert found.tolist() == [0, 1, 1]
    assert found.dtype.itemsize == len(g.scalar(kind, 0))
    assert not found.flags.writeable


def test_arrays_of_strings_are_sequences(write_gguf: Write) -> None:
    found = read_gguf(write_gguf({"key": ["", "ab", "\u2581c", "ab"]}, {})).metadata["key"]
    assert list(found) == [found[i] for i in range(4)] == ["", "ab", "\u2581c", "ab"]
    assert (len(found), found[-2], found[1:3]) == (4, "\u2581c", ["ab", "\u2581c"])
    with pytest.raises(IndexError):
        found[4]


def test_a_large_vocabulary_stays_in_the_file(
    write_gguf: Write, traced: Callable[..., int]
) -> None:
    path = write_gguf({"tokenizer.ggml.tokens": [f"token {i}" for i in range(49_152)]}, {})
    assert traced(lambda: read_gguf(path)) < path.stat().st_size


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", PLAIN)
def test_plain_tensors_come_back(name: str, version: int, write_gguf: Write) -> None:
    values = np.arange(15).astype(PLAIN[name]).reshape(3, 5)
    tensors = {"first": np.zeros(3), "x": (name, (3, 5), values.tobytes())}
    file = read_gguf(write_gguf({}, tensors, version=version))
    found = file.tensors["x"]
    assert (file.version, found.dtype, found.shape) == (version, name, (3, 5))
    assert found.array.dtype == values.dtype
    np.testing.assert_array_equal(found.array, values)
    assert not found.array.flags.writeable


@pytest.mark.parametrize("name", BITS_PER_WEIGHT)
def test_block_tensors_come_back_as_bytes_of_rows(name: str, write_gguf: Write) -> None:
    row = int(512 * BITS_PER_WEIGHT[name] / 8)
    tensor = g.random_tensor(name, (2, 3, 512), 512, row, seed=7)
    found = read_gguf(write_gguf({}, {"x": tensor})).tensors["x"]
    assert (found.dtype, found.shape) == (name, (2, 3, 512))
    assert (found.array.dtype, found.array.shape) == (np.uint8, (2, 3, row))
    assert found.array.tobytes() == tensor[2]


def test_every_type_that_a_file_can_hold_is_tested() -> None:
    assert set(PLAIN) | set(BITS_PER_WEIGHT) | ACTIVATION_TYPES == set(BLOCK_TYPES)
    assert all(kind.ggml_id == number for number, kind in GGML_TYPES.items())


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
def test_the_alignment_of_the_file_is_followed(alignment: int, write_gguf: Write) -> None:
    tensors = {"a": np.arange(3.0), "b": np.arange(5.0)}
    file = read_gguf(write_gguf({"general.alignment": alignment}, tensors))
    assert file.alignment == alignment
    assert [weight.array.tolist() for weight in file.tensors.values()] == [
        [0, 1, 2],
        [0, 1, 2, 3, 4],
    ]


def test_scalars_and_empty_tensors_are_read(write_gguf: Write) -> None:
    tensors = {"one": ("f32", (), pack("<f", 2.5)), "none": ("q8_0", (0, 32), b"")}
    found = read_gguf(write_gguf({}, tensors)).tensors
    assert found["one"].array == 2.5
    assert found["none"].array.shape == (0, 34)


def test_tensors_keep_the_order_of_the_file(write_gguf: Write) -> None:
    names = ["z", "a", "m", "b"]
    found = read_gguf(write_gguf({}, {name: np.zeros(1) for name in names})).tensors
    assert list(found) == names


def test_a_released_weight_reads_the_same_again(write_gguf: Write) -> None:
    values = np.arange(100_000.0).astype("f4")
    found = read_gguf(write_gguf({}, {"x": values})).tensors["x"]
    found.release()
    np.testing.assert_array_equal(found.array, values)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_releasing_a_weight_frees_its_resident_pages(write_gguf: Write) -> None:
    found = read_gguf(write_gguf({}, {"x": np.ones(4_000_000, "f4")})).tensors["x"]
    assert found.array.sum(dtype="f8") == 4e6
    before = resident_kib()
    found.release()
    assert before - resident_kib() > 12_000


def resident_kib() -> int:
    return int(re.search(r"VmRSS:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def test_a_file_that_is_written_to_is_noticed(write_gguf: Write) -> None:
    path = write_gguf({}, {"x": np.ones(8)})
    source = read_gguf(path).tensors["x"].source
    source.verify_unchanged()
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(FormatError, match=r"model\.gguf: the file was changed"):
        source.verify_unchanged()


def test_a_file_that_is_cut_after_it_lost_its_name_is_noticed(write_gguf: Write) -> None:
    path = write_gguf({}, {"x": np.ones(8)})
    source = read_gguf(path).tensors["x"].source
    other = path.rename(path.with_name("other"))
    path.write_bytes(other.read_bytes())
    os.truncate(other, 8)
    with pytest.raises(FormatError, match=r"model\.gguf: the file was changed"):
        source.verify_unchanged()


def test_a_file_that_is_replaced_stays_readable(write_gguf: Write, tmp_path: Path) -> None:
    path = write_gguf({}, {"x": np.ones(8)})
    found = read_gguf(path).tensors["x"]
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / "other").rename(path)
    found.source.verify_unchanged()
    assert found.array.sum() == 8
