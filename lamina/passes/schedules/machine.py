"""A CPU in the numbers that decide how products are cut into tiles."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from hashlib import sha256

from lamina.arguments import whole_number
from lamina.errors import InputError

_MOST: dict[str, int] = {
    "lanes": 64,
    "registers": 128,
    "l1": 1 << 24,
    "l2": 1 << 30,
    "cores": 1 << 12,
    "threads": 1 << 10,
}
"""The largest number of each kind that is believed."""

_LETTERS = 16


@dataclass(frozen=True)
class Machine:
    """Vector registers and caches of one core, and how many cores there are.

    `lanes` are the f32 of a register, `registers` how many there are, `l1` and `l2` the bytes of
    a core's data caches; `dots` says that there is an instruction for dots of 8-bit numbers. `cpu`
    is a name that tells CPUs of the same numbers apart. `threads` share a tile on a GPU, and each
    has as many registers as a core; units that multiply matrices of 16-bit floats take `matrix`
    rows at once, 0 where there are none; with `tf32` there are some for f32 too. Raises
    `InputError` for a number that no machine has.
    """

    lanes: int = 8
    registers: int = 16
    l1: int = 32 << 10
    l2: int = 1 << 20
    dots: bool = False
    cores: int = 1
    cpu: str = ""
    threads: int = 1
    matrix: int = 0
    tf32: bool = False

    def __post_init__(self) -> None:
        """Refuse what no machine has."""
        for name, most in _MOST.items():
            whole_number(getattr(self, name), f"schedule-groups: {name}", 1, most)
        whole_number(self.matrix, "schedule-groups: matrix", 0, _MOST["threads"])
        if not isinstance(self.cpu, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"schedule-groups: cpu is {self.cpu!r}: expected a name as text")

    @property
    def digest(self) -> str:
        """A short text that another machine does not have."""
        numbers = astuple(self) if self.matrix else astuple(self)[:-2]
        return sha256(repr(numbers).encode()).hexdigest()[:_LETTERS]
