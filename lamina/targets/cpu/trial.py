"""Whether one worker alone walks the steps of some shapes as fast as all of them together."""

from __future__ import annotations

from typing import Final

_SMALL_S: Final = 0.5e-3
"""Steps that take longer have enough to share: waking and meeting cost a tenth of it at most."""

_TRIED: Final = 7
"""Steps of a kind that are looked at, in a row: workers that have nothing to do fall asleep."""

_FIRST: Final = 2
"""Those in the beginning that do not count."""

_KEPT: Final = 400
"""Steps between trials."""

_WORTH: Final = 0.95
"""The part of one worker's time in which several have to be through to be worth their while."""


class Trial:
    """Times steps with all workers, then with one, and chooses; again from time to time.

    Results do not depend on it. Whether more workers help depends on how long they sleep between
    calls and on who else is there, so that what is measured is the whole step, in seconds.
    """

    def __init__(self) -> None:
        """Begin with all workers."""
        self.alone = False
        """Whether the next step is to have one worker."""
        self._together = 0.0
        self._left = _TRIED
        self._tried: list[float] | None = []

    def ran(self, seconds: float) -> None:
        """Note what the step took for which `alone` was followed."""
        self._left -= 1
        if self._tried is not None:
            self._tried.append(seconds)
        if not self._left:
            self._go_on()

    def _go_on(self) -> None:
        if self._tried is None:
            self.alone, self._tried, self._left = False, [], _TRIED
            return
        counted = sorted(self._tried[_FIRST:])
        middle = counted[len(counted) // 2]
        if self.alone or middle > _SMALL_S:
            self.alone = self.alone and self._together > _WORTH * middle
            self._tried, self._left = None, _KEPT
        else:
            self._together = middle
            self.alone, self._tried, self._left = True, [], _TRIED
