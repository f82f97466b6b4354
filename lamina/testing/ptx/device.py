"""A device that runs PTX: memory, modules and launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.errors import FormatError, InputError
from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx import schedule
from lamina.testing.ptx.layout import Place
from lamina.testing.ptx.memory import Memory
from lamina.testing.ptx.neighbours import Neighbours
from lamina.testing.ptx.parser import parse
from lamina.testing.ptx.program import Program, decode
from lamina.testing.ptx.syntax import Module, Symbol, Variable
from lamina.testing.ptx.threads import Shape, Threads
from lamina.testing.ptx.traffic import Traffic

STATIC_LIMIT = 48 << 10
"""Bytes of shared memory a block may have unless its kernel asks for more."""

PARAMETERS = 4 << 10
"""Bytes of parameters a kernel may have."""

_THREADS_AT_ONCE = 8192
_REGISTER_BYTES_AT_ONCE = 256 << 20

_OPT_IN = {(8, 0): 163, (8, 6): 99, (8, 7): 163, (8, 9): 99, (9, 0): 227, (10, 0): 227, (12, 0): 99}
_LARGEST_BLOCK = (1024, 1024, 64)
_LARGEST_GRID = (2**31 - 1, 65535, 65535)


class WrongArchitecture(InputError):
    """PTX was made for a device that this one is not."""


@dataclass(frozen=True)
class Specification:
    """What a device is: its compute capability, bytes of memory, and what it is called."""

    capability: tuple[int, int] = (8, 0)
    memory: int = 1 << 30
    name: str = "PTX interpreter"

    @property
    def shared_limit(self) -> int:
        """The most bytes of shared memory that a block can ask for."""
        return _OPT_IN.get(self.capability, 99) << 10


class Kernel:
    """An entry point of a loaded module; `shared_limit` may be raised up to the device's."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.name = program.name
        self.params: tuple[Place, ...] = program.params
        self.shared_limit = STATIC_LIMIT

    @property
    def most_threads(self) -> int:
        """The most threads a block may have."""
        limit = 1
        for extent in self.program.directives.get("maxntid", (1024,)):
            limit *= extent
        return min(limit, 1024)


class Loaded:
    """A module on a device: its variables have addresses, its kernels are decoded when asked."""

    def __init__(self, module: Module, symbols: dict[str, int], parameters: int) -> None:
        self.symbols = symbols
        self.version = module.version
        self._module = module
        self._parameters = parameters
        self._kernels: dict[str, Kernel] = {}

    @property
    def names(self) -> list[str]:
        """The names of the kernels."""
        functions = self._module.functions.values()
        return [function.name for function in functions if function.entry]

    def kernel(self, name: str) -> Kernel:
        """Return a kernel. Raises `InputError` if there is none, `UnsupportedError` as `decode`."""
        if name not in self.names:
            raise InputError(f"no kernel is called {name}: there are {', '.join(self.names)}")
        if name not in self._kernels:
            function = self._module.functions[name]
            program = decode(self._module, function, self.symbols, self._parameters)
            self._kernels[name] = Kernel(program)
        return self._kernels[name]


