"""Sizes that divide others."""

from __future__ import annotations


def largest_divisor(size: int, most: int) -> int:
    """Return the largest divisor of a size that is at most `most`, at least 1."""
    return max(n for n in range(1, max(1, min(size, most)) + 1) if size % n == 0)
