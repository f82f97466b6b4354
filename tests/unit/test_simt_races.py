"""The record of who touched what, against a plain one that keeps every touch."""

from typing import Any

import numpy as np
import pytest

from lamina.targets.reference.simt_races import Races

ELEMENTS, THREADS = 5, 4


class Plain:
    """Every touch so far: element, block, interval, thread, and whether it wrote."""

    def __init__(self) -> None:
        self.touches: list[tuple[int, int, int, int, bool]] = []

    def meets(self, at: Any, threads: Any, block: int, interval: int, *, write: bool) -> bool:
        found = False
        for element, thread in zip(at, threads, strict=True):
            for e, b, i, t, wrote in self.touches:
                apart = b == block and (i != interval or t == thread)
                found |= e == element and (write or wrote) and not apart
            self.touches.append((element, block, interval, thread, write))
        return found


def accesses(seed: int) -> Any:
    """Places, threads, block, interval and whether they are written; a new block has a new one."""
    rng, block, interval = np.random.default_rng(seed), 0, 1
    for _ in range(12):
        kind = rng.random()
        block, interval = block + (kind < 0.1), interval + (kind < 0.5)
        count = rng.integers(1, THREADS + 1)
        at, threads = rng.integers(0, ELEMENTS, count), rng.permutation(THREADS)[:count]
        yield at, threads, int(block), int(interval), bool(rng.random() < 0.4)


@pytest.mark.parametrize("blocks", [True, False])
def test_threads_and_blocks_that_meet_are_found_and_no_others(blocks: bool) -> None:
    found = 0
    for seed in range(200):
        races, plain = Races(ELEMENTS, blocks=blocks), Plain()
        for at, threads, block, interval, write in accesses(seed):
            number = block if blocks else 0
            met = (races.write if write else races.read)(at, threads, number, interval)
            assert (met is not None) == plain.meets(at, threads, number, interval, write=write)
            if met is not None:
                found += 1
                break
    assert 50 < found < 200
