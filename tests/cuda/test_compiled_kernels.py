from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.errors import FormatError, InputError, LoweringError, TargetUnavailable
from lamina.targets.base import Artifact
from lamina.targets.cuda import compiled_kernels
from lamina.targets.cuda.architectures import runs_cubin, runs_ptx
from lamina.targets.cuda.compiled_kernels import Code, KernelFacts, launch_of, load_kernels
from lamina.targets.cuda.device import CudaDevice
from lamina.targets.cuda.loading import load_artifact
from lamina.testing.ptx import Specification
from lamina.testing.ptx.driver import CUresult, FakeDriver

DEVICES = [(7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (10, 3), (12, 0)]
PTX = (Path(__file__).parent / "kernels.ptx").read_bytes()
CODE = Code(PTX, "sm_80")
SHIFT, TURN = KernelFacts("shift", 64, 0), KernelFacts("turn", 256, 64 << 10)


def put(device: CudaDevice, array: np.ndarray) -> Any:
    buffer = device.storage(array.nbytes)
    device.write(buffer, array)
    return buffer


def test_arguments_are_pointers_then_words_then_the_error_word(device: CudaDevice) -> None:
    loaded = load_kernels(device, CODE, [SHIFT])
    x, y, failed = (put(device, np.arange(300, dtype=np.int32)) for _ in range(3))
    memrefs, words = (x.address + 4, y.address + 8), (100, 2, -5)
    launch_of(loaded.kernels[0], (2, 1, 1), memrefs, words, failed.address).give(device)
    found = device.read(y, 0, 1200).view(np.int32)
    assert np.array_equal(found[2:202:2], np.arange(1, 201, 2) - 5)
    assert np.array_equal(found[3:203:2], np.arange(3, 203, 2)), "what lies between"
    assert device.read(failed, 0, 4).view(np.int32)[0] == 0


def test_a_kernel_reaches_the_error_word(device: CudaDevice) -> None:
    loaded = load_kernels(device, CODE, [SHIFT])
    x, failed = put(device, np.zeros(64, np.int32)), put(device, np.zeros(1, np.int32))
    addresses = (x.address, x.address)
    launch_of(loaded.kernels[0], (1, 1, 1), addresses, (64, 1, 0), failed.address).give(device)
    assert device.read(failed, 0, 4).view(np.int32)[0] == 3


def test_a_kernel_may_have_more_shared_memory_than_it_can_declare(device: CudaDevice) -> None:
    loaded = load_kernels(device, CODE, [TURN])
    data = np.arange(256, dtype=np.int32)
    x, y = put(device, data), device.storage(1024)
    launch_of(loaded.kernels[0], (1, 1, 1), (x.address, y.address), (), 0).give(device)
    assert np.array_equal(device.read(y, 0, 1024).view(np.int32), data[::-1])


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (replace(TURN, shared_bytes=200 << 10), "turn needs 204800 bytes of shared memory a block"),
        (replace(SHIFT, threads=2048), r"shift needs 2048 threads a block, .* has 1024"),
    ],
)
def test_a_kernel_that_asks_for_more_than_there_is_is_named(
    device: CudaDevice, facts: KernelFacts, message: str
) -> None:
    with pytest.raises(TargetUnavailable, match=message):
        load_kernels(device, CODE, [facts])


def test_a_grid_that_no_device_takes_is_refused(device: CudaDevice) -> None:
    kernel = load_kernels(device, CODE, [SHIFT]).kernels[0]
    with pytest.raises(InputError, match=r"kernel shift needs \(1, 70000, 1\) blocks, cuda has"):
        launch_of(kernel, (1, 70000, 1), (), (), 0)


def test_a_kernel_that_goes_astray_loses_the_device() -> None:
    device = CudaDevice(driver := FakeDriver(report=True), 0)
    loaded = load_kernels(device, CODE, [SHIFT])
    launch_of(loaded.kernels[0], (1, 1, 1), (0, 0), (64, 1, 1), 0).give(device)
    with pytest.raises(TargetUnavailable, match=r"was lost \(CUDA_ERROR_ILLEGAL_ADDRESS\)"):
        device.wait()
    assert driver.leaks() == []


