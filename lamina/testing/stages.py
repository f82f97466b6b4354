"""Judge passes: what a pass makes of a module computes, in the reference, what it did before.

A pass is judged where it stands in a target's pipeline, after those before it; and, unless it has
its default options there, by itself on imported modules.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from lamina.compiler import resolve_target, run_passes
from lamina.dialects.tile import AnyKernelOp
from lamina.plugins import manager
from lamina.targets.reference.executable import ReferenceExecutable
from lamina.testing.case import Case
from lamina.testing.verdict import Outcome, Verdict, judge_size

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

LARGEST = 3
"""The largest size at which kernels are interpreted, program by program."""

CALLS = 2
"""How many calls of it are run."""


@dataclass(frozen=True)
class Stage:
    """A module after a pass, if the pass changed it; or why the pass gave none."""

    made_by: str
    module: ModuleOp | None
    failed: str | None = None


@lru_cache(maxsize=2)
def stages(case: Case, target: str) -> Sequence[Stage]:
    """Return what each pass of a target makes of a case, in order."""
    return _stages(case, resolve_target(target).passes())


def judge_pass(chosen: str | ModulePass, case: Case, target: str = "cpu") -> Outcome:
    """Judge every stage that a pass makes of a case; of one given by name, also in the pipeline.

    There are no verdicts where the pass changes nothing, or where one before it fails.
    """
    made: list[Stage] = []
    if isinstance(chosen, str):
        made += [stage for stage in stages(case, target) if stage.made_by == chosen]
        chosen = manager.passes()[chosen]()()
    if not made or chosen not in resolve_target(target).passes():
        made += _stages(case, (chosen,))
    outcome = Outcome()
    for stage in made:
        outcome.verdicts += _judge_stage(stage, case)
    return outcome


def _stages(case: Case, passes: Sequence[ModulePass]) -> Sequence[Stage]:
    module, found = case.sheet().module, list[Stage]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in passes:
            after = module.clone()
            try:
                run_passes(manager.context(), after, [each])
                changed = not after.is_structurally_equivalent(module)
                if changed:
                    after.verify()
            except Exception as error:
                return [*found, Stage(each.name, None, f"{type(error).__name__}: {error}")]
            found.append(Stage(each.name, after if changed else None))
            module = after
    return found


def _judge_stage(stage: Stage, case: Case) -> Sequence[Verdict]:
    sheet, module = case.sheet(), stage.module
    if module is None:
        why = stage.failed
        return [Verdict(case.name, check, why) for check in sheet.checks] if why else []
    verdicts = [Verdict(case.name, check) for check in sheet.checks]
    has_kernels = any(isinstance(op, AnyKernelOp) for op in module.ops)
    executable = ReferenceExecutable(module, sheet.weights)
    for size in case.sizes:
        if not has_kernels:
            judge_size(executable, case, sheet, size, verdicts)
        elif size <= LARGEST:
            judge_size(executable, case, sheet, size, verdicts, calls=CALLS)
    return verdicts
