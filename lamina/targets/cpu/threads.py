"""How many threads a process may use: the CPUs it may run on, cut to its cgroup's quota."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lamina.arguments import whole_number
from lamina.targets.base import MOST_THREADS

_CGROUPS: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")


def thread_limit(asked: int | None = None) -> Callable[[], int]:
    """Return what tells how many threads may run now: those `asked` for, but one a CPU at most.

    More would only wait for one another. Raises InputError if `asked` is out of range.
    """
    most = MOST_THREADS if asked is None else whole_number(asked, "threads", 1, MOST_THREADS)
    return lambda: min(most, default_threads())


def thread_count(asked: int | None = None) -> int:
    """Return what `thread_limit` tells."""
    return thread_limit(asked)()


def default_threads(cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Return the CPUs in the affinity mask, cut to the cgroup quota rounded down, at least 1."""
    quota = _quota(cgroups, membership)
    allowed = min(_affinity(), MOST_THREADS)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(cgroups: Path, membership: Path) -> float | None:
    """Return the CPUs that the tightest of this process's cgroups, of either version, grants."""
    quotas: list[float] = []
    for line in _lines(membership):
        _, controllers, path = line.split(":", 2)
        unified = not controllers
        if not unified and "cpu" not in controllers.split(","):
            continue
        root = cgroups if unified else cgroups / "cpu"
        # Inside a container the path is the host's; then the root is the container's own.
        own = root / path.lstrip("/")
        folders = [own, *own.parents] if ".." not in own.parts else []
        folders = [folder for folder in folders if folder.is_relative_to(root)]
        for folder in folders or [root]:
            limit = _unified_limit(folder) if unified else _legacy_limit(folder)
            quotas += [limit] if limit is not None else []
    return min(quotas, default=None)


def _unified_limit(folder: Path) -> float | None:
    words = " ".join(_lines(folder / "cpu.max")).split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or words[1] == "0":
        return None
    return int(words[0]) / int(words[1])


def _legacy_limit(folder: Path) -> float | None:
    quota = "".join(_lines(folder / "cpu.cfs_quota_us")).strip()
    period = "".join(_lines(folder / "cpu.cfs_period_us")).strip()
    if not quota.isdigit() or not period.isdigit() or period == "0":
        return None
    return int(quota) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
