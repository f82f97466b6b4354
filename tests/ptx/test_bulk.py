"""Barriers that count bytes, copies of many bytes at once, and boxes of tensors."""

import ctypes

import numpy as np
import pytest
from hopper import BF16, TEXT, product
from launching import entry, launch

from lamina.errors import InputError
from lamina.testing.ptx import Device, KernelFault, Specification
from lamina.testing.ptx.driver import CUresult, FakeDriver
from lamina.testing.ptx.tensor_map import TensorMap

START = """
.shared .align 16 .b8 box[2048]; .shared .align 8 .b64 bar; mov.u32 %r20, box; mov.u32 %r21, bar;
setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [%r21], COUNT; bar.sync 0;
"""
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r21], 0; @!%p2 bra W;"
COPY = """
@!%p1 bra SKIP; mbarrier.arrive.expect_tx.shared.b64 _, [%r21], 1024;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd0], 1024, [%r21]; SKIP:
"""
READ = """
shl.b32 %r1, %r0, 2; add.u32 %r2, %r1, %r20; ld.shared.u32 %r3, [%r2]; mad.wide.u32 %rd5, %r0, 4, %rd1;
st.global.u32 [%rd5], %r3;
"""


def run(body: str, count: int = 1) -> list[int]:
    x = np.arange(256, dtype="u4") * 3
    text = entry(START.replace("COUNT", str(count)) + body, 2, target="sm_90")
    return launch(text, 2, 256, x, np.zeros(256, "u4"), capability=(9, 0))[1].tolist()


def test_a_bulk_copy_is_there_once_its_barrier_says_so() -> None:
    assert run(COPY + WAIT + READ) == [3 * n for n in range(256)]


def test_a_bulk_copy_that_nobody_waited_for_is_not_there() -> None:
    with pytest.raises(KernelFault, match="an asynchronous copy that nothing has waited for"):
        run(COPY + "bar.sync 0;" + READ)


def test_a_copy_with_fewer_bytes_than_are_expected_never_ends_the_phase() -> None:
    with pytest.raises(KernelFault, match="for ever: 0 arrivals and 1024 bytes are missing"):
        run(COPY.replace("_, [%r21], 1024", "_, [%r21], 2048") + WAIT)


def test_threads_that_arrive_let_others_go_on() -> None:
    body = """
    shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %r20; st.shared.u32 [%r1], %r0;
    mbarrier.arrive.shared.b64 %rd9, [%r21]; W: mbarrier.try_wait.shared.b64 %p2, [%r21], %rd9; @!%p2 bra W;
    xor.b32 %r4, %r0, 37; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r20; ld.shared.u32 %r3, [%r4];
    mad.wide.u32 %rd5, %r0, 4, %rd1; st.global.u32 [%rd5], %r3;
    """
    assert run(body, 256) == [n ^ 37 for n in range(256)]


def test_an_arrival_that_is_missing_is_waited_for_for_ever() -> None:
    with pytest.raises(KernelFault, match="1 arrivals and 0 bytes are missing") as caught:
        run("setp.lt.u32 %p3, %r0, 255; @%p3 mbarrier.arrive.shared.b64 _, [%r21];" + WAIT, 256)
    assert caught.value.kind == "barrier"


def test_one_arrival_too_many_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="more arrivals than the mbarrier expects"):
        run("mbarrier.arrive.shared.b64 _, [%r21], 2;", 1)


def test_a_barrier_has_to_be_made_first() -> None:
    with pytest.raises(KernelFault, match="no mbarrier was initialised here"):
        run("add.u32 %r21, %r20, 8; mbarrier.arrive.shared.b64 _, [%r21];")


def test_small_copies_may_arrive_at_a_barrier_too() -> None:
    body = """
    mad.wide.u32 %rd2, %r0, 4, %rd0; shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %r20;
    cp.async.ca.shared.global [%r1], [%rd2], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [%r21];
    """
    assert run(body + WAIT + READ, 256) == [3 * n for n in range(256)]


def test_a_bulk_copy_out_needs_a_fence_after_what_threads_wrote() -> None:
    body = """
    shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %r20; st.shared.u32 [%r1], %r0; FENCE bar.sync 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r20], 1024;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    assert run(body.replace("FENCE", "fence.proxy.async.shared::cta;")) == list(range(256))
    with pytest.raises(KernelFault, match=r"no fence\.proxy\.async"):
        run(body.replace("FENCE", ""))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (130, 72, 328), (8, 200, 8)])
def test_a_product_by_tensor_maps_and_warpgroups(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((n, k)).astype(BF16)
    assert np.allclose(product(TEXT, a, b), a.astype("f8") @ b.astype("f8").T, atol=1e-4)


def test_a_box_is_stored_without_what_is_outside() -> None:
    body = """
    .shared .align 128 .b8 box[512]; mov.u32 %r20, box; shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %r20;
    st.shared.u32 [%r1], %r0; fence.proxy.async; bar.sync 0; setp.eq.u32 %p1, %r0, 0;
    @!%p1 ret; mov.u64 %rd1, map; cvta.param.u64 %rd1, %rd1; mov.u32 %r2, 4; mov.u32 %r3, -2;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r2, %r3}], [%r20];
    """
    text = entry(body, 0, target="sm_90").replace("k()", "k(.param .align 64 .b8 map[128])")
    device = Device(Specification((9, 0)))
    y = device.put(np.zeros((10, 16), "u4"))
    described = TensorMap(4, y, (10, 10), (64,), (8, 16), 1).encode()
    device.launch(device.load(text).kernel("k"), (1,), (128,), [described])
    wanted = np.zeros((10, 16), "u4")
    wanted[:10, 4:10] = np.arange(128).reshape(16, 8)[2:12, :6]
    assert device.get(y, "u4", (10, 16)).tolist() == wanted.tolist()


def test_the_driver_describes_tensors() -> None:
    driver = FakeDriver([Specification((9, 0))])
    driver.cuInit(0)
    swizzle = driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B
    kind = driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    extents, strides, steps = [100, 50], [208], [1, 1]
    result, described = driver.cuTensorMapEncodeTiled(
        kind, 2, 4096, extents, strides, [64, 64], steps, 0, swizzle, 0, 0
    )
    assert result == CUresult.CUDA_SUCCESS
    octets = ctypes.string_at(described.getPtr(), 128)
    assert TensorMap.decode(octets) == TensorMap(2, 4096, (100, 50), (208,), (64, 64), 8)
    wrong = driver.cuTensorMapEncodeTiled(
        kind, 2, 4096, extents, [200], [64, 64], steps, 0, swizzle, 0, 0
    )
    assert wrong == (CUresult.CUDA_ERROR_INVALID_VALUE, None)


@pytest.mark.parametrize(
    "wrong", [{"address": 8}, {"strides": (20,)}, {"box": (512, 8)}, {"box": (128, 8)}]
)
def test_a_tensor_map_that_hardware_refuses_is_refused(wrong: dict) -> None:
    right = {"address": 64, "extents": (64, 64), "strides": (128,), "box": (64, 8)}
    with pytest.raises(InputError):
        TensorMap(size=2, width=8, **{**right, **wrong}).encode()
