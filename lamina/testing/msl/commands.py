"""The objects of Metal that work goes through: queues, command buffers and encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from lamina.testing.msl.errors import MslError
from lamina.testing.msl.kernels import MAX_BINDINGS
from lamina.testing.msl.library import Binding, Launch, Library
from lamina.testing.msl.objects import Buffer, Error, MTLSize, PipelineState

if TYPE_CHECKING:
    from lamina.testing.msl.device import Device

SERIAL: Final = 0
CONCURRENT: Final = 1
NOT_ENQUEUED: Final = 0
COMMITTED: Final = 2
COMPLETED: Final = 4
ERROR: Final = 5
_MOST_BYTES: Final = 4096


class CommandQueue:
    """An MTLCommandQueue."""

    def __init__(self, device: Device) -> None:
        """Have no work."""
        self._device = device
        self._waiting: list[CommandBuffer] = []

    def commandBuffer(self) -> CommandBuffer:
        """Return a new command buffer."""
        return CommandBuffer(self)

    def take(self, buffer: CommandBuffer) -> None:
        """Do the work of a command buffer after that which was taken before."""
        self._waiting.append(buffer)

    def work_off(self, until: CommandBuffer) -> None:
        """Do all work up to that of a command buffer that was taken."""
        while until in self._waiting:
            self._waiting.pop(0).work(self._device)


@dataclass(frozen=True)
class Work:
    """A launch, the library that it is of, and the buffers that it has."""

    library: Library
    launch: Launch
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True)
class Copy:
    """A copy of `size` bytes from a place in the first buffer to one in the second."""

    buffers: tuple[Buffer, Buffer]
    starts: tuple[int, int]
    size: int

    def make(self) -> None:
        """Copy the bytes."""
        (source, target), (first, to) = self.buffers, self.starts
        data = source.memory.view[first : first + self.size]
        target.memory.view[to : to + self.size] = data


class CommandBuffer:
    """An MTLCommandBuffer."""

    def __init__(self, queue: CommandQueue) -> None:
        """Hold no work."""
        self._queue = queue
        self._status = NOT_ENQUEUED
        self._error: Error | None = None
        self._encoder: Encoder | BlitEncoder | None = None
        self._work: list[Work | Copy] = []
        self._seconds = (0.0, 0.0)

    def computeCommandEncoder(self) -> Encoder:
        """Return an encoder whose launches follow each other."""
        return self.computeCommandEncoderWithDispatchType_(SERIAL)

    def computeCommandEncoderWithDispatchType_(self, kind: int) -> Encoder:
        """Return an encoder whose launches follow each other, or may run at one time."""
        self._refuse_encoder()
        self._encoder = encoder = Encoder(self._work, kind == CONCURRENT)
        return encoder

    def blitCommandEncoder(self) -> BlitEncoder:
        """Return an encoder of copies, which follow each other."""
        self._refuse_encoder()
        self._encoder = encoder = BlitEncoder(self._work)
        return encoder

    def _refuse_encoder(self) -> None:
        if self._status or (self._encoder and self._encoder.open):
            raise MslError("a command buffer has an open encoder, or was committed")

    def commit(self) -> None:
        """Have the work done some time."""
        if self._status or (self._encoder and self._encoder.open):
            raise MslError("a command buffer is committed twice, or before endEncoding")
        self._status = COMMITTED
        self._queue.take(self)

    def waitUntilCompleted(self) -> None:
        """Have the work done now."""
        if not self._status:
            raise MslError("a command buffer is waited for, but was not committed")
        self._queue.work_off(self)

    def status(self) -> int:
        """Return how far the work is; asking is waiting for it."""
        if self._status:
            self.waitUntilCompleted()
        return self._status

    def GPUStartTime(self) -> float:
        """Return when the work began, in seconds; 0 before it is done."""
        return self._seconds[0]

    def GPUEndTime(self) -> float:
        """Return when the work was over, in seconds; 0 before it is done."""
        return self._seconds[1]

    def error(self) -> Error | None:
        """Return what went wrong, None if nothing did."""
        return self._error

    def work(self, device: Device) -> None:
        """Do all work, or fail."""
        began = monotonic()
        try:
            if device.lost:
                raise MslError(device.lost)
            self._run(device)
        except MslError as wrong:
            self._status, self._error = ERROR, Error(str(wrong))
        else:
            self._status = COMPLETED
        self._seconds = (began, monotonic())
        # What a command buffer holds lives until its work is done.
        self._work.clear()

    def _run(self, device: Device) -> None:
        buffers = {id(each): each for work in self._work for each in work.buffers}.values()
        for buffer in buffers:
            buffer.fetch()
        begin = 0
        for end, work in enumerate(self._work, 1):
            if isinstance(work, Copy):
                work.make()
                begin = end
            elif end == len(self._work) or not _together(work, self._work[end]):
                launches = [each.launch for each in self._work[begin:end] if isinstance(each, Work)]
                work.library.execute(
                    launches, device.schedule, seed=device.seed, races=device.races
                )
                begin = end
        for buffer in buffers:
            buffer.bring_back()


@dataclass
class Encoder:
    """An MTLComputeCommandEncoder, which adds to `work` what is launched."""

    work: list[Work | Copy]
    concurrent: bool
    open: bool = True
    _state: PipelineState | None = None
    _buffers: dict[int, tuple[Buffer, int]] = field(default_factory=dict[int, tuple[Buffer, int]])
    _bytes: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _threadgroup: dict[int, int] = field(default_factory=dict[int, int])
    _after_a_barrier: bool = True

    def setComputePipelineState_(self, state: PipelineState) -> None:
        """Launch this kernel from now on."""
        self._state = state

    def setBuffer_offset_atIndex_(self, buffer: Buffer | None, offset: int, index: int) -> None:
        """Bind a buffer from an offset in bytes on, or nothing."""
        _refuse_index(index)
        self._buffers.pop(index, None)
        self._bytes.pop(index, None)
        if buffer is None:
            return
        if not 0 <= offset < buffer.length():
            raise MslError(f"buffer({index}): offset {offset} of {buffer.length()} bytes")
        self._buffers[index] = (buffer, offset)

    def setBufferOffset_atIndex_(self, offset: int, index: int) -> None:
        """Bind what is bound from another offset on."""
        if index not in self._buffers:
            raise MslError(f"buffer({index}): no buffer is bound to move in")
        self.setBuffer_offset_atIndex_(self._buffers[index][0], offset, index)

    def setBytes_length_atIndex_(self, data: Any, length: int, index: int) -> None:
        """Bind a copy of at most 4096 bytes."""
        _refuse_index(index)
        view = memoryview(data).cast("B")
        if not 0 < length <= min(len(view), _MOST_BYTES):
            raise MslError(f"buffer({index}): {length} bytes: expected 1 to {_MOST_BYTES}")
        self._buffers.pop(index, None)
        self._bytes[index] = bytes(view[:length])

    def setThreadgroupMemoryLength_atIndex_(self, length: int, index: int) -> None:
        """Give threadgroups so many bytes, a multiple of 16."""
        _refuse_index(index)
        if length % 16:
            raise MslError(f"threadgroup({index}): {length} bytes: expected a multiple of 16")
        self._threadgroup[index] = length

    def memoryBarrierWithScope_(self, scope: int) -> None:
        """Have launches from now on follow those before."""
        self._after_a_barrier = True

    def dispatchThreadgroups_threadsPerThreadgroup_(
        self, groups: Sequence[int], threads: Sequence[int]
    ) -> None:
        """Launch the kernel with all that is bound."""
        if not self.open or not self._state:
            raise MslError("a dispatch after endEncoding, or before setComputePipelineState")
        ordered = self._after_a_barrier or not self.concurrent
        self._after_a_barrier = False
        kernel, bound = self._state.kernel, self._buffers
        bindings: dict[int, Binding] = {
            index: (buffer.memory, offset) for index, (buffer, offset) in bound.items()
        }
        launch = Launch(
            kernel.name,
            MTLSize(*groups),
            MTLSize(*threads),
            {**bindings, **self._bytes},
            dict(self._threadgroup),
            ordered,
        )
        self._state.library.refuse(launch)
        held = tuple(bound[index][0] for index in kernel.buffers if index in bound)
        self.work.append(Work(self._state.library, launch, held))

    def endEncoding(self) -> None:
        """Take no more."""
        if not self.open:
            raise MslError("endEncoding is called twice")
        self.open = False


@dataclass
class BlitEncoder:
    """An MTLBlitCommandEncoder, which adds to `work` what is copied."""

    work: list[Work | Copy]
    open: bool = True

    def copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
        self, source: Buffer, first: int, target: Buffer, to: int, size: int
    ) -> None:
        """Copy bytes from a place in one buffer to one in another."""
        if not self.open:
            raise MslError("a copy after endEncoding")
        for buffer, start in ((source, first), (target, to)):
            if not 0 <= start <= start + size <= buffer.length():
                raise MslError(f"a copy: {size} bytes from {start} on of {buffer.length()} bytes")
        self.work.append(Copy((source, target), (first, to), size))

    def endEncoding(self) -> None:
        """Take no more."""
        if not self.open:
            raise MslError("endEncoding is called twice")
        self.open = False


def _together(work: Work, other: Work | Copy) -> bool:
    return isinstance(other, Work) and other.library is work.library


def _refuse_index(index: int) -> None:
    if not 0 <= index < MAX_BINDINGS:
        raise MslError(f"index {index}: expected a number below {MAX_BINDINGS}")
