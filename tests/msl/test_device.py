"""The imitation of Metal's objects does what pyobjc's do, and holds a program to their rules."""

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lamina.testing.msl import MslError
from lamina.testing.msl.device import Metal

TEXT = """#include <metal_stdlib>
using namespace metal;
kernel void add(device float* x [[buffer(0)]], constant float& by [[buffer(1)]],
                uint at [[thread_position_in_grid]]) {
  x[at] += by;
}
[[max_total_threads_per_threadgroup(64)]]
kernel void turn(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                 threadgroup float* held [[threadgroup(0)]],
                 uint at [[thread_position_in_threadgroup]],
                 uint n [[threads_per_threadgroup]]) {
  held[at] = x[at];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[at] = held[n - 1 - at];
}
"""


class Program:
    """A device, a queue, and the kernels of `TEXT` made ready."""

    def __init__(self, **options: Any) -> None:
        self.metal = Metal(**options)
        self.device: Any = self.metal.MTLCreateSystemDefaultDevice()
        self.queue = self.device.newCommandQueue()
        options = self.metal.MTLCompileOptions.alloc().init()
        options.setMathMode_(self.metal.MTLMathModeSafe)
        library, error = self.device.newLibraryWithSource_options_error_(TEXT, options, None)
        assert error is None
        self.states = {name: self.state(library, name) for name in library.functionNames()}

    def state(self, library: Any, name: str) -> Any:
        function = library.newFunctionWithName_(name)
        return self.device.newComputePipelineStateWithFunction_error_(function, None)[0]

    def buffer(self, values: Any) -> Any:
        data = np.float32(values)
        return self.device.newBufferWithBytes_length_options_(data, data.nbytes, 0)

    def add(self, encoder: Any, buffer: Any, by: float, count: int, offset: int = 0) -> None:
        encoder.setComputePipelineState_(self.states["add"])
        encoder.setBuffer_offset_atIndex_(buffer, offset, 0)
        encoder.setBytes_length_atIndex_(np.float32(by).tobytes(), 4, 1)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_((1, 1, 1), (count, 1, 1))


def values(buffer: Any) -> list[float]:
    return np.frombuffer(buffer.contents().as_buffer(buffer.length()), np.float32).tolist()


@pytest.fixture(scope="module", autouse=True)
def _compiler(needs: Callable[..., str]) -> None:
    needs("g++", package="g++")


def test_a_command_buffer_does_its_launches_in_order() -> None:
    program = Program()
    x, y = program.buffer([1, 2, 3, 4]), program.buffer([0] * 4)
    commands = program.queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    program.add(encoder, x, 10, 4)
    encoder.setComputePipelineState_(program.states["turn"])
    encoder.setBuffer_offset_atIndex_(y, 0, 1)
    encoder.setThreadgroupMemoryLength_atIndex_(16, 0)
    encoder.dispatchThreadgroups_threadsPerThreadgroup_((1, 1, 1), (4, 1, 1))
    program.add(encoder, y, 1, 2, 8)
    encoder.endEncoding()
    commands.commit()
    commands.waitUntilCompleted()
    assert (values(y), commands.error()) == ([14, 13, 13, 12], None)
    assert commands.status() == program.metal.MTLCommandBufferStatusCompleted


def run(program: Program, *added: tuple[Any, float, int]) -> Any:
    """Add to buffers in an encoder whose launches may run at one time; return the commands."""
    commands = program.queue.commandBuffer()
    kind = program.metal.MTLDispatchTypeConcurrent
    encoder = commands.computeCommandEncoderWithDispatchType_(kind)
    for buffer, by, count in added:
        program.add(encoder, buffer, by, count)
        if by < 0:
            encoder.memoryBarrierWithScope_(program.metal.MTLBarrierScopeBuffers)
    encoder.endEncoding()
    commands.commit()
    return commands


def test_work_is_done_when_it_is_waited_for() -> None:
    program = Program()
    x = program.buffer([1, 2])
    first, second = run(program, (x, 1, 2)), run(program, (x, 2, 2))
    assert values(x) == [1, 2]
    second.waitUntilCompleted()
    assert (values(x), first.error(), second.error()) == ([4, 5], None, None)


