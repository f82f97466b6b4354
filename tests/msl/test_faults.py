"""What a kernel must not do ends its run, and is told in a sentence that says where it was done."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from lamina.testing.msl import Launch, Library, Memory, MslError

FAULTS = {
    "reads_past_the_end": r"line 7: reads 4 bytes at byte 128 of buffer\(0\), which has 128 bytes, in thread \(31, 0, 0\)",
    "writes_before_the_start": r"line 11: writes 4 bytes that lie 4 before the start of buffer\(1\)",
    "reads_far_away": r"line 15: reads 4 bytes at byte 17175869184 of buffer\(0\)",
    "passes_a_variable": r"line 20: writes 4 bytes at byte 128 of threadgroup variable held, which has 128 bytes",
    "passes_an_argument": r"line 26: writes 4 bytes at byte 128 of threadgroup\(2\), which has 128 bytes",
    "passes_an_array": r"line 31: takes element 4 of 'float \[4\]', in thread \(4, 0, 0\)",
    "writes_a_constant": r"line 35: writes to buffer\(0\), which it takes as const, in thread \(3, 0, 0\)",
    "is_not_aligned": r"line 40: touches .*float4' at an address that is not a multiple of 16",
    "divides_by_zero": r"line 44: divides an integer by zero",
    "sums_by_some": r"line 50: waits at simd_sum for thread 5, which has returned",
    "sums_in_two_places": r"line 55: comes to simd_sum while thread 0 of its simdgroup waits at simd_max in line 57",
    "stops_some": r"line 60: waits at threadgroup_barrier for thread 0, which has returned",
    "stops_in_two_places": r"line 68: comes to a threadgroup_barrier while thread 0 waits at that of line 66",
    "asks_a_lane_that_is_not_there": r"line 73: simd_shuffle reads lane 32 of a simdgroup of 32 lanes",
    "loads_from_many_places": r"line 78: simdgroup_load is not told the same by every lane: lane 0 has another place",
    "takes_too_much": r"takes 32772 bytes of threadgroup memory, of which there are 32768",
    "groups_write_the_same": r"writes byte 0 of buffer\(1\), which thread 0 of threadgroup \(0, 0, 0\) wrote in the same launch, in thread \(0, 0, 0\) of threadgroup \(1, 0, 0\)",
    "group_reads_what_another_writes": r"reads byte 0 of buffer\(1\), which thread 0 of threadgroup \(0, 0, 0\) wrote",
    "orders_other_memory": r"reads byte 252 of threadgroup variable held, which thread 63 wrote, with no barrier between",
    "recurses": r"takes more memory for one thread than there is",
}


def launch(kernel: str, groups: int) -> Launch:
    """Return a launch over 64 threads; buffer 0 holds zeros and is half as long as buffer 1."""
    buffers = {0: (Memory(128), 0), 1: (Memory(256), 0)}
    return Launch(kernel, (groups, 1, 1), (64 // groups, 1, 1), buffers, {2: 128})


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_fault_is_told(metal: Callable[[str], Library], kernel: str) -> None:
    with pytest.raises(MslError, match=rf"^kernel {kernel}: .*{FAULTS[kernel]}"):
        metal("faults").execute([launch(kernel, 2 if "group" in kernel else 1)])


def test_a_kernel_that_does_not_end_is_ended(metal: Callable[[str], Library]) -> None:
    with pytest.raises(MslError, match=r"the kernels did not end within 0\.5 s"):
        metal("faults").execute([launch("does_not_end", 1)], timeout_s=0.5)


def test_every_fault_is_tested(metal: Callable[[str], Library]) -> None:
    assert set(metal("faults").kernels) == {*FAULTS, "does_not_end", "stops_in_one_place"}


def test_a_buffer_that_is_bound_twice_has_both_names(metal: Callable[[str], Library]) -> None:
    memory = Memory(128)
    both = Launch("reads_past_the_end", (1, 1, 1), (32, 1, 1), {0: (memory, 0), 1: (memory, 0)})
    with pytest.raises(MslError, match=r"byte 128 of buffer\(0\) and buffer\(1\), which has 128"):
        metal("faults").execute([both], races=False)


def test_launches_that_follow_each_other_may_touch_the_same(
    metal: Callable[[str], Library],
) -> None:
    metal("faults").execute([launch("stops_in_one_place", 1)] * 2)


def test_launches_at_one_time_must_not_touch_the_same(metal: Callable[[str], Library]) -> None:
    first = launch("stops_in_one_place", 1)
    second = Launch("stops_in_one_place", (1, 1, 1), (64, 1, 1), first.bindings, ordered=False)
    with pytest.raises(MslError, match="wrote in the same launch"):
        metal("faults").execute([first, second])


Call = tuple[str, dict[int, object], Sequence[int], Sequence[int], dict[int, int]]
X, Y = np.zeros(32, np.float32), np.zeros(64, np.float32)
REFUSED: dict[str, Call] = {
    r"there is no kernel nothing: the text has reads_past": ("nothing", {}, (1,), (1,), {}),
    r"takes buffer\(0\), x: not bound": ("reads_past_the_end", {1: Y}, (1,), (32,), {}),
    r"has no buffer\(2\), which is bound": (
        "reads_past_the_end",
        {0: X, 1: Y, 2: X},
        (1,),
        (32,),
        {},
    ),
    r"2048 threads: expected at most 1024": ("sums_by_some", {1: Y}, (1,), (64, 32), {}),
    r"is empty": ("sums_by_some", {1: Y}, (0,), (64,), {}),
    r"takes threadgroup\(2\), held: no size": ("passes_an_argument", {1: Y}, (1,), (1,), {}),
    r"20 threadgroup bytes: expected a multiple of 16": (
        "passes_an_argument",
        {1: Y},
        (1,),
        (1,),
        {2: 20},
    ),
    r"takes 32784 bytes of threadgroup memory": (
        "passes_an_argument",
        {1: Y},
        (1,),
        (1,),
        {2: 32784},
    ),
    r"writes to buffer\(1\): expected a writable array": (
        "stops_in_one_place",
        {1: bytes(256)},
        (1,),
        (64,),
        {},
    ),
    r"\(1, 1, 1, 1\): expected one to three numbers": (
        "sums_by_some",
        {1: Y},
        (1, 1, 1, 1),
        (1,),
        {},
    ),
}


@pytest.mark.parametrize("says", REFUSED)
def test_a_launch_that_does_not_fit_is_refused(metal: Callable[[str], Library], says: str) -> None:
    kernel, buffers, grid, threads, sizes = REFUSED[says]
    with pytest.raises(MslError, match=re.compile(says)):
        metal("faults").run(kernel, buffers, grid, threads, sizes)
