"""Page pools that hold no more pages than steps need, and the executable that works on them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, runtime_checkable

from lamina.runtime.pools import allocate_pools, check_pools
from lamina.targets.base import Array, Executable


class Resident(Protocol):
    """One caller's memory for an executable: states that stay, outputs used again."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run once; the next call writes over the outputs."""
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
        self._run, self._pools, self._held = self._hold({}, 0, 1)

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run once; the next call writes over the outputs."""
        return self._run(inputs)

    def reach(self, pages: int) -> None:
        """Have pages 0 to `pages` - 1; `InputError` if there is no memory for them."""
        if pages > self._held:
            size = min(self._most, max(pages, 2 * self._held))
            self._run, self._pools, self._held = self._hold(self._pools, self._held, size)

    def _hold(
        self, former: Mapping[str, Array], held: int, pages: int
    ) -> tuple[Callable[[Mapping[str, Array]], Mapping[str, Array]], Mapping[str, Array], int]:
        pools = allocate_pools(self._states, pages)
        for name, pool in former.items():
            pools[name][:held] = pool
        if isinstance(self._executable, Lending):
            return self._executable.session(pools).run, pools, pages
        bound = partial(self._executable, **pools)
        return lambda inputs: bound(**inputs), pools, pages
