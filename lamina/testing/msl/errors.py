"""The error of everything that a Metal text can be wrong in."""

from lamina.errors import LaminaError


class MslError(LaminaError):
    """A Metal text cannot be compiled or run, or a kernel of it did what it must not do."""
