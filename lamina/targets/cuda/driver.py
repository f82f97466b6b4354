"""CUDA's driver as cuda-python offers it, found without touching it where it is missing."""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any, Final

from lamina.errors import TargetUnavailable

_LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

LOST: Final = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        *("ASSERT", "CONTEXT_IS_DESTROYED", "DEINITIALIZED", "DEVICE_UNAVAILABLE"),
        *("ECC_UNCORRECTABLE", "EXTERNAL_DEVICE", "HARDWARE_STACK_ERROR", "ILLEGAL_ADDRESS"),
        *("ILLEGAL_INSTRUCTION", "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED"),
        *("LAUNCH_TIMEOUT", "MISALIGNED_ADDRESS", "NVLINK_UNCORRECTABLE", "SYSTEM_NOT_READY"),
    )
)
"""The results after which nothing can be done with what is on a device."""

UNFIT: Final = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        *("INVALID_IMAGE", "INVALID_PTX", "INVALID_SOURCE", "JIT_COMPILATION_DISABLED"),
        *("JIT_COMPILER_NOT_FOUND", "NO_BINARY_FOR_GPU", "UNSUPPORTED_PTX_VERSION"),
    )
)
"""The results of code that a device cannot run."""

NO_MEMORY: Final = "CUDA_ERROR_OUT_OF_MEMORY"


class Refusal(Exception):
    """A call of the driver did not succeed."""

    def __init__(self, call: str, status: Any) -> None:
        """Keep the call's name and its result."""
        self.status: str = getattr(status, "name", str(status))
        super().__init__(f"{call}: {self.status}")


def load_driver() -> Any:
    """Return the module of the driver's calls; TargetUnavailable says what is missing.

    The library is looked for first: without it, calls of cuda-python raise, and some of them
    leave a lock behind that later ones wait for.
    """
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        raise TargetUnavailable(
            f"cuda finds no NVIDIA driver here: there is no {_LIBRARY}, which comes with the "
            "driver of a GPU"
        ) from None
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError:
        raise TargetUnavailable(
            "cuda needs the package cuda-python: install it with pip install 'lamina[cuda]'"
        ) from None


def called(driver: Any, name: str, *arguments: Any) -> Any:
    """Return what a call gives: None, its value, or a tuple of values; Refusal if it fails."""
    status, *found = getattr(driver, name)(*arguments)
    if status != 0:
        raise Refusal(name, status)
    return found[0] if len(found) == 1 else tuple(found) or None
