"""Names from files as text that is safe in IR: anything but printable ASCII is percent-escaped."""

import re
from urllib.parse import unquote

_PLAIN = {chr(code) for code in range(0x20, 0x7F)} - {"%"}


def escape_name(name: str) -> str:
    """Return `name` in printable ASCII; a name that is so already stays, but for `%`."""
    return "".join(c if c in _PLAIN else _escaped(c) for c in name)


def unescape_name(text: str) -> str:
    """Return the name that `escape_name` was given."""
    return unquote(text, errors="surrogatepass")


def hint_of(name: str) -> str:
    """Return the nearest to `name` that a value may be called in a module's text."""
    hint = re.sub(r"^(?=[\d.-])|[^\w$.-]", "_", name, flags=re.ASCII)
    # xDSL cuts numbers off the ends of names, and of "_0" leaves nothing.
    return f"v{hint}" if re.fullmatch(r"(_\d+)*", hint) else hint


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
