"""How a value from a file appears in a message: quoted, and never long."""

from reprlib import Repr

_REPR = Repr()
_REPR.maxstring = _REPR.maxother = 80
_REPR.maxlong = 40


def shown(value: object) -> str:
    """Return a quoted form of `value`, of bounded length and on one line."""
    return _REPR.repr(value).replace("\n", " ")
