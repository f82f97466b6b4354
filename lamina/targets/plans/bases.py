"""Which bases of a plan are what."""

from __future__ import annotations

from lamina.targets.plans.plan_tables import FIRST_ARRAY, Plan


def packed_bases(plan: Plan) -> range:
    """Return the bases of a plan's packed weights."""
    last = FIRST_ARRAY + plan.arrays - len(plan.outputs)
    return range(last - len(plan.packed), last)
