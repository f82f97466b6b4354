"""The detector of races on shared memory, and asynchronous copies."""

import numpy as np
import pytest
from launching import entry, launch

from lamina.testing.ptx import KernelFault

BOX = """
.shared .align 16 .b8 box[1024]; mov.u32 %r10, box; shl.b32 %r11, %r0, 2; add.u32 %r11, %r10, %r11;
xor.b32 %r12, %r0, 1; shl.b32 %r12, %r12, 2; add.u32 %r12, %r10, %r12;
xor.b32 %r13, %r0, 32; shl.b32 %r13, %r13, 2; add.u32 %r13, %r10, %r13;
cvt.u64.u32 %rd20, %r0;
"""
"""%r11 is a thread's own word, %r12 that of its neighbour, %r13 that of a thread in another warp."""


def fault(body: str, threads: int = 64) -> str | None:
    try:
        launch(entry(BOX + body), 2, threads, np.zeros(256, "u4"))
    except KernelFault as caught:
        return caught.kind
    return None


RACES = {
    "write, then read by another warp": "st.shared.u32 [%r11], %r0; ld.shared.u32 %r1, [%r13];",
    "write, then read by a neighbour": "st.shared.u32 [%r11], %r0; ld.shared.u32 %r1, [%r12];",
    "read, then write by a neighbour": "ld.shared.u32 %r1, [%r12]; st.shared.u32 [%r11], %r0;",
    "write, then write by another": "st.shared.u32 [%r11], %r0; st.shared.u32 [%r13], %r0;",
    "read by many, then written by one": "ld.shared.u32 %r1, [box]; setp.eq.u32 %p0, %r0, 9; @%p0 st.shared.u32 [box], %r0;",
    "a warp's barrier does not help another warp": "st.shared.u32 [%r11], %r0; bar.warp.sync -1; ld.shared.u32 %r1, [%r13];",
    "an atomic, then a plain read": "atom.shared.add.u32 %r1, [box], 1; ld.shared.u32 %r2, [box];",
    "a plain write, then an atomic": "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [box], %r0; red.shared.add.u32 [box], 1;",
    "the barrier is in the first half only": "st.shared.u32 [%r11], %r0; bar.sync 0; ld.shared.u32 %r1, [%r13]; st.shared.u32 [%r11], %r1;",
    "bytes of one word": "add.u32 %r14, %r10, %r0; st.shared.u8 [%r14], 1; ld.shared.u32 %r1, [box];",
    "a copy over what is read": "ld.shared.u32 %r1, [%r13]; mad.wide.u32 %rd1, %r0, 4, %rd0; cp.async.ca.shared.global [%r11], [%rd1], 4; cp.async.wait_all;",
}


@pytest.mark.parametrize("what", RACES)
def test_a_race_is_found(what: str) -> None:
    assert fault(RACES[what]) == "race"


FINE = {
    "a barrier between": "st.shared.u32 [%r11], %r0; bar.sync 0; ld.shared.u32 %r1, [%r13];",
    "a warp's barrier for a neighbour": "st.shared.u32 [%r11], %r0; bar.warp.sync -1; ld.shared.u32 %r1, [%r12];",
    "a half warp's barrier for a neighbour": "and.b32 %r1, %r0, 16; shl.b32 %r1, 0xffff, %r1; st.shared.u32 [%r11], %r0; bar.warp.sync %r1; ld.shared.u32 %r1, [%r12];",
    "a thread and itself": "st.shared.u32 [%r11], %r0; ld.shared.u32 %r1, [%r11]; st.shared.u32 [%r11], %r1;",
    "many readers": "ld.shared.u32 %r1, [box]; ld.shared.u32 %r1, [%r13]; ld.shared.u32 %r1, [%r12];",
    "atomics only": "atom.shared.add.u32 %r1, [box], 1; atom.shared.max.u32 %r1, [box], 7;",
    "halves of one word": "shl.b32 %r14, %r0, 1; add.u32 %r14, %r14, %r10; mov.u16 %h1, 3; st.shared.u16 [%r14], %h1; ld.shared.u16 %h2, [%r14];",
    "two barriers in a loop": "mov.u32 %r5, 0; L: st.shared.u32 [%r11], %r0; bar.sync 0; ld.shared.u32 %r1, [%r13]; bar.sync 0; add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 4; @%p0 bra L;",
    "a copy that is waited for": "mad.wide.u32 %rd1, %r0, 4, %rd0; cp.async.ca.shared.global [%r11], [%rd1], 4; cp.async.wait_all; bar.sync 0; ld.shared.u32 %r1, [%r13];",
}


@pytest.mark.parametrize("what", FINE)
def test_what_is_ordered_is_no_race(what: str) -> None:
    assert fault(FINE[what]) is None


def test_blocks_do_not_share() -> None:
    assert fault("st.shared.u32 [%r11], %r0; bar.sync 0; ld.shared.u32 %r1, [%r12];", 32) is None