@pytest.mark.parametrize("result", ["INVALID_PTX", "UNSUPPORTED_PTX_VERSION", "NO_BINARY_FOR_GPU"])
def test_code_that_the_driver_refuses_is_said_to_need_another(
    device: CudaDevice, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, result: str
) -> None:
    monkeypatch.setattr(compiled_kernels, "kept_cubin", lambda *_: None)
    driver.fail(CUresult[f"CUDA_ERROR_{result}"], "cuLibraryLoadData")
    with pytest.raises(TargetUnavailable, match=rf"cannot run PTX for sm_80 \(CUDA_ERROR_{result}"):
        load_kernels(device, CODE, [SHIFT])


def test_a_plan_without_kernels_needs_no_code(device: CudaDevice) -> None:
    assert load_kernels(device, Code(b"", "sm_80"), []).kernels == ()


def test_machine_code_that_a_driver_does_not_take_makes_way_for_ptx(
    device: CudaDevice, driver: FakeDriver
) -> None:
    assert load_kernels(device, replace(CODE, cubin=b"\x7fELF of sm_80"), [SHIFT]).kernels
    assert driver.counts["cuLibraryLoadData"] == 2


def test_machine_code_for_another_device_is_linked_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(compiled_kernels, "kept_cubin", lambda _, arch: asked.append(arch))
    device = CudaDevice(driver := FakeDriver([Specification((9, 0))]), 0)
    assert load_kernels(device, replace(CODE, cubin=b"\x7fELF of sm_80"), [SHIFT]).kernels
    assert asked == ["sm_90"]
    assert driver.counts["cuLibraryLoadData"] == 1


def test_a_linker_that_does_not_know_the_device_leaves_it_to_the_driver(
    device: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(ptx: bytes, arch: str) -> bytes:
        raise LoweringError(f"{arch} is not known")

    monkeypatch.setattr(compiled_kernels, "kept_cubin", refuse)
    assert load_kernels(device, CODE, [SHIFT]).kernels


@pytest.mark.parametrize(
    ("arch", "ptx", "cubin"),
    [
        ("sm_80", DEVICES[1:], [(8, 0), (8, 6)]),
        ("sm_86", DEVICES[2:], [(8, 6)]),
        ("sm_90a", [(9, 0)], [(9, 0)]),
        ("sm_100f", [(10, 0), (10, 3)], [(10, 0), (10, 3)]),
        ("sm_120", [(12, 0)], [(12, 0)]),
    ],
)
def test_an_architecture_says_where_its_code_runs(
    arch: str, ptx: list[tuple[int, int]], cubin: list[tuple[int, int]]
) -> None:
    assert [each for each in DEVICES if runs_ptx(arch, each)] == ptx
    assert [each for each in DEVICES if runs_cubin(arch, each)] == cubin


def test_what_is_no_architecture_is_refused() -> None:
    with pytest.raises(FormatError, match="'gfx90a' is no architecture"):
        runs_ptx("gfx90a", (8, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sections": ("ptx", None)}, "has no section 'ptx'"),
        ({"sections": ("kernels", b"[]")}, "has no kernel 'double'"),
        ({"sections": ("kernels", b"{")}, "kernels cannot be read"),
        ({"facts": {}}, "does not say its arch"),
        ({"facts": {"arch": "gfx9"}}, "'gfx9' is no architecture"),
    ],
)
def test_an_artifact_that_is_not_whole_is_refused(
    artifact: Callable[[str], Artifact], device: CudaDevice, change: dict[str, Any], message: str
) -> None:
    whole = artifact("steps")
    if "sections" in change:
        name, data = change["sections"]
        sections = {k: data if k == name else v for k, v in whole.sections.items()}
        change = {"sections": {k: v for k, v in sections.items() if v is not None}}
    with pytest.raises(FormatError, match=message):
        load_artifact(replace(whole, **change), {}, device)
