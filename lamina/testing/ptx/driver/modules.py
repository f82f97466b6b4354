"""Calls about code and its launches."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from lamina.errors import FormatError, InputError
from lamina.testing.ptx.device import Kernel, WrongArchitecture
from lamina.testing.ptx.driver.calls import Refused, call
from lamina.testing.ptx.driver.enumerations import CUfunction_attribute, CUresult
from lamina.testing.ptx.driver.handles import CUdeviceptr, CUkernel, CUlibrary, CUtensorMap
from lamina.testing.ptx.driver.memory import MemoryCalls
from lamina.testing.ptx.layout import Place
from lamina.testing.ptx.tensor_map import TensorMap

NEWEST_PTX = 9.0
"""The newest PTX that the driver takes."""

_SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 11: 4}
"""The bytes of an element, by `CUtensorMapDataType`."""

_WIDTHS = {0: 1, 1: 2, 2: 4, 3: 8}
"""The units of 16 bytes that are exchanged, by `CUtensorMapSwizzle`."""

_DYNAMIC = CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CARVEOUT = CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT


class ModuleCalls(MemoryCalls):
    """`cuLibrary…`, `cuModule…`, `cuKernel…`, `cuFunc…`, `cuLaunchKernel`."""

    newest_ptx = NEWEST_PTX

    @call(1)
    def cuLibraryLoadData(
        self,
        code: Any,
        options: Any = (),
        values: Any = (),
        count: int = 0,
        library_options: Any = (),
        library_values: Any = (),
        library_count: int = 0,
    ) -> CUlibrary:
        """Load PTX text that ends with a zero."""
        return self._load(code)

    @call(1)
    def cuModuleLoadData(self, image: Any) -> CUlibrary:
        """Load PTX text that ends with a zero."""
        return self._load(image)

    @call(1)
    def cuModuleLoadDataEx(self, image: Any, count: int, options: Any, values: Any) -> CUlibrary:
        """Load PTX text that ends with a zero."""
        return self._load(image)

    def _load(self, code: Any) -> CUlibrary:
        image = bytes(code)
        if image[:4] == b"\x7fELF":
            why = "the interpreter runs PTX, not machine code"
            raise Refused(CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, why)
        if not image.lstrip().startswith((b"//", b".version", b"/*")):
            raise Refused(CUresult.CUDA_ERROR_INVALID_IMAGE, "the image is no PTX")
        if b"\0" not in image:
            raise Refused(CUresult.CUDA_ERROR_INVALID_IMAGE, "PTX has to end with a zero byte")
        text = image[: image.index(b"\0")].decode("utf-8", "replace")
        try:
            loaded = self.context.device.load(text)
        except WrongArchitecture as error:
            raise Refused(CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, str(error)) from error
        except FormatError as error:
            raise Refused(CUresult.CUDA_ERROR_INVALID_PTX, str(error)) from error
        library = CUlibrary(loaded, self.context)
        if float(loaded.version) > self.newest_ptx:
            why = f"PTX {loaded.version} is newer than {self.newest_ptx}"
            raise Refused(CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, why)
        self.libraries.append(library)
        return library

    @call(releases=True)
    def cuLibraryUnload(self, library: CUlibrary) -> None:
        """Forget code."""
        self._unload(library)

    @call(releases=True)
    def cuModuleUnload(self, library: CUlibrary) -> None:
        """Forget code."""
        self._unload(library)

    def _unload(self, library: CUlibrary) -> None:
        self._alive(library)
        library.alive = False
        self.libraries = [other for other in self.libraries if other is not library]
        if library.context.alive:
            for address in library.loaded.symbols.values():
                library.context.device.free(address)

    def _alive(self, library: CUlibrary) -> CUlibrary:
        if not library.alive:
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "the code is not loaded any more")
        return library

    @call(1)
    def cuLibraryGetKernel(self, library: CUlibrary, name: bytes) -> CUkernel:
        """Return a kernel."""
        return self._kernel(library, name)

    @call(1)
    def cuModuleGetFunction(self, library: CUlibrary, name: bytes) -> CUkernel:
        """Return a kernel."""
        return self._kernel(library, name)

    @call(1)
    def cuKernelGetFunction(self, kernel: CUkernel) -> CUkernel:
        """Return a kernel as a function, which it is."""
        return kernel

    def _kernel(self, library: CUlibrary, name: bytes) -> CUkernel:
        wanted = bytes(name).rstrip(b"\0").decode()
        try:
            return CUkernel(self._alive(library).loaded.kernel(wanted), library)
        except InputError as error:
            raise Refused(CUresult.CUDA_ERROR_NOT_FOUND, str(error)) from error

    @call(2)
    def cuLibraryGetGlobal(self, library: CUlibrary, name: bytes) -> tuple[CUdeviceptr, int]:
        """Return the address and the size of a variable."""
        return self._global(library, name)

    @call(2)
    def cuModuleGetGlobal(self, library: CUlibrary, name: bytes) -> tuple[CUdeviceptr, int]:
        """Return the address and the size of a variable."""
        return self._global(library, name)

    def _global(self, library: CUlibrary, name: bytes) -> tuple[CUdeviceptr, int]:
        address = self._alive(library).loaded.symbols.get(bytes(name).rstrip(b"\0").decode())
        found = self.context.device.memory.find(address) if address is not None else None
        if address is None or found is None:
            raise Refused(CUresult.CUDA_ERROR_NOT_FOUND, f"there is no variable {name!r}")
        return CUdeviceptr(address), found.size

    @call()
    def cuKernelSetAttribute(self, attribute: int, value: int, kernel: CUkernel, _: int) -> None:
        """Set a fact of a kernel: how much dynamic shared memory it may have."""
        self._set(kernel.kernel, attribute, value)

    @call()
    def cuFuncSetAttribute(self, kernel: CUkernel, attribute: int, value: int) -> None:
        """Set a fact of a kernel: how much dynamic shared memory it may have."""
        self._set(kernel.kernel, attribute, value)

    def _set(self, kernel: Kernel, attribute: int, value: int) -> None:
        most = self.context.specification.shared_limit
        total = kernel.program.shared_bytes + value
        if attribute == _CARVEOUT:
            return
        if attribute != _DYNAMIC or not 0 <= value or total > most:
            why = f"{kernel.name} cannot have {total} bytes of shared memory, at most {most}"
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, why)
        kernel.shared_limit = total

    @call(1)
    def cuKernelGetAttribute(self, attribute: int, kernel: CUkernel, _: int) -> int:
        """Return a fact of a kernel."""
        return self._fact(kernel.kernel, attribute)

    @call(1)
    def cuFuncGetAttribute(self, attribute: int, kernel: CUkernel) -> int:
        """Return a fact of a kernel."""
        return self._fact(kernel.kernel, attribute)

    def _fact(self, kernel: Kernel, attribute: int) -> int:
        program = kernel.program
        facts = {
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: kernel.most_threads,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: program.shared_bytes,
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: program.local_size,
            _DYNAMIC: kernel.shared_limit - program.shared_bytes,
        }
        return facts.get(CUfunction_attribute(attribute), 0)

    @call(1)
    def cuTensorMapEncodeTiled(
        self,
        kind: int,
        rank: int,
        address: int,
        extents: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        steps: Sequence[int],
        interleave: int,
        swizzle: int,
        promotion: int,
        fill: int,
    ) -> CUtensorMap:
        """Describe a tensor in global memory; strides are in bytes, without the innermost."""
        del promotion
        if kind not in _SIZES or swizzle not in _WIDTHS or interleave or fill:
            why = "this kind of tensor map is not known here"
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, why)
        if any(int(step) != 1 for step in steps) or rank != len(extents):
            why = "elements are to follow each other, and as many extents as the rank says"
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, why)
        described = TensorMap(
            _SIZES[kind],
            int(address),
            tuple(map(int, extents)),
            tuple(map(int, strides)),
            tuple(map(int, box)),
            _WIDTHS[swizzle],
        )
        try:
            return CUtensorMap(described.encode())
        except InputError as error:
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, str(error)) from error

    @call(1)
    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, kernel: CUkernel, threads: int, dynamic: int
    ) -> int:
        """Return how many blocks fit by their threads and shared memory."""
        shared = kernel.kernel.program.shared_bytes + dynamic + 1024
        limit = self.context.specification.shared_limit + 1024
        return min(32, 2048 // max(threads, 1), limit // shared)

    @call()
    def cuLaunchKernel(
        self,
        function: CUkernel,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        block_x: int,
        block_y: int,
        block_z: int,
        shared_bytes: int,
        handle: Any,
        params: Any,
        extra: Any,
    ) -> None:
        """Let a stream run a kernel; its arguments are copied now."""
        if extra not in (0, None):
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, "extra options are not taken")
        self._alive(function.library)
        kernel = function.kernel
        device = function.library.context.device
        try:
            octets = arguments(params, kernel.params)
            shape = device.shape(
                kernel, (grid_x, grid_y, grid_z), (block_x, block_y, block_z), shared_bytes
            )
            block = device.pack(kernel, octets)
        except InputError as error:
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, str(error)) from error
        self.submit(handle, lambda: device.run(kernel, shape, block))


def arguments(params: Any, places: tuple[Place, ...]) -> list[bytes]:
    """Return the bytes of each argument.

    `params` is (values, ctypes types), as cuda-python takes it, the address of an array of
    pointers to the values, or 0 for none. Raises `InputError` if the numbers differ.
    """
    if params is None or (isinstance(params, int) and params == 0):
        return []
    if isinstance(params, tuple):
        values, types = params  # pyright: ignore[reportUnknownVariableType]
        if len(values) != len(types):  # pyright: ignore[reportUnknownArgumentType]
            raise InputError("as many types as values are needed")
        if len(values) != len(places):  # pyright: ignore[reportUnknownArgumentType]
            raise InputError(f"{len(places)} arguments are needed")
        rows = zip(values, types, places, strict=True)  # pyright: ignore
        return [_typed(value, kind, place.size) for value, kind, place in rows]  # pyright: ignore
    address = params if isinstance(params, int) else np.asarray(params).ctypes.data
    pointers = (ctypes.c_void_p * len(places)).from_address(address)
    return [
        ctypes.string_at(pointer or 0, place.size)
        for pointer, place in zip(pointers, places, strict=True)
    ]


def _typed(value: Any, kind: Any, size: int) -> bytes:
    if kind is None:
        if hasattr(value, "getPtr"):
            return ctypes.string_at(value.getPtr(), size)
        return bytes(ctypes.c_void_p(int(value))) if isinstance(value, int) else bytes(value)
    if isinstance(value, kind):
        return bytes(value)
    if kind in (ctypes.c_float, ctypes.c_double):
        return bytes(kind(float(value)))
    return bytes(kind(int(value)))
