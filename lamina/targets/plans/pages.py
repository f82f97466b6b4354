"""What pages of keys and values are made of on targets with a device."""

from __future__ import annotations

from typing import Final

from lamina.errors import InputError

ELEMENTS: Final = ("f32", "f16")


def check_pages(target: str, kv: str) -> None:
    """Raise InputError unless `kv` is an element type that pages may have there."""
    if kv not in ELEMENTS:
        raise InputError(
            f"the target {target}, option kv: expected {' or '.join(ELEMENTS)}, got {kv!r}"
        )
