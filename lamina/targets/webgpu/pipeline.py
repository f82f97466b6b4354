"""The passes of the WebGPU target, and the numbers that they take."""

from __future__ import annotations

from typing import Final

from xdsl.passes import ModulePass

from lamina.passes.choose_cache_layout import ChooseCacheLayoutPass
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.choose_variants import ChooseVariantsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble
from lamina.passes.schedule_groups import ScheduleGroupsPass

THREADS: Final = 64
"""Threads of a block: several subgroups on every adapter, and well below what each can run."""

SUBGROUP: Final = 8
"""Threads that exchange values by shuffles: as many as the narrowest adapter has in a subgroup."""

KEYS_ABREAST: Final = 16
"""Keys that attention scores at once."""


def webgpu_passes(kv: str) -> tuple[ModulePass, ...]:
    """Return the passes from an imported module to kernels of one thread on one arena.

    `kv` is the element type of the pages of keys and values.
    """
    # A row of a tile is a register of each thread: columns are cut for blocks as for vectors.
    schedule = ScheduleGroupsPass(lanes=THREADS, few=THREADS, written=THREADS)
    inserted = {
        "fusion": (ChooseCacheLayoutPass(kv, KEYS_ABREAST),),
        "groups": (ChooseVariantsPass((1,)), schedule),
        "plan": (ChooseLayoutsPass(THREADS), LowerTilesPass(THREADS, SUBGROUP)),
    }
    return assemble((*FUSION, *GROUPING, *LOWERING), inserted)
