"""What schedules depend on: the machine as passes see it, and what was measured on it."""

from __future__ import annotations

import os

from lamina.passes.schedules.database import database_digest
from lamina.passes.schedules.machine import Machine
from lamina.targets.cpu.features import CpuFeatures


def machine_of(features: CpuFeatures) -> Machine:
    """Return the numbers of a feature level that schedules follow from."""
    return Machine(
        lanes=features.lanes(32),
        registers=features.registers,
        l1=features.l1,
        l2=features.l2,
        dots=features.vnni or features.dotprod,
        cores=os.cpu_count() or 1,
        cpu=features.cpu,
    )


def schedules_stamp(features: CpuFeatures) -> str:
    """Return what tells apart the schedules measured on a machine; empty if there are none."""
    return database_digest(machine_of(features))
