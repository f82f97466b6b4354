"""Planned modules for CUDA, and a device that does not exist to run them on."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lamina.dialects.text import read_module
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.plugins import manager
from lamina.targets.base import Artifact
from lamina.targets.cuda.device import CudaDevice
from lamina.targets.cuda.executable import CudaExecutable
from lamina.targets.cuda.loading import load_artifact
from lamina.targets.cuda.target import CudaTarget
from lamina.testing.ptx.driver import FakeDriver

PLANS = Path(__file__).parents[1] / "cpu" / "plans"
WEIGHTS = {"w": np.arange(1000, dtype=np.float32)}


@cache
def artifact_of(name: str) -> Artifact:
    context = manager.context()
    module = read_module(context, PLANS / f"{name}.mlir")
    ChooseLayoutsPass(128).apply(context, module)
    LowerTilesPass(128, 32).apply(context, module)
    return CudaTarget().emit(context, module)


@pytest.fixture(scope="session")
def artifact() -> Callable[[str], Artifact]:
    """Return what a plan is compiled to."""
    return artifact_of


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def device(driver: FakeDriver) -> Iterator[CudaDevice]:
    """A device of the driver; whatever was made on it is given back in the end."""
    device = CudaDevice(driver, 0)
    yield device
    device.close()
    assert driver.leaks() == []


@pytest.fixture
def load(device: CudaDevice) -> Callable[[str], CudaExecutable]:
    """Load a plan on the device."""
    return lambda name: load_artifact(artifact_of(name), WEIGHTS, device)
