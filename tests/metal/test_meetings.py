"""What threads make together of one value or one element, in Metal's language; false changes."""

import re
from dataclasses import replace

import numpy as np
import pytest
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
from shim_kernel import Shimmed, shimmed
from xdsl.dialects.builtin import StringAttr

from lamina.dialects import simt
from lamina.errors import LoweringError
from lamina.targets.metal.msl import emit_kernel, library_text
from lamina.targets.reference.simt import run_simt_kernel
from lamina.targets.shading.printer import NodeTable
from lamina.testing.msl import MslError, check, compile

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.gpu]

WHERE = {("add", "f32", "workgroup")}
CASES = [(*each, space) for each in CHANGES for space in SPACES if (*each, space) not in WHERE]
ATOMIC = r"(?:atomic_\w+_explicit|compare_exchanged)\(\((\w+) atomic_(\w+)\*\)(\([^)]*\))"
CALL = rf"{ATOMIC}, (?:[^,;]*, )??([^,;]*?)(?:, memory_order_relaxed)?\);"
PLAIN = """
template <typename P, typename V> V plain(P at, V value) {
  V old = *at;
  *at = value;
  return old;
}
"""


def reductions() -> dict[str, tuple[str, simt.KernelOp]]:
    found: dict[str, tuple[str, simt.KernelOp]] = {}
    for element in REDUCED:
        for subgroup in (8, 32):
            kernel = reduction(element, subgroup)
            name = f"reduce_{element}_{subgroup}"
            kernel.properties["sym_name"] = StringAttr(name)
            found[name] = (element, kernel)
    return found


REDUCTIONS = reductions()


@pytest.fixture(scope="module")
def every() -> Shimmed:
    return shimmed([*(k for _, k in REDUCTIONS.values()), *(change(*case) for case in CASES)])


@pytest.fixture(scope="module")
def mutants(every: Shimmed) -> Shimmed:
    """The same kernels, whose changes are a load and a store."""
    text = re.sub(CALL, r"plain((\1 \2*)\3, \4);", library_text(every.texts.values()))
    start = "using namespace metal;\n"
    return replace(every, library=compile(text.replace(start, start + PLAIN)))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_clusters_of_neighbours_reduce_to_one_value_each(every, name):
    element, kernel = REDUCTIONS[name]
    found, expected = reduction_inputs(element), reduction_inputs(element)
    every.run(name, found, {"n": 1})
    run_simt_kernel(kernel, expected, {"n": 1})
    assert np.array_equal(found[1], expected[1])
    assert ("simd_a" in every.texts[name].text) == name.endswith("32")


@pytest.mark.parametrize("schedule", ["forward", "reverse"])
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_threads_change_an_element_in_turns(every, case, schedule):
    kind, element, space = case
    given, found = change_inputs(element), change_inputs(element)
    every.run("_".join(case), found, {"n": 1}, schedule=schedule)
    assert wrong_elements(kind, space, given, found) == 0


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_change_made_of_a_load_and_a_store_is_caught(mutants, case):
    with pytest.raises(MslError, match="no barrier between"):
        mutants.run("_".join(case), change_inputs(case[1]), {"n": 1})


def test_types_and_address_spaces_are_right(every):
    assert check(library_text(every.texts.values())) == []


def test_floats_are_added_as_a_whole_in_device_memory_alone():
    with pytest.raises(LoweringError, match="adds floats as a whole in device memory alone"):
        emit_kernel(change("add", "f32", "workgroup"), NodeTable())
