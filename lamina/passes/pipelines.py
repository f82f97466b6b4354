"""The default pipelines by name, and the points at which a target or a plugin adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.passes import ModulePass

from lamina.errors import InputError


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
    """Return the passes of `steps` with those of `inserted` at their points.

    Raises `InputError` naming a point that `steps` do not have.
    """
    inserted, passes = inserted or {}, list[ModulePass]()
    points = [step.name for step in steps if isinstance(step, Extension)]
    if unknown := sorted(inserted.keys() - set(points)):
        raise InputError(
            f"the pipeline has no extension point {unknown[0]!r} (known: {', '.join(points)})"
        )
    for step in steps:
        passes += inserted.get(step.name, ()) if isinstance(step, Extension) else (step,)
    return tuple(passes)


PORTABLE: Steps = (Extension("import"), Extension("fusion"))
"""From an importer's plain graph to a fused one."""

LOWERING: Steps = (Extension("groups"), Extension("kernels"), Extension("plan"))
"""From a fused graph to kernels on one arena."""
