"""Sides that take turns, so that a busy moment of the machine meets all of them."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from statistics import fmean, median
from time import perf_counter, sleep

LEAST = 0.1
"""Seconds that a turn counts at least."""

SETTLE = 0.05
"""Seconds between turns: threads of OpenMP and OpenBLAS spin for a while after their last call."""

FEWEST = 3
"""Rounds that are taken however long they are, if as many are asked for."""

Once = Callable[[], Sequence[float]]
"""Does something once, and gives the seconds of its parts."""


def averaged(once: Once) -> list[float]:
    """Return the mean of each part, of calls until `LEAST` seconds were counted.

    The first call warms up and does not count, unless it alone took that long.
    """
    first = once()
    if sum(first) >= LEAST:
        return list(first)
    counted: list[Sequence[float]] = []
    while sum(map(sum, counted)) < LEAST:
        counted.append(once())
    return [fmean(part) for part in zip(*counted, strict=True)]


def medians(sides: Mapping[str, Once], rounds: int, budget: float = inf) -> dict[str, list[float]]:
    """Return the median of each side's parts over `rounds` rounds, each side having its turn.

    After `FEWEST` rounds, none begins that would end later than `budget` seconds after the first
    began if it takes as long as those before it; how many there were is printed then.
    """
    taken: dict[str, list[Sequence[float]]] = {name: [] for name in sides}
    began = perf_counter()
    for number in range(rounds):
        if number >= FEWEST and (perf_counter() - began) * (number + 1) / number > budget:
            print(f"median of {number} rounds, which took {perf_counter() - began:.0f} s:")
            break
        for name, side in sides.items():
            sleep(SETTLE)
            taken[name].append(side())
    return {
        name: [median(part) for part in zip(*runs, strict=True)] for name, runs in taken.items()
    }
