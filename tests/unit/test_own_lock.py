"""A forked child waits for none of its parent's threads."""

import os
import threading
from collections.abc import Callable

import pytest

from lamina.own_lock import OwnLock


class Counter(OwnLock):
    """Something that one thread works on for as long as it likes."""

    def while_held(self, act: Callable[[], None]) -> None:
        with self._lock:
            act()

    def is_free(self) -> bool:
        return not self._lock.locked()


def in_child(check: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_finds_the_lock_of_another_thread_free() -> None:
    counter, held, over = Counter(), threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        over.wait()

    holder = threading.Thread(target=counter.while_held, args=[hold])
    holder.start()
    held.wait()
    free_in_child, free_here = in_child(counter.is_free), counter.is_free()
    over.set()
    holder.join()
    assert (free_in_child, free_here) == (True, False)


def test_a_block_in_which_a_process_forks_ends_in_both() -> None:
    counter, seen = Counter(), list[bool]()
    counter.while_held(lambda: seen.append(in_child(counter.is_free)))
    assert seen == [True]
    assert counter.is_free()
