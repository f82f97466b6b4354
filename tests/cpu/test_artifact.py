import os
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lamina.dialects.dims import Dim
from lamina.errors import FormatError, TargetUnavailable
from lamina.targets.artifact_store import (
    ArtifactCache,
    artifact_from_bytes,
    artifact_key,
    artifact_to_bytes,
)
from lamina.targets.base import Artifact, Binding, Signature
from lamina.targets.cpu.target import CpuTarget

Compiled = Callable[[str], Artifact]

SMALL = Artifact(
    "cpu",
    Signature(
        (Binding("x", "f32", (Dim.symbol("T") * 2, Dim.of(3)), "tokens"),),
        (Binding("y", "i32", ()),),
        (Binding("s", "f16", (Dim.of(1),)),),
        {"page": 32},
    ),
    {"code/n0": b"\x00\x01\xff", "plan": b"", "prepare": b"text"},
    {"module": "abc", "kernels": 1},
)


def test_an_artifact_is_the_same_after_bytes_and_back() -> None:
    assert artifact_from_bytes(artifact_to_bytes(SMALL)) == SMALL


def test_every_change_of_one_byte_is_refused() -> None:
    data = bytearray(artifact_to_bytes(SMALL))
    for at in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            data[at] ^= flip
            with pytest.raises(FormatError):
                artifact_from_bytes(bytes(data))
            data[at] ^= flip


def test_every_truncation_and_every_addition_is_refused() -> None:
    data = artifact_to_bytes(SMALL)
    for part in (*(data[:end] for end in range(len(data))), data + b"\0", data + data):
        with pytest.raises(FormatError):
            artifact_from_bytes(part)


@pytest.mark.parametrize("data", [b"", b"\x7fELF" + bytes(100), b"LAMINA\r\n" + bytes(100)])
def test_a_foreign_file_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^/there/a: "):
        artifact_from_bytes(data, Path("/there/a"))


def test_an_artifact_of_another_version_is_refused_by_its_version() -> None:
    data = bytearray(artifact_to_bytes(SMALL))
    struct.pack_into("<I", data, 8, 99)
    with pytest.raises(FormatError, match="field version: expected 1, got 99"):
        artifact_from_bytes(bytes(data))


def test_the_cache_finds_what_it_kept(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path / "new")
    assert cache.find("k") is None
    cache.keep("k", SMALL)
    found = cache.find("k")
    assert found is not None
    assert (found.signature, found.sections) == (SMALL.signature, SMALL.sections)
    assert os.listdir(cache.folder) == ["k.artifact"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def exchange(path: Path) -> None:
    ArtifactCache(path.parent).keep("other", SMALL)
    (path.parent / "other.artifact").rename(path)


@pytest.mark.parametrize("damage", [cut, change, exchange])
def test_the_cache_takes_a_bad_entry_away(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    cache = ArtifactCache(tmp_path)
    cache.keep("k", SMALL)
    damage(tmp_path / "k.artifact")
    with pytest.warns(UserWarning, match="it is compiled again"):
        assert cache.find("k") is None
    assert cache.find("k") is None


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = ArtifactCache(tmp_path / "file")
    with pytest.warns(UserWarning, match="cannot be kept"):
        cache.keep("k", SMALL)
    assert cache.find("k") is None


def test_many_writers_and_readers_see_only_whole_entries(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    large = replace(SMALL, sections={"code": bytes(300_000)})

    def work(_: int) -> bool:
        cache.keep("k", large)
        found = cache.find("k")
        return found is not None and found.sections == large.sections

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(40)))


@pytest.mark.parametrize(
    "other", [(b"h2", "t", "p"), (b"h", "t2", "p"), (b"h", "t", "p2"), (b"ht", "", "p")]
)
def test_a_key_tells_models_targets_and_pipelines_apart(other: Sequence) -> None:
    assert artifact_key(b"h", "t", "p") == artifact_key(b"h", "t", "p")
    assert artifact_key(b"h", "t", "p") != artifact_key(*other)
    assert artifact_key(b"h", "t", "p", "avx2") != artifact_key(b"h", "t", "p", "generic")


def test_a_compiled_plan_runs_after_it_was_bytes(artifact: Compiled) -> None:
    data = artifact_to_bytes(artifact("checked"))
    exe = CpuTarget(threads=1).load(artifact_from_bytes(data), {})
    assert np.array_equal(exe(np.ones(3, np.float32))["y"], np.full(3, 2, np.float32))


@pytest.mark.parametrize(
    ("fact", "value", "message"),
    [
        ("triple", "riscv64-unknown-linux", "the artifact is for riscv64, this machine is"),
        ("flags", "+sse2,+nosuchthing,-avx", "a CPU with nosuchthing, which this machine lacks"),
    ],
)
def test_an_artifact_for_another_machine_is_refused(
    artifact: Compiled, fact: str, value: str, message: str
) -> None:
    good = artifact("checked")
    bad = replace(good, facts={**good.facts, fact: value})
    with pytest.raises(TargetUnavailable, match=message):
        CpuTarget().load(bad, {})


def test_an_artifact_without_a_section_is_refused(artifact: Compiled) -> None:
    good = artifact("checked")
    for name in good.sections:
        rest = {key: data for key, data in good.sections.items() if key != name}
        with pytest.raises(FormatError, match=f"the artifact has no section '{name}'"):
            CpuTarget().load(replace(good, sections=rest), {})
