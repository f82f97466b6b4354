"""Loads, stores and atomics in every space, and what is outside or misaligned."""

import numpy as np
import pytest
from launching import entry, launch

from lamina.errors import InputError
from lamina.testing.ptx import Device, KernelFault, MemoryFull, Specification

AT = "mad.wide.u32 %rd9, %r0, 4, %rd0;"


def test_vectors_are_loaded_and_stored() -> None:
    body = """
    mad.wide.u32 %rd9, %r0, 16, %rd0; ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd9];
    mad.wide.u32 %rd9, %r0, 16, %rd1; st.global.v4.b32 [%rd9], {%r4, %r3, %r2, %r1};
    """
    x = np.arange(64, dtype="u4")
    y = launch(entry(body, 2), 1, 16, x, np.zeros(64, "u4"))[1]
    assert (y.reshape(16, 4) == x.reshape(16, 4)[:, ::-1]).all()


def test_narrow_loads_keep_their_sign() -> None:
    body = f"""
    cvt.u64.u32 %rd8, %r0; add.s64 %rd8, %rd1, %rd8; ld.global.s8 %h0, [%rd8]; ld.global.u8 %h1, [%rd8];
    ld.global.s8 %r3, [%rd8]; cvt.s32.s16 %r1, %h0; cvt.u32.u16 %r2, %h1; add.s32 %r1, %r1, %r2;
    add.s32 %r1, %r1, %r3; {AT} st.global.u32 [%rd9], %r1; st.global.u8 [%rd8], %h0;
    """
    x = np.array([1, 127, 128, 255], "u1")
    y = launch(entry(body, 2), 1, 4, np.zeros(4, "i4"), x)[0]
    assert y.tolist() == [int(n) + 2 * int(n) for n in [1, 127]] + [128 - 256, 255 - 2]


def test_each_thread_has_its_own_local_memory() -> None:
    body = f"""
    .local .align 16 .b8 depot[64]; mov.u64 %rd2, depot; cvta.local.u64 %rd3, %rd2;
    and.b32 %r1, %r0, 7; mad.wide.u32 %rd4, %r1, 4, %rd3; st.u32 [%rd4], %r0;
    mad.wide.u32 %rd5, %r1, 4, %rd2; ld.local.u32 %r2, [%rd5]; {AT} st.global.u32 [%rd9], %r2;
    """
    assert launch(entry(body), 2, 32, np.zeros(32, "u4"))[0].tolist() == list(range(32))


def test_a_generic_address_may_be_in_any_space() -> None:
    body = f"""
    .shared .align 4 .b8 box[128]; .local .align 4 .b8 own[4];
    mov.u64 %rd2, box; cvta.shared.u64 %rd2, %rd2; mad.wide.u32 %rd2, %r0, 4, %rd2;
    mov.u64 %rd3, own; cvta.local.u64 %rd3, %rd3; {AT}
    rem.u32 %r1, %r0, 3; setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 1;
    selp.b64 %rd4, %rd2, %rd3, %p0; selp.b64 %rd4, %rd9, %rd4, %p1; add.u32 %r2, %r0, 50;
    st.u32 [%rd4], %r2; ld.u32 %r3, [%rd4]; isspacep.shared %p2, %rd4; @%p2 add.u32 %r3, %r3, 1000;
    isspacep.global %p3, %rd4; @%p3 add.u32 %r3, %r3, 2000;
    cvta.to.global.u64 %rd9, %rd9; st.global.u32 [%rd9], %r3;
    """
    y = launch(entry(body), 1, 32, np.zeros(32, "u4"))[0]
    assert y.tolist() == [50 + n + (1000, 2000, 0)[n % 3] for n in range(32)]


def test_dynamic_shared_memory_is_as_large_as_the_launch_says() -> None:
    body = f"""
    mov.u32 %r1, more; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0;
    bar.sync 0; xor.b32 %r2, %r2, 12; mov.u32 %r3, more; add.u32 %r3, %r3, %r2;
    ld.shared.u32 %r4, [%r3]; {AT} st.global.u32 [%rd9], %r4;
    """
    text = entry(body, before=".extern .shared .align 128 .b8 more[];")
    y = launch(text, 1, 64, np.zeros(64, "u4"), shared=256)[0]
    assert y.tolist() == [n ^ 3 for n in range(64)]
    with pytest.raises(KernelFault, match="byte 252 of more") as caught:
        launch(text, 1, 64, np.zeros(64, "u4"), shared=252)
    assert caught.value.kind == "bounds"


