"""Where one output of a session is put: memory of the session's, or lent to the caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lamina.errors import InputError
from lamina.targets.base import Binding
from lamina.targets.lent_memory import LentMemory
from lamina.targets.memory import Arena, Array, element_dtype


class OutputRoom:
    """An output's memory, for one shape after another."""

    def __init__(
        self, binding: Binding, place: int, dims: Sequence[int], waiting: frozenset[int]
    ) -> None:
        """Take no memory yet.

        `place` is its number among the arrays of a step and `dims` are its extents, as values of
        the plan; `waiting` are those symbols among them that host calls bind.
        """
        self.name, self.place, self.dims, self.waiting = binding.name, place, dims, waiting
        self._arena, self._lent = Arena(), LentMemory()
        self._shape: tuple[int, ...] = ()
        self._dtype = element_dtype(binding.dtype)

    def fit(self, shape: tuple[int, ...]) -> None:
        """Have the next arrays be of this shape; `InputError` if an extent would be below 0."""
        if any(n < 0 for n in shape):
            raise InputError(
                f"output {self.name!r} would have the shape {list(shape)}: an input is too short "
                "for what is done with it"
            )
        self._shape = shape

    def array(self, put: Callable[[int, int], None], *, fresh: bool) -> Array:
        """Return an array, `put` at its place by address.

        One that is not `fresh` has the memory of the last one that was not.
        """
        if fresh:
            array, address = self._lent.lend(self._shape, self._dtype)
        else:
            array = self._arena.array(self._shape, self._dtype)
            address = self._arena.address
        put(self.place, address)
        return array
