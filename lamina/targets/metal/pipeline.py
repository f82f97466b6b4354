"""The passes of the Metal target, and the numbers that they take."""

from __future__ import annotations

from typing import Final

from xdsl.passes import ModulePass

from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.targets.metal.msl import MOST_THREADGROUP_BYTES
from lamina.targets.plans.pages import check_pages
from lamina.targets.shading.pipeline import thread_passes

THREADS: Final = 64
"""Threads of a block: two simdgroups, so that many blocks share a core of the GPU."""

SUBGROUP: Final = 32
"""Threads of a simdgroup."""

MEMORY: Final = MOST_THREADGROUP_BYTES - 4096
"""What the threads of a block may share: the rest is for the matrices that they multiply."""


def metal_passes(kv: str, fallback: str) -> tuple[ModulePass, ...]:
    """Return the passes from an imported module to kernels of one thread on one arena.

    `kv` is the element type of the pages of keys and values, `fallback` says what becomes of what
    has no kernel. Raises InputError for another value.
    """
    check_pages("metal", kv)
    # A row of a tile is a register of each thread: columns are cut for blocks as for vectors.
    schedule = ScheduleGroupsPass(lanes=THREADS, few=THREADS, written=THREADS, threads=THREADS)
    layouts = ChooseLayoutsPass(THREADS, fragments=True, integers=False)
    lowering = LowerTilesPass(THREADS, SUBGROUP, MEMORY)
    return thread_passes(kv, fallback, schedule, layouts, lowering)
