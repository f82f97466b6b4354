"""What PTX and machine code for one architecture run on."""

from __future__ import annotations

import re
from typing import Final

from lamina.errors import FormatError

ARCHITECTURES: Final = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")
"""What PTX can be made for; that of a number alone also runs on every later device."""

_SPELT: Final = re.compile(r"sm_(\d+)(\d)([af]?)")


def architecture(capability: tuple[int, int]) -> str:
    """Return the architecture of a device of this compute capability."""
    major, minor = capability
    return f"sm_{major}{minor}"


def runs_ptx(arch: str, capability: tuple[int, int]) -> bool:
    """Tell whether PTX for `arch` runs on a device: on its own and later ones, but for variants.

    What ends in `a` runs on that very architecture alone, what ends in `f` on its family.
    FormatError for what is no architecture.
    """
    own, variant = _parsed(arch)
    if variant == "a":
        return capability == own
    if variant == "f":
        return capability[0] == own[0] and capability >= own
    return capability >= own


def runs_cubin(arch: str, capability: tuple[int, int]) -> bool:
    """Tell whether machine code for `arch` runs on a device: one of the same major number."""
    own, variant = _parsed(arch)
    if variant == "a":
        return capability == own
    return capability[0] == own[0] and capability >= own


def _parsed(arch: str) -> tuple[tuple[int, int], str]:
    if not (found := _SPELT.fullmatch(arch)):
        raise FormatError(f"{arch!r} is no architecture: expected sm_80 or the like")
    return (int(found[1]), int(found[2])), found[3]
