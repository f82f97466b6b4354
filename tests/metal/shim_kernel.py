"""Runs simt kernels as Metal's language, in the shim, as the reference's `run_simt_kernel` does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.dialects.simt import KernelOp
from lamina.errors import InputError
from lamina.targets.metal.msl import KernelText, emit_kernel, library_text
from lamina.targets.plans.layouts import layout
from lamina.targets.reference.kernel import grid_of
from lamina.targets.shading.printer import NodeTable
from lamina.testing.msl import Launch, Library, Memory, compile

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Shimmed:
    """Kernels in one library, by name."""

    library: Library
    kernels: Mapping[str, KernelOp]
    texts: Mapping[str, KernelText]
    nodes: NodeTable

    def run(
        self,
        name: str,
        memrefs: Sequence[Array],
        symbols: Mapping[str, int],
        workers: int = 2,
        schedule: Any = "forward",
    ) -> None:
        """Run every block of the grid; `memrefs` are changed in place."""
        kernel, text = self.kernels[name], self.texts[name]
        values = {**symbols, "workers": workers}
        x, y, z = (*grid_of(kernel, values), 1, 1)[:3]
        if 0 in (x, y, z):
            return
        words = [n for each in map(_words, kernel.memrefs, memrefs) for n in each]
        words += [values[symbol.data] for symbol in kernel.symbols]
        given = [_memory(array) for array in memrefs]
        given += [_memory(np.array(words, np.int32))] if text.words else []
        failed = _memory(np.zeros(1, np.uint32))
        given += [failed] if text.checks else []
        bindings = {n: (memory, 0) for n, memory in enumerate(given)}
        launch = Launch(text.function, (x, y, z), (text.threads, 1, 1), bindings)
        self.library.execute([launch], schedule)
        for array, memory in zip(memrefs, given, strict=False):
            _take_back(array, memory)
        if number := int(np.frombuffer(failed.view, np.uint32)[0]):
            raise InputError(self.nodes.names[number - 1])


def shimmed(kernels: Sequence[KernelOp]) -> Shimmed:
    """Return kernels, compiled into one library."""
    nodes = NodeTable()
    texts = [emit_kernel(kernel, nodes) for kernel in kernels]
    named = {kernel.sym_name.data: kernel for kernel in kernels}
    library = compile(library_text(texts))
    return Shimmed(library, named, {text.name: text for text in texts}, nodes)


def _memory(array: Array) -> Memory:
    flat = _base(array)
    return Memory(flat.nbytes, flat.tobytes())


def _take_back(array: Array, memory: Memory) -> None:
    flat = _base(array)
    flat[...] = np.frombuffer(memory.view, flat.dtype).reshape(flat.shape)


def _base(array: Array) -> Array:
    """Return the array whose memory a view with strides begins in, or the array itself."""
    base = array.base
    same = isinstance(base, np.ndarray) and base.ctypes.data == array.ctypes.data
    return base if same and not array.flags.c_contiguous else array


def _words(value: Any, array: Array) -> list[int]:
    shape = layout(value.type)
    sizes = [n for n, fixed in zip(array.shape, shape.extents, strict=True) if fixed is None]
    for n, fixed in enumerate(shape.strides or ()):
        sizes += [array.strides[n] // array.itemsize] if fixed is None else []
    return sizes