class Device:
    """Runs kernels one at a time, in lock-step, with every access checked.

    `poison` fills memory that nobody has written, `limit` is how many turns a launch may take
    before it is said to be endless. Blocks may not use what others of the launch change, unless
    they are not `independent`.
    """

    def __init__(
        self,
        specification: Specification | None = None,
        *,
        poison: int = 0xFF,
        independent: bool = True,
        limit: int = 1_000_000,
    ) -> None:
        self.specification = specification or Specification()
        self.poison = poison
        self._limit = limit
        self.memory = Memory(self.specification.memory + PARAMETERS, poison)
        self._neighbours = Neighbours(self.memory) if independent else None
        self._parameters = self.memory.alloc(PARAMETERS, "the parameters")

    def alloc(self, size: int, name: str = "") -> int:
        """Return the address of `size` bytes. Raises `MemoryFull`."""
        return self.memory.alloc(size, name)

    def free(self, address: int) -> None:
        """Give an allocation back. Raises `InputError` if there is none."""
        self.memory.free(address)
        if self._neighbours is not None:
            self._neighbours.forget(address)

    def put(self, values: Array, name: str = "") -> int:
        """Return the address of a new allocation that holds an array."""
        octets = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        address = self.alloc(max(len(octets), 1), name)
        self.memory.view(address, len(octets))[:] = octets
        return address

    def get(self, address: int, dtype: Any, shape: int | tuple[int, ...]) -> Array:
        """Return a copy of what lies at an address, as an array."""
        found: Array = np.empty(shape, dtype)
        octets = self.memory.view(address, found.nbytes)
        found.reshape(-1).view(np.uint8)[:] = octets
        return found

    def load(self, text: str) -> Loaded:
        """Load PTX. Raises as `parse` does, and `WrongArchitecture` for another device's."""
        module = parse(text)
        self._check_target(module.target)
        symbols: dict[str, int] = {}
        variables = [
            variable
            for variable in (
                *module.variables.values(),
                *(v for f in module.functions.values() for v in f.variables.values()),
            )
            if variable.space in ("global", "const")
        ]
        for variable in variables:
            symbols[variable.name] = self.alloc(variable.size or 0, variable.name)
        for variable in variables:
            self._fill(variable, symbols)
        return Loaded(module, symbols, self._parameters)

    def _check_target(self, target: str) -> None:
        major, minor = self.specification.capability
        digits = "".join(character for character in target if character.isdigit())
        if not target.startswith("sm_") or not digits:
            raise FormatError(f"the PTX has the target {target!r}: expected sm_80 or the like")
        exact = target[-1] in "af"
        own = major * 10 + minor
        if int(digits) > own or (exact and int(digits) != own):
            raise WrongArchitecture(f"the PTX is for {target}, the device is sm_{own}")

    def _fill(self, variable: Variable, symbols: dict[str, int]) -> None:
        view = self.memory.view(symbols[variable.name], variable.size or 0)
        view[:] = 0
        at = 0
        for size, value in variable.initial:
            number = symbols[value.name] + value.offset if isinstance(value, Symbol) else value
            octets = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            view[at : at + size] = np.frombuffer(octets, np.uint8)
            at += size

    def launch(
        self,
        kernel: Kernel,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        shared_bytes: int = 0,
        *,
        traffic: Traffic | None = None,
    ) -> None:
        """Run a kernel to its end.

        Arguments are addresses and integers, floats, NumPy scalars, ctypes values or bytes. Its
        accesses to memory are counted in `traffic`, if that is given.
        Raises `InputError` for a launch that no device would take, and `KernelFault` for what
        goes wrong in it.
        """
        shape = self.shape(kernel, grid, block, shared_bytes)
        self.run(kernel, shape, self.pack(kernel, args), traffic)

    def run(
        self, kernel: Kernel, shape: Shape, parameters: bytes, traffic: Traffic | None = None
    ) -> None:
        """Run a kernel with parameters that `pack` made. Raises `KernelFault`."""
        self.memory.view(self._parameters, len(parameters))[:] = np.frombuffer(parameters, np.uint8)
        program = kernel.program
        per_block = shape.warps * 32
        most = min(_THREADS_AT_ONCE, _REGISTER_BYTES_AT_ONCE // max(program.register_bytes, 1))
        at_once = max(1, min(most // per_block, shape.blocks))
        threads = Threads(program, self.memory, shape, at_once, self.poison)
        threads.traffic = traffic
        if self._neighbours is not None and shape.blocks > 1:
            self._neighbours.begin(program.granule_outside)
            threads.neighbours = self._neighbours
        with np.errstate(all="ignore"):
            for first in range(0, shape.blocks, at_once):
                threads.begin(first, min(at_once, shape.blocks - first))
                schedule.run(program, threads, self._limit)

    def shape(
        self, kernel: Kernel, grid: Sequence[int], block: Sequence[int], shared_bytes: int
    ) -> Shape:
        """Return how a kernel is to be launched. Raises `InputError` if it cannot be."""
        name = kernel.name
        for what, sizes, largest in (
            ("grid", grid, _LARGEST_GRID),
            ("block", block, _LARGEST_BLOCK),
        ):
            if len(sizes) > 3 or any(not 1 <= n <= most for n, most in zip(sizes, largest)):  # noqa: B905
                raise InputError(f"kernel {name}: a {what} of {tuple(sizes)}, at most {largest}")
        x, y, z = (*block, 1, 1)[:3]
        if x * y * z > kernel.most_threads:
            raise InputError(f"kernel {name}: {x * y * z} threads a block are too many")
        required = kernel.program.directives.get("reqntid")
        if required is not None and (*required, 1, 1)[:3] != (x, y, z):
            raise InputError(f"kernel {name}: a block of {(x, y, z)}, it requires {required}")
        total = kernel.program.shared_bytes + shared_bytes
        if shared_bytes < 0 or total > kernel.shared_limit:
            raise InputError(
                f"kernel {name}: {total} bytes of shared memory a block, {kernel.shared_limit}"
                " are allowed"
            )
        gx, gy, gz = (*grid, 1, 1)[:3]
        return Shape((gx, gy, gz), (x, y, z), shared_bytes)

    def pack(self, kernel: Kernel, args: Sequence[Any]) -> bytes:
        """Return arguments as a kernel's block of parameters. Raises `InputError`."""
        places = kernel.params
        if len(args) != len(places):
            raise InputError(
                f"kernel {kernel.name} takes {len(places)} arguments, {len(args)} were given"
            )
        block = bytearray([self.poison]) * PARAMETERS
        for number, (place, value) in enumerate(zip(places, args, strict=True)):
            octets = _octets(value, place.size)
            if len(octets) != place.size:
                raise InputError(
                    f"kernel {kernel.name}: argument {number} has {place.size} bytes,"
                    f" {len(octets)} were given"
                )
            block[place.offset : place.offset + place.size] = octets
        return bytes(block)


def _octets(value: Any, size: int) -> bytes:
    """Return the bytes of an argument whose parameter has so many."""
    if isinstance(value, bool) or (isinstance(value, int) and not isinstance(value, np.generic)):
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if isinstance(value, float) and not isinstance(value, np.generic):
        return np.array(value, f"f{size}").tobytes()
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tobytes()
    return bytes(value)
