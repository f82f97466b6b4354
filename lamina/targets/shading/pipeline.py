"""The passes of targets whose kernels are the text of a shading language."""

from __future__ import annotations

from typing import Final

from xdsl.passes import ModulePass

from lamina.passes.choose_cache_layout import ChooseCacheLayoutPass
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.choose_variants import ChooseVariantsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble
from lamina.passes.schedule_groups import ScheduleGroupsPass

KEYS_ABREAST: Final = 16
"""Keys that attention scores at once."""


def thread_passes(kv: str, lowering: LowerTilesPass) -> tuple[ModulePass, ...]:
    """Return the passes from an imported module to kernels of one thread on one arena.

    `kv` is the element type of the pages of keys and values; `lowering` has the threads of a block.
    """
    threads = lowering.threads
    # A row of a tile is a register of each thread: columns are cut for blocks as for vectors.
    schedule = ScheduleGroupsPass(lanes=threads, few=threads, written=threads)
    inserted = {
        "fusion": (ChooseCacheLayoutPass(kv, KEYS_ABREAST),),
        "groups": (ChooseVariantsPass((1,)), schedule),
        "plan": (ChooseLayoutsPass(threads), lowering),
    }
    return assemble((*FUSION, *GROUPING, *LOWERING), inserted)
