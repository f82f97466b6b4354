"""What the commands do with the target: compile without an adapter, dump WGSL, and run."""

import sys
from pathlib import Path

import numpy as np
import pytest

STAGE = """func.func @forward(
  %x: tensor<?x8xf32, #nn.dims<["T"]>> {lamina.input = "x"},
  %y: tensor<?x8xf32, #nn.dims<["T"]>> {lamina.input = "y"}
) -> (tensor<?x8xf32, #nn.dims<["T"]>> {lamina.output = "z"}) {
  %s = nn.add %x, %y {lamina.src = ["/s"]} : tensor<?x8xf32, #nn.dims<["T"]>>
  %z = nn.exp %s {lamina.src = ["/z"]} : tensor<?x8xf32, #nn.dims<["T"]>>
  func.return %z : tensor<?x8xf32, #nn.dims<["T"]>>
}
"""


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    path = tmp_path / "sum.mlir"
    path.write_text(STAGE)
    return path


def test_the_target_is_listed_with_its_options(command):
    code, out, _ = command("targets", "webgpu")
    assert code == 0
    assert all(option in out for option in ("adapter", "subgroups", "kv", "lower-tiles"))


def test_a_model_is_compiled_and_dumped_without_wgpu(command, stage, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wgpu", None)
    out, dump = tmp_path / "sum.lamina", tmp_path / "dump"
    code, _, err = command("compile", stage, "-o", out, "--target", "webgpu", "--dump-ir", dump)
    assert code == 0, err
    (listing,) = dump.glob("*.wgsl")
    assert "var<storage, read_write> m2: array<u32>;" in listing.read_text()
    assert any("simt.kernel" in each.read_text() for each in dump.glob("*lower-tiles.mlir"))


def test_stages_and_files_run_where_they_are_for_if_nothing_else_is_said(
    device, command, stage, tmp_path
):
    made, given = tmp_path / "sum.lamina", ("--random", "--output", tmp_path)
    asked = ("--target", "webgpu{kv=f16}", "--dump-ir", tmp_path / "dump")
    assert command("compile", stage, "-o", made, *asked)[0] == 0
    assert command("run", stage, *given)[0] == 0
    expected = np.load(tmp_path / "z.npy")
    for model in (made, *(tmp_path / "dump").glob("*lower-tiles.mlir")):
        code, _, err = command("run", model, *given)
        assert code == 0, err
        np.testing.assert_allclose(np.load(tmp_path / "z.npy"), expected, rtol=1e-5)


def test_an_adapter_that_is_not_there_ends_the_command_in_a_sentence(device, command, stage):
    code, _, err = command("run", stage, "--random", "--target", 'webgpu{adapter="77"}')
    assert code == 1
    assert "webgpu has no adapter '77'" in err


def test_a_stage_with_kernels_goes_on_for_its_own_target_alone(command, stage, tmp_path):
    command(
        "compile", stage, "-o", tmp_path / "a.lamina", "--target", "webgpu", "--dump-ir", tmp_path
    )
    last = max(tmp_path.glob("*-choose-layouts.mlir"))
    code, _, err = command("run", last, "--random", "--target", "cpu")
    assert code == 1
    assert "the stage has kernels for the target webgpu: run it with --target 'webgpu'" in err
