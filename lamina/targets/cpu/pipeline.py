"""The passes of the CPU target, and the numbers that they take."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from xdsl.passes import ModulePass

from lamina.errors import InputError
from lamina.passes.choose_activations import ChooseActivationsPass
from lamina.passes.choose_cache_layout import AUTO, ELEMENTS, ChooseCacheLayoutPass
from lamina.passes.choose_variants import ChooseVariantsPass
from lamina.passes.choose_winograd import ChooseWinogradPass
from lamina.passes.fuse_attention import FuseAttentionPass
from lamina.passes.fuse_norm_prologues import FuseNormProloguesPass
from lamina.passes.pipelines import FUSION, GROUPING, LOWERING, assemble
from lamina.passes.schedule_groups import ScheduleGroupsPass
from lamina.passes.schedules.machine import Machine

KEYS_ABREAST = 16
"""Keys that attention scores at once: the f32 lanes of a 512-bit register."""

ACTIVATIONS = ("auto", "f32")
CONVOLUTIONS = ("auto", "direct")
PAGES = (AUTO, *ELEMENTS)

QUERY_ROWS = 9
"""Rows of queries in an entry of attention's work, about: keys are converted once for all of them,
and the scores of 16 keys take a register each. More rows gain nothing."""


@dataclass(frozen=True)
class CpuWishes:
    """What a target asks of its passes; raises `InputError` for another value.

    `activations` are "auto" (8-bit beside quantised weights) or "f32"; `kv` the elements of pages;
    `convolutions` "auto" or "direct" (none by transforms).
    """

    activations: str = "auto"
    kv: str = AUTO
    convolutions: str = "auto"

    def __post_init__(self) -> None:
        """Refuse other values."""
        known = {"activations": ACTIVATIONS, "kv": PAGES, "convolutions": CONVOLUTIONS}
        for name, values in known.items():
            value = getattr(self, name)
            if value not in values:
                raise InputError(
                    f"the target cpu, option {name}: expected {' or '.join(values)}, got {value!r}"
                )


def cpu_passes(wished: CpuWishes, machine: Machine, *, tuned: bool) -> tuple[ModulePass, ...]:
    """Return the passes from an imported module to a planned one.

    Schedules are for `machine`; with `tuned`, those measured on it come first.
    """
    exact = wished.activations == "f32"
    quantised = () if exact else (ChooseActivationsPass(),)
    transformed = () if wished.convolutions == "direct" else (ChooseWinogradPass(),)
    pages = "f32" if exact else wished.kv
    schedule = ScheduleGroupsPass(**asdict(machine), tuned=tuned)
    inserted = {
        "fusion": (
            ChooseCacheLayoutPass(pages, KEYS_ABREAST),
            *quantised,
        ),
        "convolutions": transformed,
        "groups": (ChooseVariantsPass((1,)), FuseNormProloguesPass(1), schedule),
    }
    steps = assemble((*FUSION, *GROUPING, *LOWERING), inserted)
    return tuple(
        FuseAttentionPass(QUERY_ROWS) if isinstance(p, FuseAttentionPass) else p for p in steps
    )