def test_the_fault_names_both_threads_and_the_variable() -> None:
    body = (
        BOX
        + "setp.eq.u32 %p0, %r0, 40; @%p0 st.shared.u32 [box+8], %r0; setp.eq.u32 %p0, %r0, 3; @%p0 ld.shared.u32 %r1, [box+8];"
    )
    says = r"thread \(3, 0, 0\): shared address 0x8 \(byte 8 of box\): thread 40 of the block wrote here"
    with pytest.raises(KernelFault, match=says):
        launch(entry(body), 1, 64, np.zeros(4, "u4"))


COPY = """
.shared .align 16 .b8 tile[2048]; mov.u32 %r10, tile; shl.b32 %r11, %r0, 4; add.u32 %r11, %r10, %r11;
mad.wide.u32 %rd2, %r0, 16, %rd0; add.s64 %rd3, %rd2, 512;
cp.async.cg.shared.global [%r11], [%rd2], 16; cp.async.commit_group;
cp.async.cg.shared.global [%r11+512], [%rd3], 16; cp.async.commit_group;
"""
SUM = """
xor.b32 %r12, %r0, 5; shl.b32 %r12, %r12, 4; add.u32 %r12, %r12, %r10; ld.shared.v4.u32 {%r1,%r2,%r3,%r4}, [%r12];
mad.wide.u32 %rd4, %r0, 16, %rd1; st.global.v4.u32 [%rd4], {%r1,%r2,%r3,%r4};
"""


def copied(body: str) -> np.ndarray:
    x = np.arange(256, dtype="u4")
    return launch(entry(body, 2), 1, 32, x, np.zeros(128, "u4"))[1]


def test_a_copy_arrives_once_its_group_is_waited_for() -> None:
    y = copied(COPY + "cp.async.wait_group 1; bar.sync 0;" + SUM)
    lanes = np.arange(32) ^ 5
    assert y.reshape(32, 4).tolist() == np.arange(128).reshape(32, 4)[lanes].tolist()


UNFINISHED = {
    "no wait": "bar.sync 0;",
    "too many groups may be left": "cp.async.wait_group 2; bar.sync 0;",
    "the group was not committed": "cp.async.cg.shared.global [%r11], [%rd2], 16; cp.async.wait_group 0; bar.sync 0;",
}


@pytest.mark.parametrize("what", UNFINISHED)
def test_a_read_of_what_a_copy_still_has_to_write_is_a_fault(what: str) -> None:
    with pytest.raises(
        KernelFault, match="an asynchronous copy that nothing has waited for"
    ) as caught:
        copied(COPY + UNFINISHED[what] + SUM)
    assert caught.value.kind == "pending"


def test_a_wait_without_a_barrier_is_for_the_own_copies_only() -> None:
    with pytest.raises(KernelFault) as caught:
        copied(COPY + "cp.async.wait_group 0;" + SUM)
    assert caught.value.kind == "race"


def test_groups_are_counted_by_each_thread() -> None:
    body = COPY + "setp.lt.u32 %p0, %r0, 16; @%p0 cp.async.commit_group; cp.async.wait_group 2;"
    own = "ld.shared.v4.u32 {%r1,%r2,%r3,%r4}, [%r11];"
    with pytest.raises(KernelFault, match=r"thread \(16, 0, 0\): shared address 0x100"):
        copied(body + own)


def test_a_copy_fills_with_zeros_what_it_does_not_read() -> None:
    body = """
    .shared .align 16 .b8 tile[512]; mov.u32 %r10, tile; shl.b32 %r11, %r0, 4; add.u32 %r11, %r10, %r11;
    mad.wide.u32 %rd2, %r0, 16, %rd0; rem.u32 %r5, %r0, 17; cp.async.cg.shared.global [%r11], [%rd2], 16, %r5;
    cp.async.wait_all; ld.shared.v4.u32 {%r1,%r2,%r3,%r4}, [%r11];
    mad.wide.u32 %rd4, %r0, 16, %rd1; st.global.v4.u32 [%rd4], {%r1,%r2,%r3,%r4};
    """
    x = np.arange(1, 257, dtype="u1").repeat(2)
    y = launch(entry(body, 2), 1, 32, x, np.zeros(512, "u1"))[1]
    kept = np.arange(16) < (np.arange(32) % 17)[:, None]
    assert (y.reshape(32, 16) == np.where(kept, x.reshape(32, 16), 0)).all()


def test_a_copy_of_nothing_may_come_from_anywhere() -> None:
    body = ".shared .align 16 .b8 t[16]; mov.u32 %r1, t; mov.u64 %rd1, 48; cp.async.cg.shared.global [%r1], [%rd1], 16, 0; cp.async.wait_all; ld.shared.u32 %r2, [t]; st.global.u32 [%rd0], %r2;"
    assert launch(entry(body), 1, 1, np.ones(1, "u4"))[0][0] == 0
