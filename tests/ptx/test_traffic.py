"""Bank conflicts and sectors, counted."""

import compiled_kernels
import numpy as np
import pytest
from launching import entry
from nvptx import ptx

from lamina.testing.ptx import Device, Traffic


def counted(body: str) -> Traffic:
    device, traffic = Device(), Traffic()
    text = entry(f".shared .align 16 .b8 box[8192]; mov.u32 %r20, box; {body}")
    address = device.put(np.zeros(4096, "u4"))
    device.launch(device.load(text).kernel("k"), (1,), (64,), [address], traffic=traffic)
    return traffic


WAYS = {
    "neighbours": ("mad.lo.u32 %r1, %r0, 4, %r20; ld.shared.u32 %r2, [%r1];", 0),
    "one word for all": ("ld.shared.u32 %r2, [box];", 0),
    "every second word": ("mad.lo.u32 %r1, %r0, 8, %r20; ld.shared.u32 %r2, [%r1];", 2),
    "a column of 32 words": ("mad.lo.u32 %r1, %r0, 128, %r20; ld.shared.u32 %r2, [%r1];", 62),
    "a column of 33 words": (
        "and.b32 %r1, %r0, 31; mad.lo.u32 %r1, %r1, 132, %r20; ld.shared.u32 %r2, [%r1];",
        0,
    ),
    "vectors of neighbours": (
        "mad.lo.u32 %r1, %r0, 16, %r20; ld.shared.v4.u32 {%r2,%r3,%r4,%r5}, [%r1];",
        0,
    ),
    "rows of 128 bytes": (
        "and.b32 %r1, %r0, 31; mad.lo.u32 %r1, %r1, 128, %r20;"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2,%r3,%r4,%r5}, [%r1];",
        2 * 4 * 7,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_bank_conflicts_are_counted(way: str) -> None:
    body, conflicts = WAYS[way]
    assert counted(body).conflicts == conflicts


@pytest.mark.parametrize(("bytes_apart", "steps"), [(4, 8), (8, 16), (32, 64), (256, 64)])
def test_sectors_of_global_memory_are_counted(bytes_apart: int, steps: int) -> None:
    body = f"mad.wide.u32 %rd1, %r0, {bytes_apart}, %rd0; ld.global.u32 %r2, [%rd1];"
    traffic = counted(body)
    (requests,) = [r for r in traffic.memory.values() if r.steps > 1]
    assert (requests.steps, requests.least) == (steps, 8)


def test_a_swizzled_pipeline_has_no_conflicts() -> None:
    device, traffic = Device(), Traffic()
    kernel = device.load(ptx(compiled_kernels.gemm())).kernel("gemm")
    a, b, c = (device.put(np.zeros((64, 64), dtype)) for dtype in ("u2", "u2", "f4"))
    sizes = [np.int32(64)] * 3
    device.launch(kernel, (1,), (128,), [a, b, c, *sizes], 24576, traffic=traffic)
    assert len(traffic.shared) > 8
    assert traffic.conflicts == 0
