"""Outputs of calls: their memory serves again, but never while anything looks into it."""

import gc
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from lamina.targets.cpu.executable import CpuExecutable
from lamina.targets.lent_memory import LentMemory
from lamina.targets.memory import ALIGNMENT, element_dtype

Load = Callable[..., CpuExecutable]
F32 = np.dtype(np.float32)


def test_memory_is_lent_again_when_its_array_is_dropped() -> None:
    memory = LentMemory()
    array, address = memory.lend((3, 5), F32)
    del array
    again, same = memory.lend((5, 3), F32)
    assert same == address == again.ctypes.data
    assert memory.kept == 0


def test_memory_stays_while_a_view_looks_into_it() -> None:
    memory = LentMemory()
    array, address = memory.lend((3, 5), F32)
    part = array.T[1:]
    array[:] = 7
    del array
    other, elsewhere = memory.lend((3, 5), F32)
    other[:] = 0
    assert elsewhere != address
    assert (part == 7).all()


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3), (300, 200)])
@pytest.mark.parametrize("element", ["f32", "i1", "bf16", "i64"])
def test_lent_arrays_are_ordinary_ones(shape: tuple[int, ...], element: str) -> None:
    array, address = LentMemory().lend(shape, element_dtype(element))
    assert type(array) is np.ndarray
    assert (array.shape, array.dtype) == (shape, element_dtype(element))
    assert address % ALIGNMENT == 0
    assert array.flags.writeable
    assert array.flags.c_contiguous


def test_an_array_fits_into_what_is_lent_and_leaves_a_quarter_at_most() -> None:
    memory = LentMemory()
    for size in (*range(300), 4095, 4097, 10**6, 2**24 + 1):
        array, address = memory.lend((size,), np.dtype(np.uint8))
        array[-1:] = 1
        held = memoryview(array.base).nbytes
        assert size <= held <= max(ALIGNMENT, 1.25 * size)
        assert address == array.ctypes.data


def test_few_blocks_are_kept_of_few_sizes_and_none_that_is_very_large() -> None:
    memory = LentMemory()
    for size, kept in ((4, 4), (9 << 20, 4), (1 << 10, 8), (1 << 11, 12), (1 << 12, 12)):
        lent = [memory.lend((size,), F32) for _ in range(9)]
        del lent
        gc.collect()
        assert memory.kept == kept


def test_threads_that_drop_outputs_late_see_what_their_calls_gave(load: Load) -> None:
    executable, wrong = load("steps", 2), list[int]()

    def call(number: int) -> None:
        held = [executable(np.full(10, number, F32), s=np.zeros((10, 6), F32))["z"]]
        for _ in range(200):
            held = [*held[-2:], executable(np.full(10, number, F32), s=np.zeros((10, 6), F32))["z"]]
            wrong.extend(number for z in held if not (z == 2 * number).all())

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_call_of_the_shapes_of_the_last_one_takes_few_functions(load: Load) -> None:
    executable, x, s = load("steps", 1), np.ones(10, F32), np.zeros((10, 6), F32)
    executable(x=x, s=s)
    called = list[str]()
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name * (event == "call")))
    executable(x=x, s=s)
    sys.setprofile(None)
    assert len(list(filter(None, called))) < 60
