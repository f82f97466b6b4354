"""Memory that the threads of a block share, beyond what a kernel can declare."""

import numpy as np
import pytest
from xdsl.parser import Parser

from lamina.dialects import simt
from lamina.errors import InputError, LoweringError, TargetUnavailable
from lamina.targets.cuda.architectures import ARCHITECTURES, most_shared
from lamina.targets.cuda.compiled_kernels import Code, KernelFacts, launch_of, load_kernels
from lamina.targets.cuda.device import CudaDevice
from lamina.targets.cuda.nvvm import KernelCode, emit_kernel
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.ptx import to_ptx
from lamina.testing.kernels import context
from lamina.testing.ptx import KernelFault, Specification
from lamina.testing.ptx.driver import FakeDriver


def turning(words: int, arch: str = "sm_80") -> KernelCode:
    """A kernel that turns 128 numbers round by way of the ends of two memories."""
    kind = f'memref<{words}xi32, "workgroup">'
    kernel = (
        Parser(
            context(),
            f"""
simt.kernel @turn attributes {{symbols = ["workers"], grid = ["1"], access = ["read", "write"],
                              threads = 128 : i64, subgroup = 32 : i64}} {{
^bb0(%x: memref<128xi32>, %y: memref<128xi32>, %workers: index):
  %m = simt.memory : {kind}
  %n = simt.memory : memref<3xi8, "workgroup">
  %o = simt.memory : {kind}
  %t = simt.thread_id
  %last = arith.constant {words - 1} : index
  %first = arith.constant {words - 128} : index
  %back = arith.subi %last, %t : index
  %on = arith.addi %first, %t : index
  %v = simt.load %x[%t] : memref<128xi32>, index -> i32
  simt.store %v, %m[%back] : i32, {kind}, index
  simt.store %v, %o[%t] : i32, {kind}, index
  simt.barrier
  %w = simt.load %m[%on] : {kind}, index -> i32
  simt.store %w, %y[%t] : i32, memref<128xi32>, index
  tile.return
}}""",
        )
        .parse_module()
        .body.block.first_op
    )
    assert isinstance(kernel, simt.KernelOp)
    return emit_kernel(kernel, NodeTable(), arch)


def turned(device: CudaDevice, code: KernelCode, **less: int) -> np.ndarray:
    facts = KernelFacts(code.name, code.threads, less.get("shared", code.shared_bytes))
    ptx = to_ptx([code.text], "sm_80").encode()
    loaded = load_kernels(device, Code(ptx, "sm_80"), [facts])
    x, y = device.storage(512), device.storage(512)
    device.write(x, np.arange(128, dtype=np.int32))
    launch_of(loaded.kernels[0], (1, 1, 1), (x.address, y.address), (2,), 0).give(device)
    device.wait()
    return device.read(y, 0, 512).view(np.int32)


@pytest.mark.parametrize("words", [1000, 6142, 6143, 20000])
def test_memories_lie_side_by_side_declared_or_given(device: CudaDevice, words: int) -> None:
    code = turning(words)
    assert ("external addrspace(3)" in code.text) == (code.shared_bytes > 48 << 10)
    assert np.array_equal(turned(device, code), np.arange(128)[::-1])


def test_a_launch_that_gives_too_little_is_found(device: CudaDevice) -> None:
    code = turning(20000)
    with pytest.raises(KernelFault, match="turn"):
        turned(device, code, shared=80272)


def test_a_block_takes_no_more_than_its_architecture_has() -> None:
    assert turning(20000, "sm_80").shared_bytes == 160016
    with pytest.raises(LoweringError, match=r"sm_89 has 101376 bytes .* not the 160016 of kernel"):
        turning(20000, "sm_89")


def test_every_architecture_says_what_a_block_may_be_given() -> None:
    assert {most_shared(arch) >> 10 for arch in ARCHITECTURES} == {99, 163, 227}
    with pytest.raises(InputError, match="option arch: expected sm_80"):
        most_shared("sm_75")


def test_a_device_that_has_less_than_a_kernel_needs_refuses_it() -> None:
    device = CudaDevice(driver := FakeDriver([Specification((8, 9))]), 0)
    with pytest.raises(TargetUnavailable, match=r"turn needs 160016 .* compile it with arch=sm_89"):
        turned(device, turning(20000))
    device.close()
    assert driver.leaks() == []
