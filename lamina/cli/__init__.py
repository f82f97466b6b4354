"""The command line, one file a command."""

from lamina.cli.app import main

__all__ = ["main"]
