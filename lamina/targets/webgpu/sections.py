"""The sections of a WebGPU artifact."""

from typing import Final

KERNELS: Final = "kernels"
"""JSON: of each kernel, its text and what has to be known to launch it."""

PLAN: Final = "plan"
"""The tables of the plan."""

PREPARE: Final = "prepare"
"""The text of a module that holds just `@prepare`; empty if there is none."""

HOSTS: Final = "hosts"
"""The text of a module of the groups that run by their NumPy meaning; empty if there is none."""
