import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import lamina.targets.cuda
from lamina.errors import TargetUnavailable
from lamina.targets.cuda import driver as drivers
from lamina.targets.cuda.driver import LOST, UNFIT, Refusal, called, load_driver
from lamina.testing.ptx.driver import CUresult, FakeDriver

SOURCES = Path(lamina.targets.cuda.__file__).parent.glob("*.py")
CALLS = {name for path in SOURCES for name in re.findall(r'"(cu[A-Z]\w+)"', path.read_text())}


def test_every_call_that_is_made_is_one_of_the_interpreted_driver() -> None:
    assert len(CALLS) > 30
    assert [name for name in sorted(CALLS) if not hasattr(FakeDriver, name)] == []


def test_every_call_and_result_that_is_named_is_one_of_cuda_python() -> None:
    real = pytest.importorskip("cuda.bindings.driver", reason="cuda-python is not installed")
    assert [name for name in sorted(CALLS) if not hasattr(real, name)] == []
    assert (LOST | UNFIT) - {each.name for each in real.CUresult} == set()


def test_a_call_gives_nothing_a_value_or_several() -> None:
    driver = FakeDriver()
    assert called(driver, "cuInit", 0) is None
    assert called(driver, "cuDeviceGetCount") == 1
    called(driver, "cuCtxSetCurrent", called(driver, "cuDevicePrimaryCtxRetain", 0))
    free, total = called(driver, "cuMemGetInfo")
    assert free <= total


def test_a_call_that_fails_says_which_it_was() -> None:
    driver = FakeDriver()
    driver.fail(CUresult.CUDA_ERROR_NOT_SUPPORTED, "cuInit")
    with pytest.raises(Refusal, match="cuInit: CUDA_ERROR_NOT_SUPPORTED"):
        called(driver, "cuInit", 0)


def test_without_cuda_python_the_command_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(drivers.ctypes, "CDLL", lambda _: None)
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(TargetUnavailable, match=r"pip install 'lamina\[cuda\]'"):
        load_driver()