def test_shared_memory_begins_as_poison() -> None:
    body = f".shared .align 4 .b8 box[4]; ld.shared.u32 %r1, [box]; {AT} st.global.u32 [%rd9], %r1;"
    for poison in (0xFF, 0x7F):
        y = launch(entry(body), 1, 1, np.zeros(1, "u4"), device=Device(poison=poison))[0]
        assert y[0] == int.from_bytes(bytes([poison] * 4), "little")


OUTSIDE = {
    "a load past the end": (
        "ld.global.u32 %r1, [%rd0+128];",
        "bounds",
        "lie 0 bytes past the end of argument 0",
    ),
    "a vector that reaches past the end": (
        "ld.global.v2.u32 {%r1, %r2}, [%rd0+120]; ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+128];",
        "bounds",
        "16 bytes",
    ),
    "a store below the start": ("st.global.u32 [%rd0+-4], %r1;", "bounds", "PTX line"),
    "an address that is nothing": (
        "mov.u64 %rd1, 16; ld.global.u32 %r1, [%rd1];",
        "bounds",
        "below every",
    ),
    "a misaligned load": ("ld.global.u32 %r1, [%rd0+2];", "alignment", "misaligned"),
    "a misaligned vector": (
        "ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0+8];",
        "alignment",
        "16 bytes",
    ),
    "a shared load past a variable": (
        ".shared .align 16 .b8 a[64]; .shared .align 16 .b8 b[64]; ld.shared.u32 %r1, [a+64];",
        "bounds",
        "shared address",
    ),
    "a local store outside": (
        ".local .align 4 .b8 a[16]; mov.u64 %rd1, a; st.local.u32 [%rd1+64], %r1;",
        "bounds",
        "local address",
    ),
    "an atomic outside": (
        "atom.global.add.u32 %r1, [%rd0+4096], 1;",
        "bounds",
        "past the end of argument 0",
    ),
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_an_access_that_is_wrong_is_a_fault(what: str) -> None:
    body, kind, says = OUTSIDE[what]
    with pytest.raises(KernelFault, match=says) as caught:
        launch(entry(body), 1, 1, np.zeros(32, "u4"))
    assert caught.value.kind == kind


def test_the_fault_names_the_thread_that_went_outside() -> None:
    body = (
        "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 32, %r0;" + AT + "st.global.u32 [%rd9], %r0;"
    )
    with pytest.raises(KernelFault, match=r"block \(1, 0, 0\), thread \(18, 0, 0\): 4 bytes at"):
        launch(entry(body), 2, 32, np.zeros(50, "u4"))


def test_memory_that_was_freed_cannot_be_read() -> None:
    device = Device()
    kernel = device.load(entry("ld.global.u32 %r1, [%rd0];")).kernel("k")
    address = device.alloc(64, "gone")
    device.free(address)
    with pytest.raises(KernelFault, match=r"bytes past the end|below every allocation"):
        device.launch(kernel, (1,), (1,), [address])


def test_two_values_for_one_place_at_once_are_a_conflict() -> None:
    with pytest.raises(KernelFault, match="two threads store different values") as caught:
        launch(entry("st.global.u32 [%rd0], %r0;"), 1, 2, np.zeros(1, "u4"))
    assert caught.value.kind == "conflict"


ATOMICS = {
    "add.u32": ("u4", lambda x, old: np.add.reduce(x, dtype="u4") + old),
    "add.f32": ("f4", lambda x, old: np.add.reduce(x) + old),
    "add.noftz.f16": ("f2", lambda x, old: np.add.reduce(x) + old),
    "max.s32": ("i4", lambda x, old: max(x.max(), old)),
    "min.u32": ("u4", lambda x, old: min(x.min(), old)),
    "or.b32": ("u4", lambda x, old: np.bitwise_or.reduce(x) | old),
    "exch.b32": ("u4", lambda x, old: x[-1]),
    "add.u64": ("u8", lambda x, old: x.sum() + old),
}


@pytest.mark.parametrize("form", ATOMICS)
def test_an_atomic_of_many_threads_loses_nothing(form: str) -> None:
    dtype, meaning = ATOMICS[form]
    x = np.random.default_rng(1).integers(0, 40, 70).astype(dtype)
    bits = 8 * x.itemsize
    register = {16: "%h1", 32: "%r1", 64: "%rd3"}[bits]
    body = f"mad.wide.u32 %rd9, %r0, {x.itemsize}, %rd1; ld.global.b{bits} {register}, [%rd9]; red.global.{form} [%rd0], {register};"
    if form.startswith("exch"):
        body = body.replace("red.global.", "atom.global.").replace("[%rd0]", "%r2, [%rd0]")
    y = launch(entry(body, 2), 1, 70, np.array([3], dtype), x)[0]
    assert y[0] == meaning(x, x.dtype.type(3))


def test_an_atomic_returns_what_was_there() -> None:
    body = f"atom.shared.add.u32 %r1, [box], 2; {AT} st.global.u32 [%rd9], %r1;"
    text = entry(
        ".shared .align 4 .b8 box[4]; setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [box], 5; bar.sync 0;"
        + body
    )
    y = launch(text, 1, 40, np.zeros(40, "u4"))[0]
    assert sorted(y.tolist()) == [5 + 2 * n for n in range(40)]


def test_compare_and_swap_lets_one_thread_win() -> None:
    body = f"add.u32 %r2, %r0, 1; atom.global.cas.b32 %r1, [%rd1], 0, %r2; {AT} st.global.u32 [%rd9], %r1;"
    y, place = launch(entry(body, 2), 1, 40, np.zeros(40, "u4"), np.zeros(1, "u4"))
    assert place[0] == 1
    assert y.tolist() == [0] + [1] * 39


def test_inc_wraps_at_its_limit() -> None:
    body = f"atom.global.inc.u32 %r1, [%rd1], 2; {AT} st.global.u32 [%rd9], %r1;"
    y = launch(entry(body, 2), 1, 7, np.zeros(7, "u4"), np.zeros(1, "u4"))[0]
    assert y.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_a_device_says_how_much_memory_is_missing() -> None:
    device = Device(Specification(memory=1 << 20))
    device.alloc(1 << 19)
    with pytest.raises(MemoryFull, match=r"524289 bytes do not fit: 524288 of .* 1 are missing"):
        device.alloc((1 << 19) + 1)


def test_freed_memory_can_be_had_again() -> None:
    device = Device(Specification(memory=1 << 20))
    for _ in range(100):
        device.free(device.alloc(1 << 19))
    with pytest.raises(InputError, match="no allocation begins"):
        device.free(12345)


WRONG_LAUNCHES = {
    "an empty grid": ((0,), (1,), 0, "a grid of"),
    "too many threads": ((1,), (2048,), 0, "a block of"),
    "too many threads in all": ((1,), (64, 32), 0, "2048 threads a block"),
    "too much shared memory": ((1,), (1,), 50_000, "50000 bytes of shared memory"),
}


@pytest.mark.parametrize("what", WRONG_LAUNCHES)
def test_a_launch_that_no_device_takes_is_refused(what: str) -> None:
    grid, block, shared, says = WRONG_LAUNCHES[what]
    device = Device()
    kernel = device.load(entry("", 0)).kernel("k")
    with pytest.raises(InputError, match=says):
        device.launch(kernel, grid, block, [], shared)


def test_arguments_are_counted_and_measured() -> None:
    device = Device()
    kernel = device.load(entry("", 1)).kernel("k")
    with pytest.raises(InputError, match="takes 1 arguments, 2 were given"):
        device.launch(kernel, (1,), (1,), [1, 2])
    with pytest.raises(InputError, match="argument 0 has 8 bytes, 4 were given"):
        device.launch(kernel, (1,), (1,), [np.float32(1)])


def test_a_block_has_to_be_as_the_kernel_requires() -> None:
    text = entry("").replace("(.param .u64 p0)", "(.param .u64 p0) .reqntid 32, 1, 1")
    device = Device()
    with pytest.raises(InputError, match="it requires"):
        device.launch(device.load(text).kernel("k"), (1,), (64,), [0])
