"""Which launches need a barrier between them: those that meet in memory, one of them writing."""

from __future__ import annotations

from dataclasses import dataclass, field

from lamina.dialects.areas import Area


@dataclass(frozen=True)
class Place:
    """The bytes that a buffer takes in the array or arena `base`."""

    base: int
    area: Area

    def overlaps(self, other: Place) -> bool:
        """Tell whether the two may share a byte."""
        return self.base == other.base and not self.area.apart(other.area)


@dataclass(frozen=True)
class Hazards:
    """What was read and written since the last barrier, on any way that leads here."""

    reads: frozenset[Place] = field(default_factory=frozenset[Place])
    writes: frozenset[Place] = field(default_factory=frozenset[Place])

    def conflict(self, other: Hazards) -> bool:
        """Tell whether one writes what the other reads or writes."""
        mine, theirs = self.reads | self.writes, other.reads | other.writes
        return _meet(self.writes, theirs) or _meet(mine, other.writes)

    def __or__(self, other: Hazards) -> Hazards:
        """Return both."""
        return Hazards(self.reads | other.reads, self.writes | other.writes)


def _meet(some: frozenset[Place], others: frozenset[Place]) -> bool:
    return any(a.overlaps(b) for a in some for b in others)
