"""Kernels on a device: their code is loaded once, a dispatch is what it takes to launch one."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lamina.errors import InputError, LoweringError, TargetUnavailable
from lamina.targets.cuda.architectures import architecture, runs_cubin, runs_ptx
from lamina.targets.cuda.cubins import kept_cubin
from lamina.targets.cuda.device import CudaDevice
from lamina.targets.cuda.driver import UNFIT, Refusal, called
from lamina.targets.cuda.tensor_maps import Facts, TensorMap

STATIC_SHARED: Final = 48 << 10
"""The bytes of shared memory that a kernel may declare; more has to be given at its launch."""


_MOST_BLOCKS: Final = (2**31 - 1, 65535, 65535)
"""Of a grid, in each dimension."""


@dataclass(frozen=True)
class KernelFacts:
    """What has to be known of a kernel to launch it: threads and shared memory of a block.

    `maps` are the tensors that a launch describes to it.
    """

    name: str
    threads: int
    shared_bytes: int
    maps: tuple[Facts, ...] = ()

    @property
    def dynamic_bytes(self) -> int:
        """The bytes that a launch gives it: all of them where it cannot declare as many."""
        return self.shared_bytes if self.shared_bytes > STATIC_SHARED else 0


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel on a device."""

    facts: KernelFacts
    function: Any


@dataclass(frozen=True)
class Code:
    """PTX for an architecture, and machine code for it, empty if there is none."""

    ptx: bytes
    arch: str
    cubin: bytes = b""


class Library:
    """Loaded code, unloaded when nobody has it any more."""

    def __init__(self, device: CudaDevice, handle: Any) -> None:
        """Own what the driver calls a library."""
        self.handle = handle
        device.own(self, "cuLibraryUnload", handle)


@dataclass(frozen=True)
class LoadedKernels:
    """The kernels of a plan in its order, and what keeps their code loaded."""

    kernels: tuple[CompiledKernel, ...]
    library: Library | None


def load_kernels(device: CudaDevice, code: Code, facts: Sequence[KernelFacts]) -> LoadedKernels:
    """Return kernels on a device, which is held.

    Raises TargetUnavailable for code that is not for this device, and where a kernel asks for
    more than it has.
    """
    if not runs_ptx(code.arch, device.capability):
        own = architecture(device.capability)
        raise TargetUnavailable(
            f"the code is for {code.arch}, {device.name} is {own}: compile it with arch={own}"
        )
    for each in facts:
        _check_fits(device, each)
    if not facts:
        return LoadedKernels((), None)
    library = _loaded(device, code)
    kernels = tuple(CompiledKernel(each, _function(device, library, each)) for each in facts)
    return LoadedKernels(kernels, library)


def _loaded(device: CudaDevice, code: Code) -> Library:
    """Load machine code where there is some that the driver takes, else have it compile PTX."""
    for image in _cubins(device, code):
        try:
            return Library(device, _load(device, image))
        except Refusal as refusal:
            if refusal.status not in UNFIT:
                raise device.error(refusal) from None
    try:
        return Library(device, _load(device, code.ptx + b"\0"))
    except Refusal as refusal:
        if refusal.status not in UNFIT:
            raise device.error(refusal) from None
        raise TargetUnavailable(
            f"{device.name} cannot run PTX for {code.arch} ({refusal.status}): a newer driver "
            "may, and another arch"
        ) from None


def _cubins(device: CudaDevice, code: Code) -> list[bytes]:
    if code.cubin and runs_cubin(code.arch, device.capability):
        return [code.cubin]
    # Code for one variant of an architecture is made for that variant.
    own = code.arch if code.arch[-1] in "af" else architecture(device.capability)
    try:
        made = kept_cubin(code.ptx, own)
    except LoweringError:
        # The driver may know an architecture that the linker does not.
        return []
    return [made] if made else []


def _load(device: CudaDevice, image: bytes) -> Any:
    return called(device.driver, "cuLibraryLoadData", image, [], [], 0, [], [], 0)


def _function(device: CudaDevice, library: Library, facts: KernelFacts) -> Any:
    name = facts.name.encode()
    kernel = device.call("cuLibraryGetKernel", library.handle, name)
    if facts.dynamic_bytes:
        kind = device.driver.CUfunction_attribute
        attribute = kind.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        device.call("cuKernelSetAttribute", attribute, facts.dynamic_bytes, kernel, device.handle)
    return kernel


def _check_fits(device: CudaDevice, facts: KernelFacts) -> None:
    own = architecture(device.capability)
    needs = (
        ("threads a block", facts.threads, device.most_threads, ""),
        (
            "bytes of shared memory a block",
            facts.shared_bytes,
            device.most_shared,
            f": compile it with arch={own}",
        ),
    )
    for what, number, most, instead in needs:
        if number > most:
            raise TargetUnavailable(
                f"kernel {facts.name} needs {number} {what}, {device.name} has {most}{instead}"
            )


def maps_of(
    device: CudaDevice, facts: KernelFacts, addresses: Sequence[int], words: Sequence[int]
) -> list[Any]:
    """Return the descriptions of tensors that a launch with these memrefs and words gives."""
    return [TensorMap(*each).encoded(device, addresses, words) for each in facts.maps]


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and arguments, ready to be given to a stream."""

    kernel: CompiledKernel
    grid: tuple[int, int, int]
    arguments: tuple[tuple[int, ...], tuple[Any, ...]]

    def give(self, device: CudaDevice, stream: Any = None) -> None:
        """Have a stream, the device's own if none is named, run it after all it was given."""
        facts = self.kernel.facts
        device.call(
            "cuLaunchKernel",
            self.kernel.function,
            *self.grid,
            facts.threads,
            1,
            1,
            facts.dynamic_bytes,
            device.stream if stream is None else stream,
            self.arguments,
            0,
        )


def launch_of(
    kernel: CompiledKernel,
    grid: tuple[int, int, int],
    addresses: Sequence[int],
    words: Sequence[int],
    failed: int,
    maps: Sequence[Any] = (),
) -> Launch:
    """Return a launch: pointers to memrefs, words, a pointer to the error word, and tensor maps.

    InputError for a grid that no device takes.
    """
    if any(size > most for size, most in zip(grid, _MOST_BLOCKS, strict=True)):
        raise InputError(
            f"kernel {kernel.facts.name} needs {grid} blocks, cuda has at most {_MOST_BLOCKS}: "
            "use smaller inputs"
        )
    values = (*addresses, *words, failed, *maps)
    types = (
        *(ctypes.c_void_p for _ in addresses),
        *(ctypes.c_int64 for _ in words),
        ctypes.c_void_p,
        *(None for _ in maps),
    )
    return Launch(kernel, grid, (values, types))
