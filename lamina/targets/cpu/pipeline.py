"""The passes of the CPU target, and the numbers that they take."""

from __future__ import annotations

from dataclasses import asdict

from xdsl.passes import ModulePass

from lamina.errors import InputError
from lamina.passes.choose_activations import ChooseActivationsPass
from lamina.passes.choose_cache_layout import AUTO, ELEMENTS, ChooseCacheLayoutPass
from lamina.passes.choose_variants import ChooseVariantsPass
from lamina.passes.fuse_attention import FuseAttentionPass
from lamina.passes.fuse_norm_prologues import FuseNormProloguesPass
from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.passes.schedules.machine import Machine

KEYS_ABREAST = 16
"""Keys that attention scores at once: the f32 lanes of a 512-bit register."""

ACTIVATIONS = ("auto", "f32")
PAGES = (AUTO, *ELEMENTS)

QUERY_ROWS = 9
"""Rows of queries in an entry of attention's work, about: keys are converted once for all of them,
and the scores of 16 keys take a register each. More rows gain nothing."""


def cpu_passes(
    activations: str, kv: str, machine: Machine, *, tuned: bool
) -> tuple[ModulePass, ...]:
    """Return the passes from an imported module to a planned one.

    `activations` is "auto" (8-bit beside quantised weights) or "f32"; `kv` the elements of pages.
    Schedules are for `machine`; with `tuned`, those measured on it come first. Raises `InputError`
    for another value.
    """
    for name, value, known in (("activations", activations, ACTIVATIONS), ("kv", kv, PAGES)):
        if value not in known:
            raise InputError(
                f"the target cpu, option {name}: expected {' or '.join(known)}, got {value!r}"
            )
    quantised = () if activations == "f32" else (ChooseActivationsPass(),)
    pages = "f32" if activations == "f32" else kv
    schedule = ScheduleGroupsPass(**asdict(machine), tuned=tuned)
    inserted = {
        "fusion": (ChooseCacheLayoutPass(pages, KEYS_ABREAST), *quantised),
        "groups": (ChooseVariantsPass((1,)), FuseNormProloguesPass(1), schedule),
    }
    steps = assemble((*FUSION, *GROUPING, *LOWERING), inserted)
    return tuple(
        FuseAttentionPass(QUERY_ROWS) if isinstance(p, FuseAttentionPass) else p for p in steps
    )
