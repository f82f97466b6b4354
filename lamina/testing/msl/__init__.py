"""Metal kernels run and checked on a machine that has no Metal.

`compile(text)` gives a `Library`, whose `run` runs a kernel on the CPU, threads in an order of
choice, and tells of races, of barriers that not all threads come to, and of accesses outside of
buffers. `check(text)` type-checks a text with libclang. `device` imitates the objects of Metal.
"""

from lamina.testing.msl.check import Diagnostic, check
from lamina.testing.msl.errors import MslError
from lamina.testing.msl.kernels import Argument, Kernel, kernels_of
from lamina.testing.msl.library import SCHEDULES, Launch, Library, Schedule, compile
from lamina.testing.msl.memory import Memory

__all__ = [
    "SCHEDULES",
    "Argument",
    "Diagnostic",
    "Kernel",
    "Launch",
    "Library",
    "Memory",
    "MslError",
    "Schedule",
    "check",
    "compile",
    "kernels_of",
]
