"""Page pools that hold no more pages than steps need, and the executable that works on them."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from lamina.errors import InputError
from lamina.runtime.pools import allocate_pools, check_pools
from lamina.targets.base import Array, Executable


class Resident(Protocol):
    """One caller's memory for an executable: states that stay, outputs used again."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run once; the next call writes over the outputs."""
        ...

    def hold(self, states: Mapping[str, Array]) -> None:
        """Let runs update these arrays."""
        ...

    def let_go(self) -> None:
        """Have the states in the arrays that were given, and no longer update them."""
        ...


@runtime_checkable
class Lending(Protocol):
    """An executable that lends a caller memory for many calls."""

    def session(self, states: Mapping[str, Array]) -> Resident:
        """Return memory for calls that update `states`."""
        ...


class GrowingPools:
    """Runs an executable on pools of up to `most` pages, made larger as steps need pages.

    Growing at least doubles them and carries the pages over, so that all of it costs no more than
    a few copies of the largest. Large pools are on huge pages from their first byte on.
    """

    def __init__(self, executable: Executable, most: int) -> None:
        """Begin with one page; `InputError` if there is no memory for `most`."""
        self._executable = executable
        self._states = executable.signature.states
        self._most = most
        check_pools(self._states, most)
        self._pools, self._held = allocate_pools(self._states, 1), 1
        self._resident: Resident | None = None
        if isinstance(executable, Lending):
            self._resident = executable.session(self._pools)

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run once; the next call writes over the outputs."""
        if self._resident is not None:
            return self._resident.run(inputs)
        return self._executable(**inputs, **self._pools)

    def reach(self, pages: int) -> None:
        """Have pages 0 to `pages` - 1; `InputError` if there is no memory for them."""
        if pages > self._held:
            self._grow(min(self._most, max(pages, 2 * self._held)))

    def _grow(self, pages: int) -> None:
        former, grown = self._pools, allocate_pools(self._states, pages)
        if self._resident is None:
            _carry(former, grown)
        else:
            self._resident.let_go()
            _carry(former, grown)
            try:
                self._resident.hold(grown)
            except InputError:
                self._resident.hold(former)
                raise
        self._pools, self._held = grown, pages


def _carry(former: Mapping[str, Array], grown: Mapping[str, Array]) -> None:
    for name, pool in former.items():
        grown[name][: len(pool)] = pool
