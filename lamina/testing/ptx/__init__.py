"""Run PTX without a GPU: an interpreter in NumPy that checks every access.

`Device().load(text).kernel(name)` is a kernel; `Device.launch` runs it in lock-step over the
threads of a few blocks at a time, and raises `KernelFault` for races on shared memory, accesses
outside or misaligned, copies that were not waited for, and threads that do not meet.
`lamina.testing.ptx.driver` has the functions of CUDA's driver on top of it.
"""

from lamina.testing.ptx.device import Device, Kernel, Loaded, Specification, WrongArchitecture
from lamina.testing.ptx.fault import KernelFault
from lamina.testing.ptx.memory import MemoryFull
from lamina.testing.ptx.parser import parse
from lamina.testing.ptx.traffic import Traffic

__all__ = [
    "Device",
    "Kernel",
    "KernelFault",
    "Loaded",
    "MemoryFull",
    "Specification",
    "Traffic",
    "WrongArchitecture",
    "parse",
]
