"""What a kernel asks of a device, beside what that has."""

from __future__ import annotations

from collections.abc import Iterable

from lamina.errors import TargetUnavailable


def check_fits(kernel: str, device: str, needs: Iterable[tuple[str, int, int]]) -> None:
    """Raise TargetUnavailable for what a kernel needs more of than a device has.

    `needs` are what, how many of it the kernel needs, and how many the device has.
    """
    for what, number, has in needs:
        if number > has:
            raise TargetUnavailable(f"kernel {kernel} needs {number} {what}, {device} has {has}")
