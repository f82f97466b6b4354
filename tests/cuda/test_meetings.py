"""What threads make together of one value or one element, in PTX; changes that are none are caught."""

import re

import numpy as np
import pytest
from meeting_kernels import (
    BLOCKS,
    CHANGES,
    REDUCED,
    SPACES,
    THREADS,
    change,
    change_inputs,
    reduction,
    reduction_inputs,
    wrong_elements,
)

from lamina.dialects import simt
from lamina.targets.cuda.nvvm import emit_kernel
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.ptx import to_ptx
from lamina.targets.reference.simt import run_simt_kernel
from lamina.testing.ptx import Device, KernelFault

ATOMIC = r"atom\.[\w.:]*?(shared|global)\.\w+\.\w+\s+(%\w+), \[(%\w+)\], [^;]*?(%\w+);"
"""An atomic operation: its space, what it gives, where, and its last operand."""


def ptx(kernel: simt.KernelOp) -> str:
    return to_ptx([emit_kernel(kernel, NodeTable()).text], "sm_80")


def run(kernel: simt.KernelOp, text: str, memrefs: list[np.ndarray]) -> list[np.ndarray]:
    """What a kernel leaves; the extents of memrefs that have any and `n` follow the pointers."""
    device = Device()
    places = [device.put(array) for array in (*memrefs, np.zeros(1, np.int32))]
    words = [
        array.size for x, array in zip(kernel.memrefs, memrefs, strict=True) if "?" in str(x.type)
    ]
    given = [*places[:-1], *words, 1, places[-1]]
    name = kernel.sym_name.data
    device.launch(device.load(text).kernel(name), (BLOCKS,), (THREADS,), given)
    return [device.get(at, a.dtype, a.shape) for at, a in zip(places, memrefs, strict=False)]


@pytest.mark.parametrize("subgroup", [8, 32])
@pytest.mark.parametrize("element", REDUCED)
def test_a_warp_reduces_in_one_instruction_and_its_parts_by_shuffles(
    element: str, subgroup: int
) -> None:
    kernel, expected = reduction(element, subgroup), reduction_inputs(element)
    text = ptx(kernel)
    found = run(kernel, text, reduction_inputs(element))
    run_simt_kernel(kernel, expected, {"n": 1})
    assert np.array_equal(found[1], expected[1])
    whole = set(re.findall(r"redux\.sync\.\w+\.\w+|vote\.sync\.\w+\.pred", text))
    one = {"i1": 2, "i32": 5}[element]
    assert len(whole) == (one if subgroup == 32 else 0)
    assert "shfl.sync.bfly" in text


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("kind", "element"), CHANGES)
def test_threads_change_an_element_in_turns(kind: str, element: str, space: str) -> None:
    kernel, given = change(kind, element, space), change_inputs(element)
    text = ptx(kernel)
    assert re.search(ATOMIC, text)
    found = run(kernel, text, given)
    assert wrong_elements(kind, space, given, found) == 0


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("kind", "element"), CHANGES)
def test_a_change_made_of_a_load_and_a_store_is_caught(kind: str, element: str, space: str) -> None:
    kernel, given = change(kind, element, space), change_inputs(element)
    plain = r"ld.\1.b32 \2, [\3]; st.\1.b32 [\3], \4;"
    mutant, count = re.subn(ATOMIC, plain, ptx(kernel))
    assert count == 2
    assert shows(kernel, mutant, kind, space, given) == "race"


def shows(kernel: simt.KernelOp, text: str, kind: str, space: str, given: list[np.ndarray]) -> str:
    """How what is wrong with a kernel shows: by a fault of some kind, or by its numbers."""
    try:
        found = run(kernel, text, given)
    except KernelFault as fault:
        return fault.kind
    return "numbers" if wrong_elements(kind, space, given, found) else ""
