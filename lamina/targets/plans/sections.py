"""The sections that every artifact of a plan has."""

from typing import Final

PLAN: Final = "plan"
"""The tables of the plan."""

PREPARE: Final = "prepare"
"""The text of a module that holds just `@prepare`; empty if there is none."""

HOSTS: Final = "hosts"
"""The text of a module of the groups that run by their NumPy meaning; empty if there is none."""
