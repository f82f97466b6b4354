"""Calls about streams, events and graphs."""

from __future__ import annotations

from typing import Any

from lamina.testing.ptx.driver.calls import Refused, call
from lamina.testing.ptx.driver.devices import DeviceCalls
from lamina.testing.ptx.driver.enumerations import (
    CUresult,
    CUstream_flags,
    CUstreamCaptureMode,
    CUstreamCaptureStatus,
)
from lamina.testing.ptx.driver.handles import (
    Capture,
    CUevent,
    CUgraph,
    CUgraphExec,
    CUstream,
    Work,
)

_RELAXED = CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


class StreamCalls(DeviceCalls):
    """`cuStream…`, `cuEvent…`, `cuGraph…`, `cuCtxSynchronize`.

    Work is done when somebody waits for it and no sooner, which any program has to expect.
    """

    def stream(self, handle: Any) -> CUstream:
        """Return a stream; 0 and None are the default one of the context."""
        context = self.context
        if isinstance(handle, CUstream):
            if not handle.alive or handle.context is not context:
                raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "the stream is of no use here")
            return handle
        if handle not in (None, 0, 1, 2):
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, f"{handle!r} is no stream")
        if context.default is None:
            context.default = CUstream(context, blocking=True)
            self.streams.append(context.default)
        return context.default

    def submit(self, handle: Any, work: Work) -> None:
        """Let a stream do work: later, or as a part of a graph."""
        stream = self.stream(handle)
        if stream.capture is not None:
            stream.capture.work.append(work)
            return
        self._order(stream)
        stream.queue.append(work)

    def _order(self, stream: CUstream) -> None:
        """The default stream and blocking ones wait for each other."""
        default = stream.context.default
        if not stream.blocking or default is None:
            return
        others = self.streams if stream is default else [default]
        for other in others:
            if other.blocking and other is not stream and other.context is stream.context:
                other.reach(other.end)

    def drain(self, *, blocking_only: bool = False) -> None:
        """Do everything that the context's streams have to do."""
        context = self.context
        for stream in self.streams:
            if stream.context is context and (stream.blocking or not blocking_only):
                stream.reach(stream.end)

    def unsafe(self, what: str) -> None:
        """Refuse a call that must not be made while a stream is captured."""
        for stream in self.streams:
            capture = stream.capture
            if capture is not None and capture.mode != _RELAXED:
                capture.invalid = True
                why = f"{what} while a stream is captured"
                raise Refused(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, why)

    @call(1)
    def cuStreamCreate(self, flags: int) -> CUstream:
        """Make a stream."""
        blocking = not flags & CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = CUstream(self.context, blocking)
        self.streams.append(stream)
        return stream

    @call(1)
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> CUstream:
        """Make a stream; its priority changes nothing here."""
        stream = CUstream(self.context, not flags & CUstream_flags.CU_STREAM_NON_BLOCKING)
        self.streams.append(stream)
        return stream

    @call(releases=True)
    def cuStreamDestroy(self, handle: Any) -> None:
        """Finish a stream's work and forget it."""
        if not isinstance(handle, CUstream) or not handle.alive:
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "this is no stream")
        if handle.context.alive and not self.lost:
            handle.reach(handle.end)
        handle.alive = False
        self.streams = [stream for stream in self.streams if stream is not handle]

    @property
    def lost(self) -> bool:
        """Whether the device is lost."""
        return self.dead is not None

    @call()
    def cuStreamSynchronize(self, handle: Any) -> None:
        """Wait for a stream."""
        stream = self.stream(handle)
        self.not_captured(stream, "cuStreamSynchronize")
        self._order(stream)
        stream.reach(stream.end)

    def not_captured(self, stream: CUstream, what: str) -> None:
        """Refuse a call that must not be made of a stream that is captured."""
        if stream.capture is not None:
            stream.capture.invalid = True
            why = f"{what} of a stream that is captured"
            raise Refused(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, why)

    @call()
    def cuStreamQuery(self, handle: Any) -> None:
        """Tell whether a stream is done; it gets on a little."""
        stream = self.stream(handle)
        self.not_captured(stream, "cuStreamQuery")
        if stream.advance():
            raise Refused(CUresult.CUDA_ERROR_NOT_READY, "the stream has work to do")

    @call()
    def cuCtxSynchronize(self) -> None:
        """Wait for all streams."""
        self.unsafe("cuCtxSynchronize")
        self.drain()

    @call()
    def cuStreamWaitEvent(self, handle: Any, event: CUevent, flags: int) -> None:
        """Let a stream wait for an event; one in a capture draws the stream into it."""
        del flags
        stream = self.stream(handle)
        source, mark = self._event(event).stream, event.mark
        if event.capture is not None:
            stream.capture = event.capture
            event.capture.streams.discard(id(source))
            event.capture.streams.add(id(stream))
            return
        if source is not None:
            self.submit(stream, lambda: source.reach(mark))

    def _event(self, event: Any) -> CUevent:
        if not isinstance(event, CUevent) or not event.alive:
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "this is no event")
        return event

    @call(1)
    def cuEventCreate(self, flags: int) -> CUevent:
        """Make an event."""
        del flags
        assert self.context
        return CUevent()

    @call()
    def cuEventRecord(self, event: CUevent, handle: Any) -> None:
        """Put an event at the end of a stream's work."""
        stream = self.stream(handle)
        self._event(event).stream = stream
        event.capture = stream.capture
        event.seconds = None
        if stream.capture is None:
            self.submit(stream, event.passed)
        event.mark = stream.end

    @call()
    def cuEventSynchronize(self, event: CUevent) -> None:
        """Wait for an event."""
        if self._event(event).capture is not None:
            raise Refused(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the event is captured")
        if event.stream is not None:
            event.stream.reach(event.mark)

    @call()
    def cuEventQuery(self, event: CUevent) -> None:
        """Tell whether an event has passed; its stream gets on a little."""
        if not self._event(event).complete and event.stream is not None:
            event.stream.advance()
            raise Refused(CUresult.CUDA_ERROR_NOT_READY, "the event has not passed")

    @call(1)
    def cuEventElapsedTime(self, start: CUevent, end: CUevent) -> float:
        """Return the milliseconds between two events."""
        first, last = self._event(start).seconds, self._event(end).seconds
        if start.stream is None or end.stream is None:
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "an event was not recorded")
        if first is None or last is None:
            raise Refused(CUresult.CUDA_ERROR_NOT_READY, "an event has not passed")
        return 1000 * (last - first)

    @call(releases=True)
    def cuEventDestroy(self, event: CUevent) -> None:
        """Forget an event."""
        self._event(event).alive = False

    @call()
    def cuStreamBeginCapture(self, handle: Any, mode: int) -> None:
        """Begin to note a stream's work instead of doing it."""
        stream = self.stream(handle)
        if stream.capture is not None or stream is stream.context.default:
            why = "the default stream, or one that is captured, cannot be captured"
            raise Refused(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, why)
        stream.capture = Capture(int(mode), stream)

    @call(1)
    def cuStreamIsCapturing(self, handle: Any) -> CUstreamCaptureStatus:
        """Tell whether a stream is captured."""
        capture = self.stream(handle).capture
        if capture is None:
            return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
        if capture.invalid:
            return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_INVALIDATED
        return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE

    @call(1)
    def cuStreamEndCapture(self, handle: Any) -> CUgraph:
        """Return what a stream would have done, as a graph."""
        stream = self.stream(handle)
        capture = stream.capture
        if capture is None or capture.origin is not stream:
            why = "the stream is not the one whose capture was begun"
            raise Refused(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, why)
        forks = [other for other in self.streams if other.capture is capture]
        for other in forks:
            other.capture = None
        if capture.invalid:
            raise Refused(CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture failed")
        if capture.streams - {id(stream)}:
            why = "a stream that was drawn into the capture was not joined again"
            raise Refused(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNJOINED, why)
        graph = CUgraph(tuple(capture.work))
        self.graphs.append(graph)
        return graph

    @call(1)
    def cuGraphInstantiate(self, graph: CUgraph, flags: int) -> CUgraphExec:
        """Return a graph that can be launched."""
        del flags
        if not isinstance(graph, CUgraph) or not graph.alive:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "this is no graph")
        made = CUgraphExec(graph.work)
        self.graphs.append(made)
        return made

    @call()
    def cuGraphUpload(self, graph: CUgraphExec, handle: Any) -> None:
        """Make a graph ready; here it is."""
        self.stream(handle)
        if not graph.alive:
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "the graph is destroyed")

    @call()
    def cuGraphLaunch(self, graph: CUgraphExec, handle: Any) -> None:
        """Let a stream do the work of a graph."""
        if not graph.alive:
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "the graph is destroyed")
        for work in graph.work:
            self.submit(handle, work)

    @call(releases=True)
    def cuGraphDestroy(self, graph: CUgraph) -> None:
        """Forget a graph."""
        self._forget(graph)

    @call(releases=True)
    def cuGraphExecDestroy(self, graph: CUgraphExec) -> None:
        """Forget a graph that could be launched."""
        self._forget(graph)

    def _forget(self, graph: CUgraph | CUgraphExec) -> None:
        if not graph.alive:
            raise Refused(CUresult.CUDA_ERROR_INVALID_HANDLE, "the graph is destroyed")
        graph.alive = False
        self.graphs = [other for other in self.graphs if other is not graph]
