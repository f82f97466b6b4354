"""The objects of Metal that hold something: sizes, errors, options, buffers and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lamina.testing.msl.kernels import Kernel
from lamina.testing.msl.library import Library
from lamina.testing.msl.memory import Memory


class MTLSize(NamedTuple):
    """Numbers of threadgroups or threads."""

    width: int
    height: int
    depth: int


@dataclass(frozen=True)
class Error:
    """An NSError."""

    text: str

    def localizedDescription(self) -> str:
        """Return the sentence."""
        return self.text


class CompileOptions:
    """An MTLCompileOptions; `values` are what was set."""

    def __init__(self) -> None:
        """Have nothing set."""
        self.values: dict[str, object] = {}

    @classmethod
    def alloc(cls) -> CompileOptions:
        """Return new options."""
        return cls()

    def init(self) -> CompileOptions:
        """Return these options."""
        return self

    def setLanguageVersion_(self, version: int) -> None:
        """Set the version of the language."""
        self.values["languageVersion"] = version

    def setMathMode_(self, mode: int) -> None:
        """Set how far arithmetic may be changed."""
        self.values["mathMode"] = mode

    def setFastMathEnabled_(self, enabled: bool) -> None:
        """Set whether arithmetic may be changed, as macOS before 15 has it."""
        self.values["fastMathEnabled"] = enabled


class Buffer:
    """An MTLBuffer; `outside` is the memory that it was made of without a copy."""

    def __init__(self, memory: Memory) -> None:
        """Be this memory."""
        self.memory = memory
        self.outside: memoryview | None = None

    def length(self) -> int:
        """Return the number of bytes."""
        return self.memory.size

    def contents(self) -> Contents:
        """Return the bytes."""
        view = self.memory.view if self.outside is None else self.outside
        return Contents(view)

    def fetch(self) -> None:
        """Bring what lies outside to where kernels run."""
        if self.outside is not None:
            self.memory.view[:] = self.outside

    def bring_back(self) -> None:
        """Bring to the outside what kernels wrote."""
        if self.outside is not None and not self.outside.readonly:
            self.outside[:] = self.memory.view


@dataclass(frozen=True)
class Contents:
    """The objc.varlist of a buffer's bytes."""

    view: memoryview

    def as_buffer(self, count: int) -> memoryview:
        """Return the first bytes, to be read and written."""
        return self.view[:count]


@dataclass(frozen=True)
class CompiledLibrary:
    """An MTLLibrary."""

    library: Library

    def functionNames(self) -> Sequence[str]:
        """Return the names of all kernels."""
        return tuple(self.library.kernels)

    def newFunctionWithName_(self, name: str) -> Function | None:
        """Return a kernel, None if there is none of that name."""
        kernel = self.library.kernels.get(name)
        return Function(self.library, kernel) if kernel else None


@dataclass(frozen=True)
class Function:
    """An MTLFunction."""

    library: Library
    kernel: Kernel

    def name(self) -> str:
        """Return the kernel's name."""
        return self.kernel.name


@dataclass(frozen=True)
class PipelineState:
    """An MTLComputePipelineState."""

    library: Library
    kernel: Kernel

    def maxTotalThreadsPerThreadgroup(self) -> int:
        """Return how many threads a threadgroup of the kernel may have."""
        return self.kernel.max_threads

    def threadExecutionWidth(self) -> int:
        """Return how many threads a simdgroup has."""
        return 32
