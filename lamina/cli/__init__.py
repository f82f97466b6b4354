"""The command line, one file a command."""

import sys

from lamina.cli.interrupt import INTERRUPTED

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line on `arguments`, or the process's own, and exit with its code."""
    try:
        # Reading the commands takes long enough to be interrupted.
        from lamina.cli.app import execute

        execute(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
