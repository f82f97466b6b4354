"""Threads that meet in one value or one element: what they make of it, and what is a race."""

import numpy as np
import pytest
from meeting_kernels import (
    CHANGES,
    REDUCED,
    SPACES,
    change,
    change_inputs,
    possible,
    reduction,
    reduction_inputs,
    wrong_elements,
)
from simt_text import kernel

from lamina.dialects import simt
from lamina.errors import LaminaError
from lamina.targets.reference.simt import run_simt_kernel

COMBINED = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


@pytest.mark.parametrize("subgroup", [8, 32])
@pytest.mark.parametrize("element", REDUCED)
def test_clusters_of_neighbours_reduce_to_one_value_each(element: str, subgroup: int) -> None:
    memrefs = reduction_inputs(element)
    run_simt_kernel(reduction(element, subgroup), memrefs, {"n": 1})
    x = memrefs[0].reshape(-1, 2)
    x = x & 1 if element == "i1" else x
    found = memrefs[1].reshape(len(REDUCED[element]), 3, -1, 2)
    for kind, rows in zip(REDUCED[element], found, strict=True):
        for size, row in zip((2, 8, subgroup), rows, strict=True):
            whole = COMBINED[kind].reduce(x.reshape(-1, size, 2), axis=1, dtype=np.int32)
            assert np.array_equal(row, whole.repeat(size, axis=0)), (kind, size)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("kind", "element"), CHANGES)
def test_threads_change_an_element_in_turns(kind: str, element: str, space: str) -> None:
    given, found = change_inputs(element), change_inputs(element)
    run_simt_kernel(change(kind, element, space), found, {"n": 1}, seed=3)
    assert wrong_elements(kind, space, given, found) == 0


def test_turns_that_no_order_explains_are_noticed() -> None:
    assert possible("add", 1, [(4, 2), (1, 3)], 6)
    assert not possible("add", 1, [(1, 2), (1, 3)], 3)
    assert not possible("exchange", 1, [(1, 2), (2, 3)], 2)


CHANGED = """
  %one = arith.constant 1 : i32
  %o = simt.atomic %one, %x[%c0] {kind = "add"} : i32, memref<?xi32>, index -> i32"""
READ = "%v = simt.load %x[%c0] : memref<?xi32>, index -> i32"
WRITTEN = """
  %w = arith.constant 3 : i32
  %q = arith.cmpi eq, %t, %c0 : index
  simt.store %w, %x[%c0] mask %q : i1 : i32, memref<?xi32>, index"""
SHARED = """
  %m = simt.memory : memref<4xi32, "workgroup">
  %first = arith.cmpi eq, %t, %c0 : index
  %none = arith.constant 0 : i32
  simt.store %none, %m[%c0] mask %first : i1 : i32, memref<4xi32, "workgroup">, index
  simt.barrier
  """ + CHANGED.replace("%x", "%m").replace("memref<?xi32>", 'memref<4xi32, "workgroup">')
BARRIER = "\nsimt.barrier\n"


def run(body: str, *, grid: str = "1", access: str = '"update"') -> np.ndarray:
    x = np.zeros(4, np.int32)
    run_simt_kernel(kernel(body, "%x: memref<?xi32>", access, grid), [x], {"n": 4})
    return x


def test_blocks_that_change_one_element_do_not_race() -> None:
    assert run(CHANGED, grid="3")[0] == 3 * 64
    assert run(CHANGED + BARRIER + READ)[0] == 64
    run(SHARED)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (CHANGED + "\n" + READ, "reads element 0, which other threads changed, and no barrier"),
        (READ + CHANGED, "changes element 0, which other threads read, and no barrier"),
        (CHANGED + WRITTEN, "writes element 0, which other threads changed, and no barrier"),
        (WRITTEN + CHANGED, "changes element 0, which thread 0 wrote, and no barrier"),
        (
            SHARED.replace("simt.barrier", ""),
            "changes element 0, which thread 0 wrote, and no barrier",
        ),
    ],
)
def test_a_change_races_with_plain_accesses(body: str, said: str) -> None:
    with pytest.raises(LaminaError, match=said):
        run(body)


def test_a_change_in_one_block_races_with_plain_accesses_in_another() -> None:
    body = f"""
      %b = tile.program_id {{dim = 0 : i64}}
      %k = arith.cmpi eq, %b, %c0 : index
      scf.if %k {{{CHANGED}
      }} else {{
        {READ}
      }}"""
    with pytest.raises(LaminaError, match=r"block \(1,\) reads element 0, which block \(0,\) ch"):
        run(body, grid="2")


def test_a_change_of_what_is_only_read_and_one_outside_are_errors() -> None:
    with pytest.raises(LaminaError, match="it changes a memref whose access is read"):
        run(CHANGED, access='"read"')
    with pytest.raises(LaminaError, match="changes element 4 of a memory of 4"):
        run("%four = arith.constant 4 : index" + CHANGED.replace("[%c0]", "[%four]"))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("kind", "element"), CHANGES)
def test_a_change_made_of_a_load_and_a_store_is_caught(kind: str, element: str, space: str) -> None:
    program = change(kind, element, space)
    (atomic,) = [op for op in program.body.walk() if isinstance(op, simt.AtomicOp)]
    block = atomic.parent
    assert block is not None
    loaded = simt.LoadOp(atomic.x, atomic.at, atomic.mask)
    stored = simt.StoreOp(atomic.v, atomic.x, atomic.at, atomic.mask)
    block.insert_ops_before([loaded, stored], atomic)
    atomic.y.replace_all_uses_with(loaded.y)
    atomic.detach()
    atomic.erase()
    with pytest.raises(LaminaError, match=r"which .* (read|wrote)"):
        run_simt_kernel(program, change_inputs(element), {"n": 1})
