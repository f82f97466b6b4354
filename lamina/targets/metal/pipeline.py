"""The passes of the Metal target, and the numbers that they take."""

from __future__ import annotations

from typing import Final

from xdsl.passes import ModulePass

from lamina.passes.choose_cache_layout import ChooseCacheLayoutPass
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.targets.metal.msl import MOST_THREADGROUP_BYTES

THREADS: Final = 64
"""Threads of a block: two simdgroups, so that many blocks share a core of the GPU."""

SUBGROUP: Final = 32
"""Threads of a simdgroup."""

KEYS_ABREAST: Final = 16
"""Keys that attention scores at once."""


def metal_passes(kv: str) -> tuple[ModulePass, ...]:
    """Return the passes from an imported module to kernels of one thread on one arena.

    `kv` is the element type of the pages of keys and values.
    """
    threads = LowerTilesPass(THREADS, SUBGROUP, MOST_THREADGROUP_BYTES)
    inserted = {
        "fusion": (ChooseCacheLayoutPass(kv, KEYS_ABREAST),),
        "groups": (ScheduleGroupsPass(),),
        "plan": (ChooseLayoutsPass(THREADS), threads),
    }
    return assemble((*FUSION, *GROUPING, *LOWERING), inserted)
