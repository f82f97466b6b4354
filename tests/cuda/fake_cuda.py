"""The CUDA target on a device that does not exist: the driver is one that interprets PTX."""

from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from lamina.targets.cuda.device import CudaDevice
from lamina.targets.cuda.target import CudaTarget
from lamina.testing.ptx.driver import FakeDriver


@dataclass(frozen=True)
class FakeCudaTarget(CudaTarget):
    """Runs what the CUDA target makes in the interpreter."""

    name: ClassVar[str] = "cuda"

    driver: FakeDriver = field(default_factory=FakeDriver, metadata={"spec": False})

    def open(self) -> CudaDevice:
        return opened(self.driver, self.device)


@cache
def opened(driver: FakeDriver, index: int) -> CudaDevice:
    return CudaDevice(driver, index)