def test_launches_at_one_time_need_a_barrier_to_touch_the_same() -> None:
    program = Program()
    x = program.buffer([1, 2])
    barred, bare = run(program, (x, -1, 2), (x, 1, 2)), run(program, (x, 1, 2), (x, 1, 2))
    bare.waitUntilCompleted()
    assert barred.error() is None
    assert "wrote in the same launch" in bare.error().localizedDescription()


def test_a_fault_of_a_kernel_is_the_error_of_its_commands() -> None:
    program = Program()
    commands = run(program, (program.buffer([1, 2]), 1, 3))
    assert commands.status() == program.metal.MTLCommandBufferStatusError
    assert "byte 8 of buffer(0), which has 8 bytes" in commands.error().localizedDescription()


def test_a_lost_device_fails_what_was_not_done() -> None:
    program = Program()
    commands = run(program, (program.buffer([1, 2]), 1, 2))
    program.device.lose("the cable was pulled")
    commands.waitUntilCompleted()
    assert commands.error().localizedDescription() == "the cable was pulled"


def test_a_buffer_may_be_memory_of_the_program() -> None:
    program = Program()
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    make = program.device.newBufferWithBytesNoCopy_length_options_deallocator_
    buffer = make(pages, mmap.PAGESIZE, 0, None)
    np.frombuffer(pages, np.float32)[:2] = 5, 6
    run(program, (buffer, 1, 2)).waitUntilCompleted()
    assert np.frombuffer(pages, np.float32)[:3].tolist() == [6, 7, 0]
    assert make(memoryview(pages)[16:], 64, 0, None) is None


def test_memory_is_counted_and_comes_to_an_end() -> None:
    program = Program(memory=100)
    held = program.device.newBufferWithLength_options_(80, 0)
    assert program.device.newBufferWithLength_options_(40, 0) is None
    assert (held.length(), program.device.currentAllocatedSize()) == (80, 80)
    del held
    assert program.device.newBufferWithLength_options_(40, 0) is not None


def test_a_wrong_text_is_an_error_and_an_unknown_kernel_is_none() -> None:
    program = Program()
    make = program.device.newLibraryWithSource_options_error_
    library, error = make(TEXT.replace("+= by", "+= bye"), None, None)
    assert library is None
    assert "line 5: 'bye' was not declared" in error.localizedDescription()
    assert make(TEXT, None, None)[0].newFunctionWithName_("subtract") is None


def test_a_machine_may_have_no_device() -> None:
    metal = Metal(devices=0)
    assert (metal.MTLCreateSystemDefaultDevice(), metal.MTLCopyAllDevices()) == (None, ())


def test_a_pipeline_state_tells_its_limits() -> None:
    states = Program().states
    assert states["turn"].maxTotalThreadsPerThreadgroup() == 64
    assert (
        states["add"].maxTotalThreadsPerThreadgroup(),
        states["add"].threadExecutionWidth(),
    ) == (1024, 32)


BROKEN: dict[str, Callable[[Any, Any, Any], object]] = {
    r"offset 8 of 8 bytes": lambda c, e, b: e.setBuffer_offset_atIndex_(b, 8, 0),
    r"index 31: expected a number below 31": lambda c, e, b: e.setBuffer_offset_atIndex_(b, 0, 31),
    r"4097 bytes: expected 1 to 4096": lambda c, e, b: e.setBytes_length_atIndex_(
        bytes(5000), 4097, 0
    ),
    r"20 bytes: expected a multiple of 16": lambda c, e, b: e.setThreadgroupMemoryLength_atIndex_(
        20, 0
    ),
    r"before setComputePipelineState": lambda c, e, b: (
        e.dispatchThreadgroups_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    ),
    r"before endEncoding": lambda c, e, b: c.commit(),
    r"has an open encoder": lambda c, e, b: c.computeCommandEncoder(),
    r"was not committed": lambda c, e, b: c.waitUntilCompleted(),
    r"no buffer is bound to move in": lambda c, e, b: e.setBufferOffset_atIndex_(4, 3),
}


@pytest.mark.parametrize("says", BROKEN)
def test_what_validation_stops_is_an_error(says: str) -> None:
    program = Program()
    commands = program.queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    with pytest.raises(MslError, match=says):
        BROKEN[says](commands, encoder, program.buffer([1, 2]))
