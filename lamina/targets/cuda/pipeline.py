"""The passes of the CUDA target, and the numbers that they take."""

from __future__ import annotations

from typing import Final

from xdsl.passes import ModulePass

from lamina.errors import InputError
from lamina.passes.choose_activations import ChooseActivationsPass
from lamina.passes.choose_cache_layout import ChooseCacheLayoutPass
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble, for_device
from lamina.passes.plan_copies import PlanCopiesPass
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.passes.schedules.shared_tiles import WARP, WARPGROUP
from lamina.targets.cuda.architectures import most_shared
from lamina.targets.devices.splits import split_passes
from lamina.targets.plans.pages import check_pages

THREADS: Final = 128
"""Threads of a block: a warp for each of the four schedulers of a multiprocessor."""

SUBGROUP: Final = 32
"""Threads of a warp."""

WARPGROUPS: Final = ("sm_90a",)
"""Where four warps multiply matrices in shared memory together."""

STAGES: Final = 3
"""Rounds of operands in shared memory: two on their way while one is multiplied."""

KEYS_ABREAST: Final = 64
"""Keys that attention scores at once: a page, so that neighbouring threads read neighbours."""


ACTIVATIONS: Final = ("f32", "auto")
"""What rows are multiplied by quantised weights as: numbers, or quants of 8 bits."""


def cuda_passes(
    kv: str, arch: str, fallback: str, *, tf32: bool = False, activations: str = "f32"
) -> tuple[ModulePass, ...]:
    """Return the passes from an imported module to kernels of one thread on one arena.

    `kv` is the element type of the pages of keys and values, `arch` what the code is for, and
    `fallback` says what becomes of what has no kernel; with `tf32`, f32 are multiplied by matrix
    units. `activations` are "f32", or "auto": of 8 bits beside quantised weights. Raises InputError
    for another value.
    """
    memory = most_shared(arch)
    if activations not in ACTIVATIONS:
        known = " or ".join(ACTIVATIONS)
        raise InputError(
            f"the target cuda, option activations: expected {known}, got {activations!r}"
        )
    quantised = () if activations == "f32" else (ChooseActivationsPass(),)
    check_pages("cuda", kv)
    together = arch in WARPGROUPS
    layouts = ChooseLayoutsPass(THREADS, fragments=True, warpgroups=together, tf32=tf32)
    # A row of a tile is a register of each thread: columns are cut for blocks as for vectors.
    schedule = ScheduleGroupsPass(
        lanes=64,
        few=THREADS,
        written=THREADS,
        threads=THREADS,
        matrix=WARPGROUP if together else WARP,
        tf32=tf32,
    )
    threads = LowerTilesPass(THREADS, SUBGROUP, memory, narrow=True, stages=STAGES, boxes=together)
    inserted = {
        "fusion": (ChooseCacheLayoutPass(kv, KEYS_ABREAST), *quantised),
        "groups": (*split_passes(), schedule),
        "kernels": (PlanCopiesPass(),),
        "plan": (layouts, threads),
    }
    return assemble((*FUSION, *GROUPING, *for_device(LOWERING, fallback)), inserted)
