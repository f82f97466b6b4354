import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lamina.errors import InputError, LoweringError
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.model import Weight
from lamina.targets.base import Artifact
from lamina.targets.cpu.target import CpuTarget
from lamina.targets.packing.packed_weights import packed_weights
from lamina.targets.plans.plan_tables import Stored

NUMBERS = np.arange(1000, dtype=np.float32)
SPECS = (Stored("w2", "f32", (1000,)),)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test alone."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "packed"


@pytest.fixture
def prepare(artifact: Callable[[str], Artifact]) -> bytes:
    """The text of a `@prepare` that doubles `w`."""
    return artifact("steps").sections["prepare"]


def weights(folder: Path, numbers: np.ndarray = NUMBERS) -> dict[str, Weight]:
    path = folder / "weights"
    path.write_bytes(numbers.tobytes())
    file = MappedFile(path)
    array = file.view(0, np.dtype("f4"), (1000,))
    return {"w": Weight("w", "f32", (1000,), array, file, 0)}


def test_weights_are_packed_once_and_mapped_from_then_on(
    tmp_path: Path, cache: Path, prepare: bytes
) -> None:
    given = weights(tmp_path)
    (first,) = packed_weights(SPECS, prepare, given)
    (kept,) = cache.iterdir()
    (second,) = packed_weights(SPECS, prepare, given)
    assert first.flags.writeable
    assert not second.flags.writeable
    assert np.array_equal(first, 2 * NUMBERS)
    assert np.array_equal(second, first)
    assert kept.stat().st_size == 4096 + 4000


@pytest.mark.parametrize("pages", ["on", "off"])
def test_an_image_is_aligned_mapped_or_read(
    tmp_path: Path, cache: Path, prepare: bytes, monkeypatch: pytest.MonkeyPatch, pages: str
) -> None:
    monkeypatch.setenv("LAMINA_HUGE_PAGES", pages)
    given = weights(tmp_path)
    packed_weights(SPECS, prepare, given)
    (array,) = packed_weights(SPECS, prepare, given)
    assert array.ctypes.data % 64 == 0
    assert np.array_equal(array, 2 * NUMBERS)
    assert not array.flags.writeable


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def break_header(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])


def replace_by_another(path: Path) -> None:
    path.write_bytes(b"\x7fELF" + bytes(8092))


@pytest.mark.parametrize("damage", [cut, empty, break_header, replace_by_another])
def test_a_bad_image_is_named_and_made_anew(
    tmp_path: Path, cache: Path, prepare: bytes, damage: Callable[[Path], None]
) -> None:
    given = weights(tmp_path)
    packed_weights(SPECS, prepare, given)
    (kept,) = cache.iterdir()
    damage(kept)
    with pytest.warns(UserWarning, match="the weights are packed again") as warned:
        (array,) = packed_weights(SPECS, prepare, given)
    assert len(warned) == 1
    assert np.array_equal(array, 2 * NUMBERS)
    assert kept.stat().st_size == 4096 + 4000


def test_an_image_of_a_file_that_was_changed_is_not_used(
    tmp_path: Path, cache: Path, prepare: bytes
) -> None:
    packed_weights(SPECS, prepare, weights(tmp_path))
    os.utime(tmp_path / "weights", ns=(1, 1))
    (array,) = packed_weights(SPECS, prepare, weights(tmp_path, 3 * NUMBERS))
    assert np.array_equal(array, 6 * NUMBERS)
    assert len(list(cache.iterdir())) == 1


def test_nothing_is_kept_when_the_disk_cache_is_off(
    tmp_path: Path, cache: Path, prepare: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    packed_weights(SPECS, prepare, weights(tmp_path))
    assert not cache.exists()


def test_an_image_that_cannot_be_written_is_done_without(
    tmp_path: Path, cache: Path, prepare: bytes
) -> None:
    cache.parent.mkdir(mode=0o700)
    cache.write_bytes(b"")
    with pytest.warns(UserWarning, match="cannot be kept|packed again"):
        (array,) = packed_weights(SPECS, prepare, weights(tmp_path))
    assert np.array_equal(array, 2 * NUMBERS)


def test_packing_that_fails_leaves_no_file(tmp_path: Path, cache: Path, prepare: bytes) -> None:
    with pytest.raises(LoweringError, match="@prepare gives 'w2' as float32"):
        packed_weights((Stored("w2", "f16", (1000,)),), prepare, weights(tmp_path))
    assert list(cache.iterdir()) == []


DYING = """
import os, sys
from pathlib import Path
import numpy as np
from lamina.targets.packing.image_writer import ImageWriter
from lamina.targets.packing.packed_image import lay_out
from lamina.targets.plans.plan_tables import Stored

layout = lay_out([Stored("a", "i8", (10**6,)), Stored("b", "i8", (10**6,))])
with ImageWriter(Path(sys.argv[1]), "key", layout, [np.ones(10**6, np.int8)] * 2) as writer:
    writer.made(0)
    os._exit(7)
"""


def test_a_process_that_dies_while_it_packs_leaves_no_image(tmp_path: Path) -> None:
    path = tmp_path / "packed" / "x.image"
    done = subprocess.run([sys.executable, "-c", DYING, str(path)], check=False)
    assert done.returncode == 7
    assert not path.exists()


def test_what_a_killed_process_left_is_taken_away_later(
    tmp_path: Path, cache: Path, prepare: bytes
) -> None:
    cache.mkdir(mode=0o700, parents=True)
    old, new, foreign = (cache / f".{n}" for n in (f"x.image.{0:016x}", f"y.{1:016x}", "z"))
    for path in (old, new, foreign):
        path.write_bytes(b"")
    for path in (old, foreign):
        os.utime(path, (1, 1))
    packed_weights(SPECS, prepare, weights(tmp_path))
    assert {*cache.glob(".*")} == {new, foreign}


def test_a_full_disk_costs_the_image_alone(tmp_path: Path, cache: Path, prepare: bytes) -> None:
    resource = pytest.importorskip("resource")
    given, limits = weights(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.warns(UserWarning, match="image: cannot be kept: File too large"):
            (array,) = packed_weights(SPECS, prepare, given)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert np.array_equal(array, 2 * NUMBERS)
    assert list(cache.iterdir()) == []


def test_weights_in_memory_are_packed_each_time(cache: Path, prepare: bytes) -> None:
    (array,) = packed_weights(SPECS, prepare, {"w": NUMBERS})
    assert np.array_equal(array, 2 * NUMBERS)
    assert not cache.exists()


def test_a_result_of_another_shape_or_name_is_refused(prepare: bytes) -> None:
    with pytest.raises(LoweringError, match="@prepare gives 'w2' as float32"):
        packed_weights((Stored("w2", "f16", (1000,)),), prepare, {"w": NUMBERS})
    with pytest.raises(LoweringError, match="@prepare does not give 'v', which @forward takes"):
        packed_weights((Stored("v", "f32", (1000,)),), prepare, {"w": NUMBERS})


def test_a_missing_weight_is_named(artifact: Callable[[str], Artifact]) -> None:
    with pytest.raises(InputError, match="the weight 'w' is missing"):
        CpuTarget().load(artifact("steps"), {})
