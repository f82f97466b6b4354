"""The sections of a CPU artifact, beside those of its plan."""

from typing import Final

CODE: Final = "code/"
"""With a kernel's name after it: the object file of that kernel."""
