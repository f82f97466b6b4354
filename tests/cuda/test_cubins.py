from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.dialects.text import read_module
from lamina.errors import LoweringError
from lamina.plugins import manager
from lamina.targets.base import Artifact
from lamina.targets.cuda import cubins
from lamina.targets.cuda.cubins import Cubin, kept_cubin, link, usage_of
from lamina.targets.cuda.emission import emit_artifact
from lamina.targets.cuda.sections import CUBIN, PTX

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'n1' for 'sm_80'
ptxas info    : Function properties for n1
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 128 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 5.890 ms
ptxas info    : Compiling entry function 'n0' for 'sm_80'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, 376 bytes cmem[0]
"""


class Linker:
    """Counts how often it links."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, ptx: bytes, arch: str) -> Cubin:
        self.calls += 1
        return Cubin(b"\x7fELF for " + arch.encode(), {})


@pytest.fixture
def linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Linker:
    linker = Linker()
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cubins, "linker_version", lambda: "13.0")
    monkeypatch.setattr(cubins, "link", linker)
    return linker


def test_the_log_of_the_assembler_is_read_kernel_by_kernel() -> None:
    assert usage_of(LOG) == {
        "n1": {"registers": 10, "spilled_bytes": 8, "stack_bytes": 16, "shared_bytes": 128},
        "n0": {"registers": 168, "spilled_bytes": 0, "stack_bytes": 0, "shared_bytes": 0},
    }


def test_machine_code_is_made_once_for_each_architecture(linker: Linker) -> None:
    for arch in ("sm_80", "sm_90", "sm_80"):
        assert kept_cubin(b"ptx", arch) == b"\x7fELF for " + arch.encode()
    assert linker.calls == 2


def test_machine_code_that_was_changed_on_disk_is_made_again(
    linker: Linker, tmp_path: Path
) -> None:
    kept_cubin(b"ptx", "sm_80")
    (path,) = (tmp_path / "cache" / "cubins").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.warns(UserWarning, match="is not as it was written"):
        assert kept_cubin(b"ptx", "sm_80") == b"\x7fELF for sm_80"
    assert linker.calls == 2


def test_without_a_cache_folder_nothing_is_kept(
    linker: Linker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    assert kept_cubin(b"ptx", "sm_80") == kept_cubin(b"ptx", "sm_80") == b"\x7fELF for sm_80"
    assert linker.calls == 2
    assert not (tmp_path / "cache").exists()


def test_without_the_wheels_there_is_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubins, "linker_version", lambda: None)
    assert link(b"ptx", "sm_80") is kept_cubin(b"ptx", "sm_80") is None


needs_linker = pytest.mark.skipif(
    link(b".version 7.0\n.target sm_80\n.address_size 64\n", "sm_80") is None,
    reason="cuda-python or nvidia-nvjitlink is not installed",
)


@needs_linker
def test_an_artifact_has_machine_code_and_says_what_kernels_take(
    artifact: Callable[[str], Artifact],
) -> None:
    made = artifact("steps")
    assert made.sections[CUBIN].startswith(b"\x7fELF")
    usage = made.facts["usage"]
    assert len(usage) == made.facts["kernels"]
    assert all(each["registers"] > 0 and not each["spilled_bytes"] for each in usage.values())


@needs_linker
def test_ptx_that_the_linker_refuses_is_an_error_in_its_words() -> None:
    with pytest.raises(LoweringError, match=r"nvJitLink refuses the PTX for sm_80: .*"):
        link(b".version 7.0\n.target sm_80\n.address_size 64\nnonsense\n", "sm_80")


def test_a_module_without_kernels_has_no_code(tmp_path: Path) -> None:
    text = """\
!v = !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
func.func @forward(%x: !v {lamina.input = "x"}, %y: !v {lamina.output = "y"}) {
  plan.return
}
"""
    (path := tmp_path / "empty.mlir").write_text(text)
    made = emit_artifact("cuda", read_module(manager.context(), path), "sm_80")
    assert (made.sections[PTX], CUBIN in made.sections) == (b"", False)
