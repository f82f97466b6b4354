"""Locks that a forked child finds free, whoever held them in its parent."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class OwnLock:
    """What has a lock of this process in `_lock`.

    A fork copies the lock of a thread that the child does not have, and that nobody would ever let
    go there. What the lock guards has to be whole at any moment.
    """

    def __init__(self) -> None:
        """Have a free lock, in this process and in each child that is forked from it."""
        self._lock = threading.Lock()
        _owners.add(self)

    @classmethod
    def renew_all(cls) -> None:
        """Let every owner have a free lock; blocks that run under the former keep that one."""
        for owner in _owners:
            owner._lock = threading.Lock()


_owners: WeakSet[OwnLock] = WeakSet()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OwnLock.renew_all)
