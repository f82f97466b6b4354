"""Where the variables of a kernel lie: its parameters, shared, local and global memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lamina.errors import FormatError
from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.syntax import Module, Variable

SHARED_WINDOW = 0x7E00_0000_0000
"""The generic address of the first shared byte of a thread's block."""

LOCAL_WINDOW = 0x7D00_0000_0000
"""The generic address of a thread's first local byte."""

WINDOW = 1 << 32

_GAP = 64
"""Bytes between two shared variables that belong to neither."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a parameter lies in the block of parameters."""

    offset: int
    size: int
    align: int


def places(params: list[Variable]) -> list[Place]:
    """Return where each parameter lies, each on its alignment."""
    found: list[Place] = []
    offset = 0
    for param in params:
        align = max(param.align, 1)
        offset = -(-offset // align) * align
        found.append(Place(offset, param.size or 0, align))
        offset += param.size or 0
    return found


class Layout:
    """The addresses of the names that one kernel can use."""

    def __init__(self, module: Module, fixed: Mapping[str, int]) -> None:
        self._fixed = dict(fixed)
        self._module = module
        self._shared: dict[str, tuple[int, int]] = {}
        self._dynamic: dict[str, int] = {}
        self._shared_end = 0
        self.shared_bytes = 0
        self.local_size = 0
        self.dynamic_start: int | None = None

    def add_parameters(self, params: list[Variable], address: int) -> None:
        """Place a kernel's parameters in memory at an address."""
        for param, place in zip(params, places(params), strict=True):
            self._fixed[param.name] = address + place.offset

    def add(self, variable: Variable) -> None:
        """Place a variable of the kernel; dynamic shared arrays all begin after the others."""
        align = max(variable.align, 1)
        if variable.space != "shared":
            self.local_size = -(-self.local_size // align) * align
            self._fixed[variable.name] = self.local_size
            self.local_size = -(-(self.local_size + (variable.size or 0)) // 16) * 16
        elif variable.size is None:
            self._dynamic[variable.name] = align
        else:
            start = -(-self._shared_end // align) * align
            self._shared[variable.name] = (start, variable.size)
            self._shared_end = start + variable.size + _GAP
            self.shared_bytes = -(-self.shared_bytes // align) * align + variable.size

    def settle(self) -> None:
        """Place the dynamic shared arrays; nothing is added any more."""
        if self._dynamic:
            align = max(16, *self._dynamic.values())
            self.dynamic_start = -(-self._shared_end // align) * align

    def address(self, line: int, name: str) -> int:
        """Return the address of a name in its space. Raises `FormatError` if there is none."""
        if name in self._shared:
            return self._shared[name][0]
        if name in self._dynamic and self.dynamic_start is not None:
            return self.dynamic_start
        if name in self._fixed:
            return self._fixed[name]
        raise FormatError(f"PTX line {line}: {name} is not declared")

    def shared_valid(self, dynamic: int) -> Array:
        """Return which shared bytes belong to a variable, given how many dynamic ones there are."""
        start = self.dynamic_start
        end = start + dynamic if start is not None else self._shared_end
        valid = np.zeros(end, np.bool_)
        for first, size in self._shared.values():
            valid[first : first + size] = True
        if start is not None:
            valid[start:] = True
        return valid

    def shared_name(self, address: int) -> str:
        """Say which shared variable an address lies in."""
        for name, (start, size) in self._shared.items():
            if start <= address < start + size:
                return f"byte {address - start} of {name}"
        if self.dynamic_start is not None and address >= self.dynamic_start:
            name = next(iter(self._dynamic))
            return f"byte {address - self.dynamic_start} of {name}"
        return "of no variable"
