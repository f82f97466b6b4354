"""Show the dialects and passes of the box and of every plugin to `xdsl-opt`."""

from typing import Final

from xdsl.universe import Universe

from lamina.plugins import manager

UNIVERSE: Final = Universe(all_dialects=manager.dialects(), all_passes=manager.passes())
"""What the entry point `xdsl.universe` finds."""
