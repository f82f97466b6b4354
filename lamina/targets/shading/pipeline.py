"""The passes of targets whose kernels are the text of a shading language."""

from __future__ import annotations

from typing import Final

from xdsl.passes import ModulePass

from lamina.passes.choose_cache_layout import ChooseCacheLayoutPass
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.choose_places import ChoosePlacesPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble, for_device
from lamina.passes.plan_copies import PlanCopiesPass
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.targets.devices.splits import split_passes

KEYS_ABREAST: Final = 64
"""Keys that attention scores at once: a page, so that neighbouring threads read neighbours."""

LACKING: Final = ("f64",)
"""The element types that the languages have not."""


def thread_passes(
    kv: str,
    fallback: str,
    schedule: ScheduleGroupsPass,
    layouts: ChooseLayoutsPass,
    lowering: LowerTilesPass,
) -> tuple[ModulePass, ...]:
    """Return the passes from an imported module to kernels of one thread on one arena.

    `kv` is the element type of the pages of keys and values, `fallback` says what becomes of what
    has no kernel; the passes given have the threads of a block.
    """
    inserted = {
        "fusion": (ChooseCacheLayoutPass(kv, KEYS_ABREAST),),
        "outlines": (ChoosePlacesPass(LACKING),),
        "groups": (*split_passes(), schedule),
        "kernels": (PlanCopiesPass(),),
        "plan": (layouts, lowering),
    }
    return assemble((*FUSION, *GROUPING, *for_device(LOWERING, fallback)), inserted)
