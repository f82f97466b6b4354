"""Every operation on registers, of every element type, over the values that are hard to get right."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from device_kernel import run_on
from simt_text import parse

from lamina.dialects.simt import KernelOp
from lamina.targets.reference.simt import run_simt_kernel
from lamina.targets.webgpu.device import Device

DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
}  # fmt: skip
FLOATS, INTEGERS = ("f32", "f16", "bf16"), ("i8", "i16", "i32", "i64")
NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.7e4,
    -1e3,
    0.3,
    1e-4,
    np.inf,
    -np.inf,
    np.nan,
]
LARGE = [
    127.5,
    -129.0,
    255.5,
    32768.0,
    2147483648.0,
    -2147483904.0,
    4294967296.0,
    9.3e18,
    -1e19,
    3e38,
]
SHIFTS = [1, 2, 5, 7, 8, 15, 16, 31, 32, 33, 40, 63, 64]
IN_PAIRS = {
    "addf": FLOATS, "subf": FLOATS, "mulf": FLOATS, "divf": FLOATS,
    "maximumf": FLOATS, "minimumf": FLOATS,
    **dict.fromkeys(("addi", "subi", "muli", "andi", "ori", "xori"), (*INTEGERS, "i1")),
    **dict.fromkeys(("divsi", "divui", "remsi", "remui", "ceildivsi"), INTEGERS),
    **dict.fromkeys(("maxsi", "minsi", "maxui", "minui", "shli", "shrsi", "shrui"), INTEGERS),
}  # fmt: skip
ALONE = (
    "math.absf",
    "math.floor",
    "math.ceil",
    "math.trunc",
    "math.roundeven",
    "math.sqrt",
    "arith.negf",
)


def kernel(operation: str, source: str, target: str) -> KernelOp:
    """`y = operation(%a, %b)` in every thread."""
    return parse(f"""simt.kernel @k attributes {{symbols = ["n"], grid = ["ceildiv(n, 64)"],
        access = ["read", "read", "write"], threads = 64 : i64, subgroup = 8 : i64}} {{
    ^bb0(%x0: memref<?x{source}>, %x1: memref<?x{source}>, %y: memref<?x{target}>, %n: index):
      %p = tile.program_id {{dim = 0 : i64}}
      %t = simt.thread_id
      %c64 = arith.constant 64 : index
      %first = arith.muli %p, %c64 : index
      %at = arith.addi %first, %t : index
      %in = arith.cmpi slt, %at, %n : index
      %a = simt.load %x0[%at] mask %in : i1 : memref<?x{source}>, index -> {source}
      %b = simt.load %x1[%at] mask %in : i1 : memref<?x{source}>, index -> {source}
      %r = {operation}
      simt.store %r, %y[%at] mask %in : i1 : {target}, memref<?x{target}>, index
      tile.return
    }}""")


@cache
def values(kind: str) -> np.ndarray:
    dtype = DTYPES[kind]
    if kind == "i1":
        return np.array([False, True])
    with np.errstate(over="ignore"):
        if kind in FLOATS:
            return np.array(NUMBERS + LARGE, np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    found = [0, 3, -3, 100, -100, limits.max, limits.min, limits.max - 1, limits.max // 3, *SHIFTS]
    found += [2**33 + 7, -(2**40), 2**53 + 1, 2**62 + 2**37 + 1] if kind == "i64" else []
    return np.array([n for n in found if limits.min <= n <= limits.max], dtype)


def missing(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "bi":
        return np.zeros(x.shape, np.bool_)
    with np.errstate(invalid="ignore"):
        return np.isnan(x)


def agree(device: Device, operation: str, source: str, target: str) -> None:
    a, b = (each.ravel() for each in np.meshgrid(values(source), values(source)))
    program = kernel(operation, source, target)
    found, expected = (np.ones(a.size, DTYPES[target]) for _ in range(2))
    run_on(device, program, [a, b, found], {"n": a.size})
    run_simt_kernel(program, [a, b, expected], {"n": a.size})
    # Zeros of both signs differ in their bits; all NaN are one.
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    wrong = (found.view(bits) != expected.view(bits)) & ~(missing(found) & missing(expected))
    listed = [(a[n], b[n], found[n], expected[n]) for n in np.flatnonzero(wrong)[:5]]
    assert not listed, f"{operation}: {listed}"


@pytest.mark.parametrize("name", IN_PAIRS)
def test_operations_of_two_numbers_are_those_of_the_reference(device, name):
    for kind in IN_PAIRS[name]:
        agree(device, f"arith.{name} %a, %b : {kind}", kind, kind)


@pytest.mark.parametrize("name", ALONE)
def test_operations_of_one_number_are_those_of_the_reference(device, name):
    for kind in FLOATS:
        agree(device, f"{name} %a : {kind}", kind, kind)


@pytest.mark.parametrize("kind", FLOATS)
def test_signs_are_copied_from_any_number(device, kind):
    agree(device, f"math.copysign %a, %b : {kind}", kind, kind)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("unsigned", ["", " {unsigned}"])
def test_conversions_saturate_wrap_and_round_as_the_reference_does(device, source, unsigned):
    for target in DTYPES:
        agree(device, f"tile.cast %a{unsigned} : ({source}) -> {target}", source, target)


@pytest.mark.parametrize("kind", DTYPES)
def test_comparisons_know_missing_numbers_and_signs(device, kind):
    for test in ("eq", "ne", "lt", "le", "gt", "ge"):
        for unsigned in [""] if kind in (*FLOATS, "i1") else ["", ", unsigned"]:
            types = f"({kind}, {kind}) -> i1"
            agree(
                device, f'tile.compare %a, %b {{kind = "{test}"{unsigned}}} : {types}', kind, "i1"
            )


@pytest.mark.parametrize(
    "test",
    "oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno".split(),
)
def test_ordered_and_unordered_comparisons_differ_in_missing_numbers(device, test):
    agree(device, f"arith.cmpf {test}, %a, %b : f32", "f32", "i1")


@pytest.mark.parametrize("kind", DTYPES)
def test_a_selected_number_is_taken_bit_for_bit(device, kind):
    agree(device, f"tile.select %in, %b, %a : (i1, {kind}, {kind}) -> {kind}", kind, kind)


@pytest.mark.parametrize(
    ("source", "target"), [("f32", "i32"), ("i32", "f32"), ("f16", "i16"), ("i16", "bf16")]
)
def test_bits_are_taken_for_those_of_another_type(device, source, target):
    agree(device, f"arith.bitcast %a : {source} to {target}", source, target)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 3, 31, 1000])
def test_elements_of_every_size_are_stored_beside_each_other(device, kind, size):
    x = np.resize(values(kind), size)
    y = np.zeros(size + 3, x.dtype)
    program = kernel(f"tile.select %in, %a, %b : (i1, {kind}, {kind}) -> {kind}", kind, kind)
    run_on(device, program, [x, x, y], {"n": size})
    assert y[:size].tobytes() == x.tobytes()
    assert not y[size:].any()
