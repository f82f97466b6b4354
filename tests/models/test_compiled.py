"""Compiled models as files: they run alone, and what is wrong with one is a sentence."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lamina
from lamina import compiler
from lamina.compiled.model import CompiledModel, write_compiled
from lamina.errors import FormatError, InputError, TargetUnavailable
from lamina.frontend.model import Model
from lamina.targets.base import Artifact
from lamina.targets.cpu.target import CpuTarget

Command = Callable[..., tuple[int, str, str]]
IDS = [3, 1, 4, 1, 5]
DOUBLE = """
func.func @forward(
    %x: tensor<3xf32> {lamina.input = "x"}
) -> (tensor<3xf32> {lamina.output = "y"}) {
  %y = nn.add %x, %x : tensor<3xf32>
  func.return %y : tensor<3xf32>
}
"""


@pytest.fixture(scope="module")
def source(tiny: Any) -> Model:
    return tiny("gguf-q4_1")[1]


@pytest.fixture(scope="module")
def carried(source: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("carried") / "x.lamina"
    compiler.compile_to_file(source, path)
    return path


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Have no room for larger files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["llama", "gguf-q8_0", "llama-llama3", "gpt2"])
def test_a_compiled_model_gives_the_same_bits(tiny: Any, tmp_path: Path, name: str) -> None:
    model = tiny(name)[1]
    compiler.compile_to_file(model, tmp_path / "x.lamina")
    read = lamina.read(tmp_path / "x.lamina")
    assert read.config == model.config
    assert np.array_equal(lamina.LLM(read).logits(IDS), lamina.LLM(model).logits(IDS))


def test_a_compiled_encoder_gives_the_same_bits(tiny: Any, tmp_path: Path) -> None:
    model = tiny("bert")[1]
    compiler.compile_to_file(model, tmp_path / "x")
    ids = np.array([IDS], np.int32)
    inputs = {each.name: np.ones_like(ids) for each in lamina.compile(model).inputs}
    one, two = (lamina.compile(m)(**inputs) for m in (model, lamina.read(tmp_path / "x")))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_a_target_that_does_not_pack_carries_the_weights_as_they_are(
    source: Model, tmp_path: Path
) -> None:
    compiler.compile_to_file(source, tmp_path / "x.lamina", "reference")
    read = lamina.read(tmp_path / "x.lamina")
    assert list(read.weights) == list(source.weights)
    logits = lamina.LLM(read, "reference").logits(IDS)
    assert np.array_equal(logits, lamina.LLM(source, "reference").logits(IDS))


def test_the_file_is_all_that_is_needed(
    carried: Path, source: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = lamina.LLM(source).logits(IDS)
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    shutil.copy(carried, tmp_path / "moved")
    assert np.array_equal(lamina.LLM(tmp_path / "moved").logits(IDS), expected)


def test_commands_take_the_file(command: Command, source: Model, tmp_path: Path) -> None:
    code, out, err = command("compile", source.source, "-o", tmp_path / "x.lamina")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'x.lamina'}: ")
    paths = (source.source, tmp_path / "x.lamina")
    one, two = (json.loads(command("run", p, "--random", "--json")[1]) for p in paths)
    assert one["outputs"] == two["outputs"]
    code, out, _ = command("inspect", tmp_path / "x.lamina")
    assert code == 0
    assert "kernels" in out


def test_the_options_of_the_target_are_kept(source: Model, tmp_path: Path) -> None:
    compiler.compile_to_file(source, tmp_path / "x.lamina", CpuTarget(activations="f32"))
    read = lamina.read(tmp_path / "x.lamina")
    exact = lamina.LLM(source, activations="f32").logits(IDS)
    assert np.array_equal(lamina.LLM(read).logits(IDS), exact)
    assert np.array_equal(lamina.LLM(read, activations="f32").logits(IDS), exact)


@pytest.mark.parametrize("target", ["reference", CpuTarget(features="generic")])
def test_it_runs_for_no_other_target(carried: Path, target: Any) -> None:
    with pytest.raises(InputError, match=r"x\.lamina: was compiled for the target cpu, not "):
        lamina.compile(lamina.read(carried), target)


def test_there_is_nothing_to_compile(carried: Path, tmp_path: Path) -> None:
    read = lamina.read(carried)
    with pytest.raises(InputError, match="is compiled, there are no passes"):
        lamina.compile(read, dump=tmp_path)
    with pytest.raises(InputError, match="is compiled, and has no graph"):
        _ = read.module
    with pytest.raises(InputError, match="is compiled already"):
        compiler.compile_to_file(read, tmp_path / "y.lamina")


def test_a_changed_byte_or_a_cut_anywhere_is_refused(carried: Path, tmp_path: Path) -> None:
    data, bad = carried.read_bytes(), tmp_path / "bad.lamina"
    for at in range(0, len(data), len(data) // 60):
        bad.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(FormatError, match=r"bad\.lamina: "):
            lamina.read(bad)
        bad.write_bytes(data[:at])
        with pytest.raises(FormatError, match=r"bad\.lamina: "):
            lamina.read(bad)


def test_code_of_another_version_is_refused(carried: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(lamina, "__version__", "99.0")
    with pytest.raises(FormatError, match=r"of Lamina, this is 99\.0: compile the model again"):
        lamina.read(carried)


@pytest.mark.parametrize(
    ("fact", "value", "told"),
    [
        ("triple", "riscv64-unknown-linux", "is for riscv64, this machine is"),
        ("flags", "+nosuchthing", "a CPU with nosuchthing, which this machine lacks"),
    ],
)
def test_code_for_another_cpu_is_refused(
    carried: Path, source: Model, tmp_path: Path, fact: str, value: str, told: str
) -> None:
    read = lamina.read(carried)
    assert isinstance(read, CompiledModel)
    artifact = read.artifact
    other = Artifact("cpu", artifact.signature, artifact.sections, {**artifact.facts, fact: value})
    path = tmp_path / "x.lamina"
    write_compiled(path, source, read.target, lambda: other, with_weights=True)
    with pytest.raises(TargetUnavailable, match=told):
        lamina.LLM(path)


def test_without_weights_the_files_beside_it_are_used(source: Model, tmp_path: Path) -> None:
    assert source.source
    path = tmp_path / "x.lamina"
    compiler.compile_to_file(source, path, with_weights=False)
    with pytest.raises(InputError, match=r"was compiled without weights: put model\.gguf \("):
        lamina.read(path)
    shutil.copy(source.source, tmp_path)
    assert np.array_equal(lamina.LLM(path).logits(IDS), lamina.LLM(source).logits(IDS))
    data = bytearray((tmp_path / "model.gguf").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.gguf").write_bytes(data)
    with pytest.raises(FormatError, match=r"is not the file that .* was compiled from"):
        lamina.read(path)


def test_without_weights_a_folder_is_found_by_its_name_or_around_the_file(
    tiny: Any, tmp_path: Path
) -> None:
    model = tiny("llama")[1]
    compiler.compile_to_file(model, tmp_path / "x.lamina", with_weights=False)
    folder = tmp_path / model.source.name
    shutil.copytree(model.source, folder)
    shutil.copy(tmp_path / "x.lamina", folder)
    expected = lamina.LLM(model).logits(IDS)
    for path in (tmp_path, folder):
        assert np.array_equal(lamina.LLM(path / "x.lamina").logits(IDS), expected)


def test_a_module_without_weights_needs_none(tmp_path: Path) -> None:
    (tmp_path / "double.mlir").write_text(DOUBLE)
    model = lamina.read(tmp_path / "double.mlir")
    compiler.compile_to_file(model, tmp_path / "x.lamina", with_weights=False)
    run = lamina.compile(lamina.read(tmp_path / "x.lamina"))
    assert run(np.ones(3, np.float32))["y"].tolist() == [2, 2, 2]


def test_a_full_disk_leaves_what_was_there(carried: Path, source: Model, tmp_path: Path) -> None:
    path = tmp_path / "x.lamina"
    path.write_bytes(b"former")
    with (
        files_up_to(carried.stat().st_size - 1),
        pytest.raises(InputError, match=r"x\.lamina: cannot be written"),
    ):
        compiler.compile_to_file(source, path)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"former"]


def test_a_full_cache_is_done_without(
    source: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = lamina.LLM(source).logits(IDS)
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    with files_up_to(1000), pytest.warns(UserWarning, match="cannot be kept"):
        logits = lamina.LLM(source).logits(IDS)
    assert np.array_equal(logits, expected)
    assert not [each for each in (tmp_path / "cache").rglob("*") if each.is_file()]


def test_a_cache_that_cannot_be_made_is_done_without(
    source: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "file" / "below"))
    with pytest.warns(UserWarning, match="; nothing is kept"):
        assert lamina.LLM(source).logits(IDS).shape[0] == len(IDS)


def test_a_pipe_is_not_replaced(source: Model, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a device or a pipe"):
        compiler.compile_to_file(source, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_of_the_model_is_not_overwritten(source: Model, tmp_path: Path) -> None:
    copy = tmp_path / "m.gguf"
    shutil.copy(str(source.source), copy)
    before = copy.read_bytes()
    with pytest.raises(InputError, match=r"m\.gguf: is a file of the model itself"):
        compiler.compile_to_file(lamina.read(copy), copy)
    with pytest.raises(InputError, match="there is no such folder"):
        compiler.compile_to_file(lamina.read(copy), tmp_path / "no" / "x.lamina")
    assert copy.read_bytes() == before


PASSES_RUN = """
import sys
import lamina
from lamina.progress import listening
works = set()
with listening(lambda work, done, total: works.add(work)):
    logits = lamina.LLM(sys.argv[1]).logits([3, 1, 4])
print("running passes" in works, "packing weights" in works, logits.tobytes().hex())
"""


def test_two_that_start_at_once_compile_once(source: Model, tmp_path: Path) -> None:
    environ = {"LAMINA_CACHE": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", PASSES_RUN, str(source.source)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) for _ in range(2)
    ]
    told = [process.communicate()[0].split() for process in started]
    assert sorted(compiled for compiled, _, _ in told) == ["False", "True"]
    assert sorted(packed for _, packed, _ in told) == ["False", "True"]
    assert told[0][2] == told[1][2]
    assert not list((tmp_path / "cache").rglob("*.lock"))
