"""Arrays larger than a binding or a buffer: in windows, with the results that they have whole."""

import numpy as np
import pytest
from device_kernel import run_on
from simt_text import kernel
from webgpu_plans import WEIGHTS, artifact, reference, row
from webgpu_zoo import lowered, near
from xdsl.parser import Parser

import lamina
from lamina.errors import InputError, TargetUnavailable
from lamina.plugins import manager
from lamina.targets.webgpu.accesses import access_text
from lamina.targets.webgpu.device import Device, open_device
from lamina.targets.webgpu.target import WebGpuTarget
from lamina.targets.webgpu.windows import Storage, bound
from lamina.testing.kernels import ZOO

QUICK = ("softmax_long", "paged_attention", "scatter_duplicates")


@pytest.fixture(scope="module")
def narrow(device) -> Device:
    """A device that binds little at once, and whose buffers have little more."""
    return open_device("auto", 1024, 3000)


def test_a_device_of_low_limits_has_whole_windows_in_whole_parts(narrow):
    assert (narrow.window, narrow.part) == (1024, 2048)
    assert [each.size for each in narrow.storage(5000).parts] == [2048, 2048, 904]


def test_bytes_in_several_buffers_are_written_and_read_at_any_place(narrow):
    storage, data = narrow.storage(5000), np.arange(5000, dtype=np.int64).astype(np.uint8)
    narrow.write(storage, data)
    narrow.write(storage, np.full(7, 7, np.uint8), 2045)
    data[2045:2052] = 7
    np.testing.assert_array_equal(narrow.read(storage, 0, 5000), data)
    assert narrow.read(storage, 4093, 7).tolist() == data[4093:4100].tolist()
    assert narrow.read(storage, 4999, 0).size == 0


@pytest.mark.parametrize(
    ("parts", "offset", "span", "before", "expected"),
    [
        (1, 0, 1024, 0, [(0, 0, 1024)]),
        (1, 320, 1000, 64, [(0, 256, 1024), (0, 1280, 40)]),
        (1, 2000, 0, 208, [(0, 1792, 208)]),
        (3, 3000, 1200, 952, [(1, 0, 1024), (1, 1024, 1024), (2, 0, 104)]),
        (3, 5000, 0, 904, [(2, 0, 904)]),
    ],
)
def test_windows_lie_side_by_side_and_in_one_buffer_each(parts, offset, span, before, expected):
    size = 2000 if parts == 1 else 5000
    found = bound(Storage(tuple(range(parts)), 2048, size), offset, span, 1024, 256)
    assert found.before == before
    assert found.windows == tuple(expected)


def test_an_access_picks_the_window_from_the_number_of_the_word():
    assert access_text("load", "m0", 1, 256) == "fn load_m0(i: u32) -> u32 { return m0[i]; }"
    assert access_text("store", "m1", 3, 256).splitlines() == [
        "fn store_m1(i: u32, x: u32) {",
        "  if (i < 256u) { m1[i] = x; }",
        "  else if (i < 512u) { m1_1[i - 256u] = x; }",
        "  else { m1_2[i - 512u] = x; }",
        "}",
    ]


COPY = """
  %b = tile.program_id {{dim = 0 : i64}}
  %w = arith.constant 64 : index
  %first = arith.muli %b, %w : index
  %at = arith.addi %first, %t : index
  %in = arith.cmpi ult, %at, %n : index
  %v = simt.load %x[%at] mask %in : i1 : memref<?x{kind}>, index -> {kind}
  simt.store %v, %y[%at] mask %in : i1 : {kind}, memref<?x{kind}>, index"""


