"""What the threads of a warp tell each other."""

import numpy as np
import pytest
from launching import compute, entry, launch

from lamina.testing.ptx import KernelFault

LANES = np.arange(64, dtype="u4")


def shuffled(mode: str, lane: int, by: int, clamp: int) -> tuple[int, bool]:
    segment, limit = clamp >> 8 & 31, clamp & 31
    last = (lane & segment) | (limit & ~segment & 31)
    source = {
        "up": lane - by,
        "down": lane + by,
        "bfly": lane ^ by,
        "idx": (lane & segment) | (by & ~segment & 31),
    }[mode]
    inside = source >= last if mode == "up" else source <= last
    return (source if inside else lane), inside


@pytest.mark.parametrize("clamp", [31, 0x181F, 0x1007, 0])
@pytest.mark.parametrize("by", [0, 1, 5, 16, 31])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_a_shuffle_reads_another_lane_of_its_segment(mode: str, by: int, clamp: int) -> None:
    body = f"shfl.sync.{mode}.b32 %x0|%p0, %a, {by}, {clamp}, -1; selp.u32 %x1, 1000, 0, %p0; add.u32 %y, %x0, %x1;"
    y = compute(body, "u4", LANES)
    wanted = [shuffled(mode, n % 32, by, clamp) for n in range(64)]
    assert y.tolist() == [n - n % 32 + s + 1000 * p for n, (s, p) in enumerate(wanted)]


def test_a_shuffle_among_half_a_warp_names_that_half() -> None:
    body = """
    and.b32 %x0, %a, 16; shl.b32 %x1, 0xffff, %x0; shfl.sync.bfly.b32 %y, %a, 3, 0x101f, %x1;
    """
    assert compute(body, "u4", LANES).tolist() == (LANES ^ 3).tolist()


def test_votes_count_only_those_that_vote() -> None:
    body = """
    and.b32 %x0, %a, 1; setp.eq.u32 %p0, %x0, 1; vote.sync.ballot.b32 %y, %p0, -1;
    vote.sync.any.pred %p1, %p0, -1; vote.sync.all.pred %p2, %p0, -1; vote.sync.uni.pred %p3, %p0, -1;
    @!%p1 mov.u32 %y, 1; @%p2 mov.u32 %y, 2; @%p3 mov.u32 %y, 3;
    """
    assert compute(body, "u4", LANES).tolist() == [0xAAAAAAAA] * 64


def test_match_finds_lanes_with_the_same_value() -> None:
    values = np.array([n % 3 + 10 * (n // 32) for n in range(64)], "u4")
    body = (
        "match.any.sync.b32 %x0, %a, -1; match.all.sync.b32 %x1|%p0, %a, -1; add.u32 %y, %x0, %x1;"
    )
    words = [sum(1 << lane for lane in range(32) if lane % 3 == k) for k in range(3)]
    assert compute(body, "u4", values).tolist() == [words[n % 32 % 3] for n in range(64)]


@pytest.mark.parametrize(
    ("form", "over"),
    [
        ("add.s32", np.add),
        ("min.s32", np.minimum),
        ("max.u32", np.maximum),
        ("and.b32", np.bitwise_and),
        ("or.b32", np.bitwise_or),
        ("xor.b32", np.bitwise_xor),
    ],
)
def test_redux_reduces_a_warp(form: str, over: np.ufunc) -> None:
    dtype = "i4" if form.endswith("s32") else "u4"
    a = np.random.default_rng(1).integers(0, 2**32, 64).astype("u4").view(dtype)
    y = compute(f"redux.sync.{form} %y, %a, -1;", dtype, a)
    with np.errstate(over="ignore"):
        wanted = over.reduce(a.reshape(2, 32), axis=1, dtype=dtype)
    assert y.tolist() == np.repeat(wanted, 32).tolist()


def test_one_lane_is_elected() -> None:
    body = "elect.sync %x0|%p0, -1; selp.u32 %y, 1, 0, %p0;"
    assert compute(body, "u4", LANES, target="sm_90").tolist() == [1, *[0] * 31] * 2


COLLECTIVES = {
    "shfl": "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;",
    "vote": "vote.sync.ballot.b32 %r1, %p0, -1;",
    "redux": "redux.sync.add.u32 %r1, %r0, -1;",
    "bar.warp": "bar.warp.sync -1;",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [tile];",
    "mma": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2}, {%r3}, {%f0,%f1,%f2,%f3};",
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_without_the_whole_mask_is_a_fault(name: str) -> None:
    body = f".shared .align 16 .b8 tile[128]; setp.lt.u32 %p0, %r0, 20; @%p0 bra SKIP; {COLLECTIVES[name]} SKIP:"
    with pytest.raises(KernelFault) as caught:
        launch(entry(body, 0), 1, 32)
    assert caught.value.kind == "divergence"


def test_a_mask_must_not_name_a_thread_that_has_ended() -> None:
    body = "setp.eq.u32 %p0, %r0, 9; @%p0 exit; bar.sync 0; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1;"
    with pytest.raises(KernelFault, match="thread 9 of the block is in the mask, and has ended"):
        launch(entry(body, 0), 1, 32)


def test_a_thread_has_to_be_in_its_own_mask() -> None:
    with pytest.raises(KernelFault, match="not in its own mask"):
        launch(entry("shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xfffffffe;", 0), 1, 32)


def test_the_last_warp_may_be_partial() -> None:
    body = "shfl.sync.down.b32 %r1, %r0, 1, 31, -1; mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r1;"
    y = launch(entry(body), 1, 40, np.zeros(40, "u4"))[0]
    assert y.tolist() == [*range(1, 32), 31, *range(33, 40), 0xFFFFFFFF]


def test_a_collective_waits_for_threads_that_come_from_further_down() -> None:
    body = """
    setp.ge.u32 %p0, %r0, 20; mov.u32 %r1, %r0; @%p0 bra FAR; MEET: redux.sync.add.u32 %r2, %r1, -1;
    mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r2; ret;
    FAR: mov.u32 %r1, 1000; bra MEET;
    """
    y = launch(entry(body), 1, 32, np.zeros(32, "u4"))[0]
    assert y.tolist() == [190 + 12_000] * 32
