"""Numbers on a command line of which there has to be one at least."""

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """Return the whole number that `text` says, from 1 up."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"expected a whole number from 1 up, got {text!r}")
    return int(text)
