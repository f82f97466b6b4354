"""The default pipelines by name, and the points at which a target or a plugin adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.passes import ModulePass

from lamina.errors import InputError
from lamina.passes.decompose_composites import DecomposeCompositesPass
from lamina.passes.decompose_convolutions import DecomposeConvolutionsPass
from lamina.passes.decompose_math import DecomposeMathPass
from lamina.passes.fold_branches import FoldBranchesPass
from lamina.passes.fold_duplicates import FoldDuplicatesPass
from lamina.passes.fold_positions import FoldPositionsPass
from lamina.passes.fold_scales import FoldScalesPass
from lamina.passes.fold_transposes import FoldTransposesPass
from lamina.passes.fuse_activations import FuseActivationsPass
from lamina.passes.fuse_attention import FuseAttentionPass
from lamina.passes.fuse_elementwise import FuseElementwisePass
from lamina.passes.fuse_epilogues import FuseEpiloguesPass
from lamina.passes.fuse_gate_up import FuseGateUpPass
from lamina.passes.fuse_transposes import FuseTransposesPass
from lamina.passes.known import KNOWN
from lamina.passes.lower_groups import LowerGroupsPass
from lamina.passes.outline_groups import OutlineGroupsPass
from lamina.passes.pack_weights import PackWeightsPass
from lamina.passes.plan_joins import PlanJoinsPass
from lamina.passes.plan_memory import PlanMemoryPass
from lamina.passes.prepare_weights import PrepareWeightsPass
from lamina.passes.verify_plan import VerifyPlanPass


@dataclass(frozen=True)
class Extension:
    """A named point of a pipeline; with nothing to insert, it is no pass at all."""

    name: str


Steps = tuple[ModulePass | Extension, ...]
"""A pipeline with its extension points."""


def assemble(
    steps: Sequence[ModulePass | Extension],
    inserted: Mapping[str, Sequence[ModulePass]] | None = None,
) -> tuple[ModulePass, ...]:
    """Return the passes of `steps` with those of plugins, then of `inserted`, at their points.

    Raises `InputError` naming a point that `steps` do not have.
    """
    inserted, passes = inserted or {}, list[ModulePass]()
    points = [step.name for step in steps if isinstance(step, Extension)]
    if unknown := sorted(inserted.keys() - set(points)):
        raise InputError(
            f"the pipeline has no extension point {unknown[0]!r} (known: {', '.join(points)})"
        )
    offered = KNOWN.insertions()
    for step in steps:
        if isinstance(step, Extension):
            passes += (*offered.get(step.name, ()), *inserted.get(step.name, ()))
        else:
            passes.append(step)
    return tuple(passes)


FUSION: Steps = (
    Extension("import"),
    FoldDuplicatesPass(),
    FuseActivationsPass(),
    FuseAttentionPass(),
    DecomposeCompositesPass(only=("nn.attention",)),
    Extension("fusion"),
)
"""From an importer's plain graph to one of composites."""

GROUPING: Steps = (
    FoldBranchesPass(),
    FoldTransposesPass(),
    FoldScalesPass(),
    Extension("convolutions"),
    DecomposeConvolutionsPass(),
    PackWeightsPass(),
    FoldPositionsPass(),
    FoldDuplicatesPass(),
    PrepareWeightsPass(),
    OutlineGroupsPass(),
    Extension("outlines"),
    FuseEpiloguesPass(),
    FuseGateUpPass(),
    FuseElementwisePass(),
    FuseTransposesPass(),
    Extension("groups"),
)
"""From composites to groups, each of which becomes one kernel."""

LOWERING: Steps = (
    LowerGroupsPass(),
    PlanJoinsPass(),
    Extension("kernels"),
    PlanMemoryPass(),
    VerifyPlanPass(),
    DecomposeMathPass(),
    Extension("plan"),
)
"""From scheduled groups to kernels on one arena."""


def for_device(steps: Steps, fallback: str) -> Steps:
    """Return `steps` for kernels on a device, whose threads read rows that lie close together.

    Groups without a kernel run on the host, or are an `error`: `fallback` says which.
    """
    own: dict[type[ModulePass | Extension], ModulePass] = {
        LowerGroupsPass: LowerGroupsPass(fallback),
        PlanJoinsPass: PlanJoinsPass(strided=False),
    }
    return tuple(own.get(type(step), step) for step in steps)


POINTS = tuple(step.name for step in (*FUSION, *GROUPING, *LOWERING) if isinstance(step, Extension))
"""The names of the extension points, in order."""
