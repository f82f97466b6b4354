"""Threads that go different ways, and barriers at which they meet."""

import numpy as np
import pytest
from launching import entry, launch

from lamina.testing.ptx import Device, KernelFault

STORE = "mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r1;"


def run(body: str, threads: int = 64) -> list[int]:
    return launch(entry(body + STORE), 1, threads, np.zeros(threads, "u4"))[0].tolist()


def test_both_sides_of_a_branch_are_taken_and_meet_again() -> None:
    body = """
    and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra EVEN;
    mul.lo.u32 %r1, %r0, 3; bra MEET; EVEN: add.u32 %r1, %r0, 100; MEET: activemask.b32 %r3;
    setp.ne.u32 %p1, %r3, 0xffffffff; @%p1 mov.u32 %r1, 0;
    """
    assert run(body) == [3 * n if n & 1 else n + 100 for n in range(64)]


def test_a_loop_runs_as_often_as_each_thread_needs() -> None:
    body = """
    mov.u32 %r1, 0; mov.u32 %r2, %r0;
    LOOP: setp.eq.u32 %p0, %r2, 0; @%p0 bra OUT; add.u32 %r1, %r1, %r2; sub.u32 %r2, %r2, 1;
    bra.uni LOOP; OUT:
    """
    assert run(body) == [n * (n + 1) // 2 for n in range(64)]


def test_branches_are_nested() -> None:
    body = """
    mov.u32 %r1, 0; setp.lt.u32 %p0, %r0, 40; @!%p0 bra LAST; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r0, 20; @!%p1 bra INNER; add.u32 %r1, %r1, 2; setp.lt.u32 %p2, %r0, 5;
    @%p2 add.u32 %r1, %r1, 4; INNER: add.u32 %r1, %r1, 8; LAST: add.u32 %r1, %r1, 16;
    """
    assert run(body) == [16 + 9 * (n < 40) + 2 * (n < 20) + 4 * (n < 5) for n in range(64)]


def test_a_table_of_branches_goes_to_each_target() -> None:
    body = """
    and.b32 %r2, %r0, 3; TABLE: .branchtargets A, B, C, A; brx.idx %r2, TABLE;
    A: mov.u32 %r1, 10; bra.uni END; B: mov.u32 %r1, 20; bra.uni END; C: mov.u32 %r1, 30; END:
    """
    assert run(body) == [(10, 20, 30, 10)[n & 3] for n in range(64)]


def test_threads_that_have_ended_are_not_waited_for() -> None:
    body = "mov.u32 %r1, 1; setp.gt.u32 %p0, %r0, 40; @%p0 ret; bar.sync 0; mov.u32 %r1, 2;" + STORE
    y = launch(entry(body), 3, 64, np.zeros(64, "u4"))[0]
    assert y.tolist() == [2] * 41 + [0] * 23


def test_special_registers_say_where_a_thread_is() -> None:
    body = """
    mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %nctaid.x; mad.lo.u32 %r2, %r3, %r4, %r2;
    mov.u32 %r5, %warpid; mov.u32 %r6, %laneid; mad.lo.u32 %r5, %r5, 32, %r6;
    mad.lo.u32 %r1, %r2, 100, %r5; mad.lo.u32 %r0, %r2, 40, %r0;
    """
    y = launch(entry(body + STORE), (3, 2), (8, 5), np.zeros(240, "u4"))[0]
    assert y.tolist() == [100 * block + n for block in range(6) for n in range(40)]


def test_many_blocks_run_a_few_at_a_time() -> None:
    body = "mov.u32 %r2, %ctaid.x; mad.lo.u32 %r0, %r2, 1024, %r0; mov.u32 %r1, %r2;" + STORE
    y = launch(entry(body), 37, 1024, np.zeros(37 * 1024, "u4"))[0]
    assert (y == np.repeat(np.arange(37), 1024)).all()


def test_a_barrier_reduces_predicates() -> None:
    body = """
    setp.lt.u32 %p0, %r0, 10; bar.red.popc.u32 %r1, 0, %p0; bar.red.and.pred %p1, 0, %p0;
    bar.red.or.pred %p2, 0, %p0; @%p1 add.u32 %r1, %r1, 100; @%p2 add.u32 %r1, %r1, 200;
    """
    assert run(body) == [210] * 64


def test_a_producer_and_a_consumer_meet_at_counted_barriers() -> None:
    body = """
    .shared .align 4 .b8 box[128]; and.b32 %r2, %r0, 31; shl.b32 %r2, %r2, 2; mov.u32 %r3, box;
    add.u32 %r2, %r2, %r3; setp.lt.u32 %p0, %r0, 32; @%p0 bra PRODUCE;
    bar.sync 1, 64; ld.shared.u32 %r1, [%r2]; bra.uni END;
    PRODUCE: mad.lo.u32 %r1, %r0, 5, 1; st.shared.u32 [%r2], %r1; bar.arrive 1, 64; END:
    """
    assert run(body)[32:] == [5 * n + 1 for n in range(32)]


def test_without_the_counted_barrier_they_race() -> None:
    body = """
    .shared .align 4 .b8 box[128]; and.b32 %r2, %r0, 31; shl.b32 %r2, %r2, 2; mov.u32 %r3, box;
    add.u32 %r2, %r2, %r3; setp.lt.u32 %p0, %r0, 32; @%p0 st.shared.u32 [%r2], %r0;
    @!%p0 ld.shared.u32 %r1, [%r2];
    """
    with pytest.raises(KernelFault, match="no barrier since") as caught:
        run(body)
    assert caught.value.kind == "race"


def test_threads_that_wait_at_two_barriers_wait_for_ever() -> None:
    body = "setp.lt.u32 %p0, %r0, 32; @%p0 bra A; bar.sync 0; bra.uni END; A: bar.sync 0; END:"
    with pytest.raises(KernelFault, match=r"waits at a barrier for ever: thread .* waits at line"):
        run(body)


def test_a_barrier_that_a_thread_never_reaches_is_a_fault() -> None:
    body = """
    setp.eq.u32 %p0, %r0, 7; @%p0 bra SPIN; bar.sync 0; bra.uni END;
    SPIN: bar.sync 1; END: 
    """
    with pytest.raises(KernelFault) as caught:
        run(body)
    assert caught.value.kind == "barrier"


def test_a_kernel_that_does_not_end_is_stopped() -> None:
    device = Device(limit=1000)
    with pytest.raises(KernelFault, match="did not end within 1000 turns"):
        launch(entry("L: bra.uni L;", 0), 1, 32, device=device)


def test_a_trap_is_a_fault_of_the_thread_that_sprang_it() -> None:
    body = "setp.eq.u32 %p0, %r0, 37; @%p0 trap;"
    with pytest.raises(
        KernelFault, match=r"kernel k, PTX line \d+, block \(0, 0, 0\), thread \(37, 0, 0\)"
    ):
        run(body)
