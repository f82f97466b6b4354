"""Run threads to their end: the lowest instruction first, so that what diverged meets again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.fault import KernelFault
from lamina.testing.ptx.lanes import Lanes

if TYPE_CHECKING:
    from lamina.testing.ptx.program import Program
    from lamina.testing.ptx.threads import Threads


def run(program: Program, threads: Threads, limit: int) -> None:
    """Execute until no thread lives. Raises `KernelFault`; endless after `limit` turns.

    Threads that name others for an instruction wait there until those come, as they do on a
    device; if they never do, that is the fault.
    """
    steps = program.steps
    groups = threads.groups
    waiting: dict[int, tuple[Lanes, KernelFault]] = {}
    for _ in range(limit):
        if not groups and not threads.mbarriers.idle(threads):
            break
        pc = min(groups)
        lanes = groups.pop(pc)
        meeting = min(groups, default=len(steps) + 1)
        while pc < meeting:
            threads.pc = pc
            if pc in waiting:
                lanes = lanes.joined(waiting.pop(pc)[0])
            try:
                if steps[pc](threads, lanes):
                    break
            except KernelFault as fault:
                if fault.kind != "divergence":
                    raise
                waiting[pc] = (lanes, fault)
                break
            pc += 1
        else:
            threads.go_on(pc, lanes)
    else:
        who = int(next(iter(groups.values())).index[0])
        raise threads.fault("endless", f"the kernel did not end within {limit} turns", who)
    for _, fault in waiting.values():
        raise fault
    threads.barriers.stuck(threads)


def end(threads: Threads, lanes: Lanes) -> None:
    """Let threads end; whoever waits for them at a barrier goes on."""
    threads.live &= ~lanes.mask
    threads.barriers.look(threads)


def whole_warps(threads: Threads, lanes: Lanes) -> Array:
    """Return the numbers of the warps that execute; all 32 threads have to.

    Raises `KernelFault` naming a thread that is missing.
    """
    full = lanes.by_warp.all(axis=1)
    torn = lanes.by_warp.any(axis=1) & ~full
    if torn.any():
        warp = int(torn.argmax())
        missing = warp * 32 + int((~lanes.by_warp[warp]).argmax())
        present = warp * 32 + int(lanes.by_warp[warp].argmax())
        what = f"all 32 threads of a warp have to be here: thread {missing % threads.per_block} of"
        raise threads.fault("divergence", f"{what} the block is not", present)
    return np.flatnonzero(full)
