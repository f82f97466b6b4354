"""What a kernel asks of a device, beside what that has, and how far it can count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from lamina.errors import InputError, TargetUnavailable

_MOST: Final = 2**31 - 1
"""The largest number that the words and coordinates of a kernel of 32 bits can hold."""


def check_fits(kernel: str, device: str, needs: Iterable[tuple[str, int, int]]) -> None:
    """Raise TargetUnavailable for what a kernel needs more of than a device has.

    `needs` are what, how many of it the kernel needs, and how many the device has.
    """
    for what, number, has in needs:
        if number > has:
            raise TargetUnavailable(f"kernel {kernel} needs {number} {what}, {device} has {has}")


def check_numbers(kernel: str, numbers: Iterable[int]) -> None:
    """Raise InputError where a kernel that counts in 32 bits needs larger numbers than these."""
    if max(map(abs, numbers), default=0) > _MOST:
        raise InputError(f"kernel {kernel} needs numbers beyond 32 bits: use smaller inputs")


def element_counts(
    shapes: Sequence[Sequence[int]], slots: Sequence[int], words: Sequence[int]
) -> list[int]:
    """Return how many elements each memref of a dispatch has.

    An extent of -1 is one that the words say: `slots` of them are about each memref, the extents
    first.
    """
    counts, given = list[int](), list(words)
    for shape, count in zip(shapes, slots, strict=True):
        said, given = iter(given[:count]), given[count:]
        counts.append(prod(next(said) if extent < 0 else extent for extent in shape))
    return counts
