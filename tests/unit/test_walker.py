"""A plan that is walked here, its kernels run by functions of a target's own."""

import ctypes

import numpy as np
import pytest

from lamina.compiler import lower
from lamina.errors import InputError
from lamina.targets.reference.walker import call_native, outline_of, walk
from lamina.testing import cases

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def test_a_kernel_is_told_its_grid_memrefs_and_indices() -> None:
    x, told = np.zeros((2, 6), np.float16)[:, ::3], list[int]()
    kernel = KERNEL(lambda words, error: told.extend((ctypes.c_int64 * 9).from_address(words)))
    assert call_native(kernel, [7], [x], [5]) == 0
    assert told == [7, 1, 1, x.ctypes.data, 2, 2, 6, 3, 5]


def test_a_failed_check_of_a_kernel_is_named() -> None:
    case = next(each for each in cases() if each.name == "look-up-of-7")
    sheet = case.sheet()
    outline = outline_of(lower(sheet.module, "cpu"))

    def fail(words: int, error: int) -> None:
        ctypes.c_int32.from_address(error).value = 2

    exe = walk(outline, sheet.weights, [KERNEL(fail)] * outline.count(b"tile.kernel"), ["a", "b"])
    with pytest.raises(InputError, match="b: a value of the input is out of range"):
        exe(**case.calls(sheet, 3)[0])


def test_an_outline_has_kernels_without_bodies() -> None:
    case = next(each for each in cases() if each.name == "softmax")
    outline = outline_of(lower(case.sheet().module, "cpu"))
    assert b"tile.kernel" in outline
    assert b"tile.load" not in outline
