"""What threads make together of one value or one element, in WGSL."""

import numpy as np
import pytest
from device_kernel import run_on
from meeting_kernels import (
    CHANGES,
    REDUCED,
    SPACES,
    change,
    change_inputs,
    reduction,
    reduction_inputs,
    wrong_elements,
)

from lamina.targets.reference.simt import run_simt_kernel
from lamina.targets.webgpu.functions import Ability
from lamina.targets.webgpu.printer import NodeTable
from lamina.targets.webgpu.wgsl import WINDOW, emit_kernel


@pytest.mark.parametrize("subgroups", [True, False])
@pytest.mark.parametrize("element", REDUCED)
def test_clusters_of_neighbours_reduce_to_one_value_each(device, element, subgroups):
    kernel, found, expected = reduction(element, 8), *(reduction_inputs(element) for _ in "ab")
    run_on(device, kernel, found, {"n": 1}, subgroups=subgroups)
    run_simt_kernel(kernel, expected, {"n": 1})
    assert np.array_equal(found[1], expected[1])


def test_a_whole_subgroup_reduces_at_once_where_it_is_as_large_as_the_kernel_takes_it_for():
    kernel = emit_kernel(reduction("i32", 8), [False] * 2, NodeTable())
    with_them, without = (kernel.text(Ability(s), (1, 1), WINDOW) for s in (True, False))
    assert "if (lanes == 8u) { return subgroupAdd(x); }" in with_them
    assert "lanes = size;" in with_them
    assert "subgroup" not in without


QUICK = [
    ("add", "i32", "argument"),
    ("max", "i32", "workgroup"),
    ("compare_exchange", "i32", "argument"),
]
LONG = [(*each, space) for each in CHANGES for space in SPACES if (*each, space) not in QUICK]


@pytest.mark.parametrize(
    ("kind", "element", "space"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.gpu) for each in LONG)],
)
def test_threads_change_an_element_in_turns(device, kind, element, space):
    given, found = change_inputs(element), change_inputs(element)
    run_on(device, change(kind, element, space), found, {"n": 1})
    assert wrong_elements(kind, space, given, found) == 0
