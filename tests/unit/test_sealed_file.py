import struct
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from lamina.compiled.sealed_file import MAGIC, read_sealed, sealed_pieces
from lamina.errors import FormatError
from lamina.frontend.model import Weight

ARRAYS = [
    Weight.of("a", np.arange(7, dtype=np.float32)),
    Weight.of("none", np.zeros((0, 3), np.int8)),
    Weight("b", "q4_1", (2, 32), np.arange(40, dtype=np.uint8).reshape(2, 20)),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.lamina"
    path.write_bytes(b"".join(sealed_pieces({"x": 1}, {"code": b"abc", "": b""}, ARRAYS)))
    return path


def test_facts_sections_and_arrays_come_back(path: Path) -> None:
    found = read_sealed(path)
    assert found.facts == {"x": 1}
    assert found.sections == {"code": b"abc", "": b""}
    for given, array in zip(ARRAYS, found.arrays.values(), strict=True):
        assert (array.name, array.dtype, array.shape) == (given.name, given.dtype, given.shape)
        assert np.array_equal(array.array, given.array)


def test_arrays_are_mapped_aligned_and_read_only(path: Path) -> None:
    for each in read_sealed(path).arrays.values():
        assert each.source is not None
        assert each.array.ctypes.data % 64 == 0
        assert not each.array.flags.writeable


def test_every_change_of_one_byte_is_refused(path: Path) -> None:
    data = bytearray(path.read_bytes())
    padding = data.index(b" " * 64)
    for at in (*range(padding + 64), *range(padding + 64, 4096, 97), *range(4096, len(data))):
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        with pytest.raises(FormatError):
            read_sealed(path)
        data[at] ^= 1 << at % 8


def test_every_cut_and_every_addition_is_refused(path: Path) -> None:
    data = path.read_bytes()
    for part in (*(data[:end] for end in range(0, len(data), 37)), data[:-1], data + b"\0"):
        path.write_bytes(part)
        with pytest.raises(FormatError):
            read_sealed(path)


def test_another_version_of_the_format_is_said(path: Path) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 8, 9)
    path.write_bytes(data)
    with pytest.raises(FormatError, match="field version: expected 1, got 9"):
        read_sealed(path)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b"[" * 5000,
        b"{}",
        b'{"digests": [], "facts": {}, "sections": [["a", 1]], "arrays": []}',
        b'{"digests": [], "facts": {}, "sections": [["a", -1]], "arrays": []}',
        b'{"digests": [], "facts": {}, "sections": [], "arrays": [["a", "f32", [9], [9]]]}',
        b'{"digests": [], "facts": {}, "sections": [], "arrays": [["a", "f32", [9], [-9]]]}',
        b'{"digests": [], "facts": {}, "sections": [], "arrays": [["a", "f32", 3, [0.5]]]}',
        b'{"digests": [], "facts": {}, "sections": 3, "arrays": []}',
    ],
)
def test_a_sealed_header_that_says_nonsense_is_refused(tmp_path: Path, header: bytes) -> None:
    head = struct.pack("<8sIIQ", MAGIC, 1, len(header), 56 + len(header))
    (tmp_path / "x").write_bytes(head + sha256(head + header).digest() + header)
    with pytest.raises(FormatError, match="x: the "):
        read_sealed(tmp_path / "x")


def test_a_change_in_any_block_of_a_large_array_is_found(tmp_path: Path) -> None:
    large = Weight.of("large", np.zeros(9 << 20, np.uint8))
    path = tmp_path / "x.lamina"
    path.write_bytes(b"".join(sealed_pieces({}, {}, [large])))
    assert read_sealed(path).arrays["large"].array.nbytes == 9 << 20
    for at in (5000, 5 << 20, (9 << 20) + 4000):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"\1")
            file.flush()
            with pytest.raises(FormatError, match="was changed"):
                read_sealed(path)
            file.seek(at)
            file.write(b"\0")
    read_sealed(path)
