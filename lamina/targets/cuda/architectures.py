"""What PTX and machine code for one architecture run on."""

from __future__ import annotations

import re
from typing import Final

from lamina.errors import FormatError, InputError

_KILO: Final = 1 << 10

_SHARED: Final = {
    "sm_80": 163 * _KILO,
    "sm_86": 99 * _KILO,
    "sm_89": 99 * _KILO,
    "sm_90": 227 * _KILO,
    "sm_90a": 227 * _KILO,
    "sm_100": 227 * _KILO,
    "sm_100a": 227 * _KILO,
    "sm_120": 99 * _KILO,
}
"""Bytes of shared memory that a block may be given (CUDA C++ Programming Guide, Technical
Specifications per Compute Capability)."""

ARCHITECTURES: Final = tuple(_SHARED)
"""What PTX can be made for; that of a number alone also runs on every later device."""

_SPELT: Final = re.compile(r"sm_(\d+)(\d)([af]?)")


def architecture(capability: tuple[int, int]) -> str:
    """Return the architecture of a device of this compute capability."""
    major, minor = capability
    return f"sm_{major}{minor}"


def most_shared(arch: str) -> int:
    """Return the bytes of shared memory that a block may be given at its launch.

    InputError for an architecture that PTX is not made for.
    """
    check_architecture(arch)
    return _SHARED[arch]


def check_architecture(arch: str) -> None:
    """Raise InputError for an architecture that PTX is not made for."""
    if arch not in ARCHITECTURES:
        raise InputError(
            f"the target cuda, option arch: expected {', '.join(ARCHITECTURES)}, got {arch!r}"
        )


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
