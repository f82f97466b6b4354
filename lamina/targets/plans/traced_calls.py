"""What a timeline says of each call of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.targets.plans.plan_tables import UNSAID, Plan
from lamina.targets.timeline import TracedCall


def traced_calls(plan: Plan, values: Sequence[int]) -> list[TracedCall]:
    """Return what each call of `plan` is and does, where its values have these numbers."""
    found: list[TracedCall] = []
    for (kernel, *_), work in zip(plan.calls, plan.works, strict=True):
        counts = (None if each == UNSAID else values[each] for each in work)
        found.append(TracedCall(plan.kernels[kernel], plan.schedules[kernel], *counts))
    return found
