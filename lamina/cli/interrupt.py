"""How a command that Ctrl-C ended says so."""

from typing import Final

INTERRUPTED: Final = 130
"""The exit code: 128 and the number of the signal, as shells count."""
