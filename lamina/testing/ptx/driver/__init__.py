"""CUDA's driver on top of the interpreter, with the names and answers of `cuda.bindings.driver`.

A runtime that takes the driver as an object runs on `FakeDriver()` unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamina.testing.ptx.device import Specification
from lamina.testing.ptx.driver import enumerations, handles
from lamina.testing.ptx.driver.enumerations import CUresult
from lamina.testing.ptx.driver.modules import ModuleCalls

__all__ = ["CUresult", "FakeDriver"]


class FakeDriver(ModuleCalls):
    """The driver of some devices, none of which exists.

    Every call returns (`CUresult`, values…). `fail` and `lose` let calls go wrong, `reason` says
    why the last one did, `counts` counts them, `leaks` lists what was not given back. A kernel's
    fault is raised as `KernelFault`, or with `report=True` an error code that stays; `poison` and
    `independent` are as for `Device`.
    """

    CUresult = CUresult
    CUdevice_attribute = enumerations.CUdevice_attribute
    CUfunction_attribute = enumerations.CUfunction_attribute
    CUstream_flags = enumerations.CUstream_flags
    CUevent_flags = enumerations.CUevent_flags
    CUstreamCaptureMode = enumerations.CUstreamCaptureMode
    CUstreamCaptureStatus = enumerations.CUstreamCaptureStatus
    CUmemPool_attribute = enumerations.CUmemPool_attribute
    CUtensorMapDataType = enumerations.CUtensorMapDataType
    CUtensorMapSwizzle = enumerations.CUtensorMapSwizzle
    CUtensorMapInterleave = enumerations.CUtensorMapInterleave
    CUtensorMapL2promotion = enumerations.CUtensorMapL2promotion
    CUtensorMapFloatOOBfill = enumerations.CUtensorMapFloatOOBfill
    CUtensorMap = handles.CUtensorMap
    CUdeviceptr = handles.CUdeviceptr
    CUstream = handles.CUstream
    CUcontext = handles.CUcontext
    CUdevice = handles.CUdevice

    def __init__(
        self,
        devices: Sequence[Specification] = (Specification(),),
        *,
        report: bool = False,
        poison: int = 0xFF,
        independent: bool = True,
    ) -> None:
        super().__init__(devices, report=report, poison=poison, independent=independent)

    def leaks(self) -> list[str]:
        """Say what is still allocated, loaded or alive, apart from default streams."""
        found = [
            f"{len(context.allocations)} allocations of device {context.ordinal}"
            for context in self.contexts.values()
            if context.allocations
        ]
        made = [stream for stream in self.streams if stream is not stream.context.default]
        for count, what in (
            (len(made), "streams"),
            (len(self.libraries), "libraries"),
            (len(self.graphs), "graphs"),
            (len(self.pinned), "pinned host buffers"),
            (len(self.contexts), "contexts"),
        ):
            if count:
                found.append(f"{count} {what}")
        return found
