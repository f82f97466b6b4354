"""The sections of a Metal artifact, beside those of its plan."""

from typing import Final

KERNELS: Final = "kernels"
"""JSON: of each kernel, its text and what has to be known to launch it."""
