"""Which threads of a warp an instruction for several of them names, and whether they are there."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.clocks import WARP
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.threads import Threads


def members(t: Threads, lanes: Lanes, mask: Any) -> Array:
    """Return for each thread the word of the threads of its warp that its mask names.

    Threads that a block never had are left out. Raises `KernelFault` if one that is named does
    not execute the instruction, or if one that executes it is not named by itself.
    """
    existing = np.repeat(t.everybody.bits, WARP)
    named = np.asarray(mask, np.uint32) & existing
    here = np.repeat(lanes.bits, WARP)
    missing = lanes.mask & (named & ~here != 0)
    if missing.any():
        who = int(missing.argmax())
        word = int(named[who] & ~here[who])
        lane = (word & -word).bit_length() - 1
        number = who // WARP * WARP + lane
        state = "is elsewhere" if t.live[number] else "has ended"
        what = f"thread {number % t.per_block} of the block is in the mask, and {state}"
        raise t.fault("divergence", what, who)
    alone = lanes.mask & (named >> (np.arange(t.count) % WARP).astype(np.uint32) & 1 == 0)
    if alone.any():
        raise t.fault("divergence", "the thread is not in its own mask", int(alone.argmax()))
    return named
