"""The detector of races between the blocks of a launch, on global memory."""

import numpy as np
import pytest
from launching import entry, launch

from lamina.testing.ptx import Device, KernelFault

PLACE = """
mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 32, %r0; mad.wide.u32 %rd5, %r2, 4, %rd0;
mad.wide.u32 %rd6, %r0, 4, %rd0; xor.b32 %r3, %r2, 32; mad.wide.u32 %rd7, %r3, 4, %rd0;
cvt.u64.u32 %rd8, %r2; add.s64 %rd8, %rd0, %rd8; add.u32 %r4, %r2, 1;
"""
"""%rd5 is a thread's own word, %rd7 that of a thread in another block, %rd6 is in block 0's words."""

RACES = {
    "a block reads what another wrote": "st.global.u32 [%rd5], %r4; ld.global.u32 %r5, [%rd7];",
    "a block writes what another read": "ld.global.u32 %r5, [%rd7]; st.global.u32 [%rd5], %r4;",
    "a block writes over another": "setp.eq.u32 %p0, %r1, 0; @%p0 st.global.u32 [%rd6], %r4; @!%p0 st.global.u32 [%rd6], %r4;",
    "a block writes what several read": "ld.global.u32 %r5, [%rd0]; setp.eq.u32 %p0, %r2, 5; @%p0 st.global.u32 [%rd0], %r4;",
}


@pytest.mark.parametrize("what", RACES)
def test_a_race_between_blocks_is_found(what: str) -> None:
    with pytest.raises(KernelFault, match=r"in argument 0: .* in the same launch") as caught:
        launch(entry(PLACE + RACES[what]), 2, 32, np.zeros(64, "u4"))
    assert caught.value.kind == "race"


FINE = {
    "its own words": "ld.global.u32 %r5, [%rd5]; st.global.u32 [%rd5], %r4; ld.global.u32 %r5, [%rd5];",
    "its own bytes": "st.global.u8 [%rd8], %r4; ld.global.u8 %r5, [%rd8];",
    "what is there already": "mov.u32 %r6, 0; st.global.u32 [%rd6], %r6; ld.global.u32 %r5, [%rd0];",
    "atomics": "red.global.add.u32 [%rd0], 1;",
    "what all read": "ld.global.u32 %r5, [%rd0]; ld.global.u32 %r5, [%rd7];",
}


@pytest.mark.parametrize("what", FINE)
def test_what_blocks_do_apart_is_no_race(what: str) -> None:
    launch(entry(PLACE + FINE[what]), 2, 32, np.zeros(64, "u4"))


def test_blocks_that_run_later_race_too() -> None:
    body = "rem.u32 %r5, %r2, 9568; setp.eq.u32 %p0, %r5, 0; @%p0 st.global.u32 [%rd0], %r4;"
    with pytest.raises(KernelFault, match="block number 0 wrote here in the same launch"):
        launch(entry(PLACE + body), 300, 32, np.zeros(1, "u4"))


def test_another_launch_may_use_what_one_wrote() -> None:
    device = Device()
    kernel = device.load(entry(PLACE + "st.global.u32 [%rd5], %r4;")).kernel("k")
    swapped = device.load(entry(PLACE + "ld.global.u32 %r5, [%rd7];")).kernel("k")
    address = device.put(np.zeros(64, "u4"))
    for each in (kernel, swapped, kernel):
        device.launch(each, (2,), (32,), [address])


def test_blocks_that_wait_for_each_other_may_be_allowed() -> None:
    text = entry(PLACE + RACES["a block reads what another wrote"])
    launch(text, 2, 32, np.zeros(64, "u4"), device=Device(independent=False))
