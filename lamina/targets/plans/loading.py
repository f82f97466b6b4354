"""The parts of an artifact of a plan that every target takes alike."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from lamina.errors import FormatError
from lamina.targets.base import Artifact
from lamina.targets.packed import PackedWeights
from lamina.targets.packing.packed_weights import packed_weights
from lamina.targets.plans.plan_tables import Plan
from lamina.targets.plans.sections import PLAN, PREPARE


def pack_weights(artifact: Artifact, weights: Mapping[str, Any]) -> PackedWeights:
    """Return what the artifact's `@prepare` makes of the weights; InputError if one is missing."""
    check_sections(artifact, {PLAN, PREPARE})
    specs = Plan.from_bytes(artifact.sections[PLAN]).packed
    arrays = packed_weights(specs, artifact.sections[PREPARE], weights)
    return PackedWeights({spec.name: array for spec, array in zip(specs, arrays, strict=True)})


def check_sections(artifact: Artifact, needed: Set[str]) -> None:
    """Raise FormatError unless the artifact has these sections."""
    if missing := sorted(needed - artifact.sections.keys()):
        raise FormatError(f"the artifact has no section {missing[0]!r}")
