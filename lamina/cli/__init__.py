"""The command line, one file a command."""

import os
import sys

from lamina.cli.interrupt import INTERRUPTED
from lamina.rare_collection import collect_rarely

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line on `arguments`, or the process's own, and exit with its code."""
    _open_streams()
    # A command ends before what it leaves behind could fill the memory.
    collect_rarely()
    try:
        # Reading the commands takes long enough to be interrupted.
        from lamina.cli.app import execute

        execute(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _open_streams() -> None:
    # In order, so that each has its usual number, and no file that is opened later takes it.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