@pytest.mark.parametrize("kind", ["i1", "i8", "i16", "f16", "f32", "i64"])
def test_no_edge_of_a_window_cuts_an_element(narrow, kind):
    dtype = {"i1": "bool", "f16": "float16", "f32": "float32"}.get(kind, f"int{kind[1:]}")
    x = np.random.default_rng(1).integers(-99, 99, 1501).astype(dtype)
    y, args = np.zeros_like(x), f"%x: memref<?x{kind}>, %y: memref<?x{kind}>"
    text = kernel(COPY.format(kind=kind), args, grid="ceildiv(n, 64)")
    run_on(narrow, text, [x, y], {"n": x.size})
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    "case",
    [
        each if each.name in QUICK else pytest.param(each, marks=pytest.mark.gpu)
        for each in ZOO
        if not each.error
    ],
    ids=lambda case: case.name,
)
def test_a_program_computes_the_same_in_windows(device, case):
    size = max(case.sizes)
    call = case.make(np.random.default_rng(size), size)
    memrefs = [np.ascontiguousarray(each) for each in call.memrefs]
    # So much at once that no array takes more than a few windows, and the largest do.
    most = max(1024, max(each.nbytes for each in memrefs) // 1024 // 3 * 1024)
    run_on(open_device("auto", most, 2 * most), lowered(case.path), memrefs, call.symbols)
    for position, expected in call.expected.items():
        near(memrefs[position], expected, case.tolerance)


def test_a_plan_has_inputs_states_and_outputs_in_windows(device):
    exe = WebGpuTarget(bytes_bound=1024, bytes_held=2048).load(artifact("steps"), WEIGHTS)
    expected = reference("steps")
    for size in (3, 300, 500):
        states = [np.ones((size, 6), np.float32) for _ in range(2)]
        found, right = exe(row(size), s=states[0]), expected(row(size), s=states[1])
        for name, array in right.items():
            np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(*states)


def test_more_windows_than_can_be_bound_are_refused_by_the_arrays_name(device):
    exe = WebGpuTarget(bytes_bound=1024).load(artifact("checked"), {})
    exe(row(1000))
    with pytest.raises(
        InputError, match=r"(in|out)put '\w' has 80000 bytes in kernel \w+, .* at most 1024 bytes"
    ):
        exe(row(20_000))
    np.testing.assert_array_equal(exe(row(1000))["y"], 2 * row(1000))


def test_a_fixed_array_of_too_many_windows_is_refused_at_load(narrow):
    args = "%x: memref<20000xf32>, %y: memref<?xf32>"
    body = "%v = simt.load %x[%t] : memref<20000xf32>, index -> f32"
    with pytest.raises(TargetUnavailable, match=r"needs 80 buffers of at most 1024 bytes"):
        run_on(narrow, kernel(body, args), [np.zeros(20000, np.float32)] * 2, {"n": 0})


@pytest.mark.parametrize(("option", "value"), [("bytes_bound", 100), ("bytes_held", -1)])
def test_limits_that_nothing_fits_are_refused(device, option, value):
    target = WebGpuTarget(**{option: value})
    with pytest.raises(InputError, match=rf"webgpu, option {option}: expected .*, got {value}"):
        target.load(artifact("steps"), WEIGHTS)


TAKEN = """func.func @forward(
  %table: tensor<264000x128xf32> {lamina.weight = "table"},
  %at: tensor<?xi32, #nn.dims<["T"]>> {lamina.input = "at"}
) -> (tensor<?x128xf32, #nn.dims<["T"]>> {lamina.output = "y"}) {
  %x = nn.gather %table, %at {axis = 0 : i64}
    : (tensor<264000x128xf32>, tensor<?xi32, #nn.dims<["T"]>>) -> tensor<?x128xf32, #nn.dims<["T"]>>
  %y = nn.add %x, %x : tensor<?x128xf32, #nn.dims<["T"]>>
  func.return %y : tensor<?x128xf32, #nn.dims<["T"]>>
}
"""


@pytest.mark.gpu
def test_a_weight_larger_than_the_adapter_binds_is_whole(device):
    module = Parser(manager.context(), TAKEN).parse_module()
    table = np.arange(264_000 * 128, dtype=np.float32).reshape(-1, 128)
    assert table.nbytes > device.limits["max-storage-buffer-binding-size"]
    exe = lamina.compile(module, target="webgpu", weights={"table": table})
    at = np.linspace(0, 263_999, 3001).astype(np.int32)
    np.testing.assert_array_equal(exe(at)["y"], 2 * table[at])
