"""The sections of a CPU artifact."""

from typing import Final

CODE: Final = "code/"
"""With a kernel's name after it: the object file of that kernel."""

PLAN: Final = "plan"
"""The tables of the plan."""

PREPARE: Final = "prepare"
"""The text of a module that holds just `@prepare`; empty if there is none."""

HOSTS: Final = "hosts"
"""The text of a module of the groups that run by their NumPy meaning; empty if there is none."""
