"""The driver's calls on top of the interpreter."""

import ctypes
from typing import Any

import numpy as np
import pytest
from launching import entry

from lamina.testing.ptx import KernelFault, Specification
from lamina.testing.ptx.driver import CUresult, FakeDriver

ADD = """
.reg .b32 %n; ld.param.u32 %n, [n]; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 32, %r0;
setp.ge.u32 %p0, %r0, %n; @%p0 ret; mad.wide.u32 %rd9, %r0, 4, %rd0; ld.global.f32 %f0, [%rd9];
.reg .f32 %by; ld.param.f32 %by, [by]; add.f32 %f0, %f0, %by; st.global.f32 [%rd9], %f0;
"""
PTX = entry(ADD).replace("(.param .u64 p0)", "(.param .u64 p0, .param .u32 n, .param .f32 by)")
IMAGE = PTX.encode() + b"\0"
TYPES = (ctypes.c_void_p, ctypes.c_int, ctypes.c_float)


class Session:
    """A driver that is begun, with a stream and the kernel that adds a number."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.do(driver.cuInit(0))
        self.device = self.do(driver.cuDeviceGet(0))
        self.do(driver.cuCtxSetCurrent(self.do(driver.cuDevicePrimaryCtxRetain(self.device))))
        self.stream = self.do(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.library = self.do(driver.cuLibraryLoadData(IMAGE, [], [], 0, [], [], 0))
        self.kernel = self.do(driver.cuLibraryGetKernel(self.library, b"k"))

    def do(self, answer: tuple[Any, ...]) -> Any:
        assert answer[0] == CUresult.CUDA_SUCCESS, self.driver.reason
        return answer[1] if len(answer) == 2 else answer[1:]

    def add(self, pointer: int, n: int, by: float, stream: Any = None) -> tuple[Any, ...]:
        params = ((pointer, n, by), TYPES)
        return self.driver.cuLaunchKernel(
            self.kernel, -(-n // 32), 1, 1, 32, 1, 1, 0, stream or self.stream, params, 0
        )

    def put(self, array: np.ndarray) -> int:
        pointer = self.do(self.driver.cuMemAlloc(array.nbytes))
        self.do(self.driver.cuMemcpyHtoD(pointer, array, array.nbytes))
        return pointer

    def get(self, pointer: int, count: int) -> list[float]:
        found = np.zeros(count, "f4")
        self.do(self.driver.cuMemcpyDtoH(found.ctypes.data, pointer, found.nbytes))
        return found.tolist()


@pytest.fixture
def session() -> Session:
    return Session(FakeDriver())


def test_work_of_a_stream_is_done_in_order_once_it_is_waited_for(session: Session) -> None:
    driver, host = session.driver, np.ones(50, "f4")
    pointer = session.do(driver.cuMemAllocAsync(200, session.stream))
    session.do(driver.cuMemcpyHtoDAsync(pointer, host.ctypes.data, 200, session.stream))
    session.do(session.add(pointer, 50, 1.5))
    session.do(driver.cuMemcpyDtoHAsync(host.ctypes.data, pointer, 200, session.stream))
    assert host.tolist() == [1.0] * 50
    session.do(driver.cuStreamSynchronize(session.stream))
    assert host.tolist() == [2.5] * 50


def test_a_copy_without_a_wait_does_not_see_the_work_of_a_stream(session: Session) -> None:
    pointer = session.put(np.zeros(4, "f4"))
    session.do(session.add(pointer, 4, 1.0))
    assert session.get(pointer, 4) == [0.0] * 4
    session.do(session.driver.cuCtxSynchronize())
    assert session.get(pointer, 4) == [1.0] * 4


def test_pinned_memory_is_read_when_the_stream_gets_there(session: Session) -> None:
    driver = session.driver
    place = session.do(driver.cuMemHostAlloc(16, 0))
    pinned = np.ctypeslib.as_array((ctypes.c_float * 4).from_address(place))
    pointer = session.put(np.zeros(4, "f4"))
    pinned[:] = 1
    session.do(driver.cuMemcpyHtoDAsync(pointer, place, 16, session.stream))
    pinned[:] = 7
    session.do(driver.cuStreamSynchronize(session.stream))
    assert session.get(pointer, 4) == [7.0] * 4


def test_a_captured_stream_becomes_a_graph_that_is_replayed(session: Session) -> None:
    driver, pointer = session.driver, session.put(np.zeros(8, "f4"))
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    session.do(driver.cuStreamBeginCapture(session.stream, mode))
    session.do(session.add(pointer, 8, 1.0))
    session.do(session.add(pointer, 8, 2.0))
    graph = session.do(driver.cuStreamEndCapture(session.stream))
    ready = session.do(driver.cuGraphInstantiate(graph, 0))
    for _ in range(3):
        session.do(driver.cuGraphLaunch(ready, session.stream))
    session.do(driver.cuStreamSynchronize(session.stream))
    assert session.get(pointer, 8) == [9.0] * 8
    assert driver.counts["cuLaunchKernel"] == 2


def test_waiting_while_capturing_spoils_the_capture(session: Session) -> None:
    driver = session.driver
    session.do(driver.cuStreamBeginCapture(session.stream, 1))
    assert driver.cuMemAlloc(4) == (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, None)
    result, graph = driver.cuStreamEndCapture(session.stream)
    assert (result, graph) == (CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, None)


def test_a_second_stream_joins_a_capture_by_events(session: Session) -> None:
    driver, pointer = session.driver, session.put(np.zeros(4, "f4"))
    other = session.do(driver.cuStreamCreate(1))
    fork, join = session.do(driver.cuEventCreate(0)), session.do(driver.cuEventCreate(0))
    session.do(driver.cuStreamBeginCapture(session.stream, 1))
    session.do(driver.cuEventRecord(fork, session.stream))
    session.do(driver.cuStreamWaitEvent(other, fork, 0))
    session.do(session.add(pointer, 4, 1.0, other))
    session.do(driver.cuEventRecord(join, other))
    session.do(driver.cuStreamWaitEvent(session.stream, join, 0))
    graph = session.do(driver.cuStreamEndCapture(session.stream))
    session.do(driver.cuGraphLaunch(session.do(driver.cuGraphInstantiate(graph, 0)), other))
    session.do(driver.cuStreamSynchronize(other))
    assert session.get(pointer, 4) == [1.0] * 4


def test_a_stream_waits_for_an_event_of_another(session: Session) -> None:
    driver, pointer = session.driver, session.put(np.zeros(4, "f4"))
    other = session.do(driver.cuStreamCreate(1))
    event = session.do(driver.cuEventCreate(0))
    session.do(session.add(pointer, 4, 1.0))
    session.do(driver.cuEventRecord(event, session.stream))
    session.do(driver.cuStreamWaitEvent(other, event, 0))
    session.do(driver.cuStreamSynchronize(other))
    assert session.get(pointer, 4) == [1.0] * 4


def test_events_tell_how_much_time_went_by(session: Session) -> None:
    driver = session.driver
    start, end = session.do(driver.cuEventCreate(0)), session.do(driver.cuEventCreate(0))
    session.do(driver.cuEventRecord(start, session.stream))
    session.do(driver.cuEventRecord(end, session.stream))
    assert driver.cuEventElapsedTime(start, end)[0] == CUresult.CUDA_ERROR_NOT_READY
    assert driver.cuEventQuery(end)[0] == CUresult.CUDA_ERROR_NOT_READY
    session.do(driver.cuEventSynchronize(end))
    assert session.do(driver.cuEventElapsedTime(start, end)) >= 0


def test_arguments_may_be_an_array_of_pointers(session: Session) -> None:
    pointer = session.put(np.zeros(4, "f4"))
    values = (ctypes.c_void_p(pointer), ctypes.c_int(4), ctypes.c_float(2.0))
    places = np.array([ctypes.addressof(value) for value in values], "u8")
    driver = session.driver
    session.do(
        driver.cuLaunchKernel(session.kernel, 1, 1, 1, 32, 1, 1, 0, None, places.ctypes.data, 0)
    )
    assert session.get(pointer, 4) == [2.0] * 4


def test_more_shared_memory_has_to_be_asked_for(session: Session) -> None:
    driver, pointer = session.driver, session.put(np.zeros(4, "f4"))
    launch = (session.kernel, 1, 1, 1, 32, 1, 1, 60_000, None, ((pointer, 4, 1.0), TYPES), 0)
    assert driver.cuLaunchKernel(*launch) == (CUresult.CUDA_ERROR_INVALID_VALUE,)
    assert "60000 bytes of shared memory a block, 49152 are allowed" in driver.reason
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    session.do(driver.cuKernelSetAttribute(attribute, 60_000, session.kernel, session.device))
    session.do(driver.cuLaunchKernel(*launch))
    too_much = driver.cuKernelSetAttribute(attribute, 170_000, session.kernel, session.device)
    assert too_much == (CUresult.CUDA_ERROR_INVALID_VALUE,)


def test_memory_that_is_not_there_is_refused_and_said_how_much_is_missing() -> None:
    session = Session(FakeDriver([Specification(memory=1 << 20)]))
    driver = session.driver
    assert driver.cuMemAlloc(1 << 21) == (CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
    assert "1048576 are missing" in driver.reason
    free, total = session.do(driver.cuMemGetInfo())
    assert (free, total) == (1 << 20, 1 << 20)


IMAGES = {
    "machine code": (b"\x7fELF\2\1\1\0", "NO_BINARY_FOR_GPU"),
    "noise": (b"hello\0", "INVALID_IMAGE"),
    "PTX without its end": (IMAGE[:-1], "INVALID_IMAGE"),
    "PTX for a newer device": (IMAGE.replace(b"sm_80", b"sm_90a"), "NO_BINARY_FOR_GPU"),
    "broken PTX": (IMAGE.replace(b"add.f32", b"add.f32 #"), "INVALID_PTX"),
    "PTX of a newer version": (IMAGE.replace(b"8.7", b"9.5"), "UNSUPPORTED_PTX_VERSION"),
}


@pytest.mark.parametrize("what", IMAGES)
def test_an_image_that_cannot_be_run_is_refused(session: Session, what: str) -> None:
    image, name = IMAGES[what]
    result, library = session.driver.cuModuleLoadData(image)
    assert (result.name, library) == (f"CUDA_ERROR_{name}", None)


def test_what_is_not_there_is_an_error_of_its_own(session: Session) -> None:
    driver = session.driver
    assert driver.cuDeviceGet(3) == (CUresult.CUDA_ERROR_INVALID_DEVICE, None)
    assert driver.cuLibraryGetKernel(session.library, b"x")[0] == CUresult.CUDA_ERROR_NOT_FOUND
    assert driver.cuMemFree(12345) == (CUresult.CUDA_ERROR_INVALID_VALUE,)
    assert driver.cuMemcpyHtoD(12345, b"1234", 4) == (CUresult.CUDA_ERROR_INVALID_VALUE,)
    assert FakeDriver().cuDeviceGetCount() == (CUresult.CUDA_ERROR_NOT_INITIALIZED, None)
    assert FakeDriver([]).cuInit(0) == (CUresult.CUDA_ERROR_NO_DEVICE,)


def test_a_kernel_that_does_wrong_is_named_when_its_stream_is_waited_for(session: Session) -> None:
    pointer = session.put(np.zeros(4, "f4"))
    session.do(session.add(pointer, 5, 1.0))
    with pytest.raises(KernelFault, match="lie 0 bytes past the end of"):
        session.driver.cuStreamSynchronize(session.stream)


def test_a_fault_may_be_an_error_code_that_stays() -> None:
    session = Session(FakeDriver(report=True))
    pointer = session.put(np.zeros(4, "f4"))
    session.do(session.add(pointer, 5, 1.0))
    bad = (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
    assert session.driver.cuStreamSynchronize(session.stream) == bad
    assert session.driver.cuStreamSynchronize(session.stream) == bad
    assert session.driver.cuMemAlloc(4) == (*bad, None)


def test_a_call_fails_when_it_is_told_to(session: Session) -> None:
    driver = session.driver
    driver.fail(CUresult.CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc", after=1)
    session.do(driver.cuMemAlloc(4))
    assert driver.cuMemAlloc(4) == (CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
    session.do(driver.cuMemAlloc(4))


def test_what_a_lost_device_held_can_be_given_back(session: Session) -> None:
    driver, pointer = session.driver, session.put(np.zeros(4, "f4"))
    driver.lose(after=1)
    session.do(session.add(pointer, 4, 1.0))
    lost = (CUresult.CUDA_ERROR_LAUNCH_FAILED,)
    assert driver.cuStreamSynchronize(session.stream) == lost
    assert session.add(pointer, 4, 1.0) == lost
    for answer in (
        driver.cuMemFree(pointer),
        driver.cuLibraryUnload(session.library),
        driver.cuStreamDestroy(session.stream),
        driver.cuDevicePrimaryCtxRelease(session.device),
    ):
        session.do(answer)
    assert driver.leaks() == []


def test_what_was_not_given_back_is_listed(session: Session) -> None:
    session.put(np.zeros(4, "f4"))
    assert session.driver.leaks() == [
        "1 allocations of device 0",
        "1 streams",
        "1 libraries",
        "1 contexts",
    ]


def test_a_context_that_is_released_is_of_no_use(session: Session) -> None:
    session.do(session.driver.cuDevicePrimaryCtxRelease(session.device))
    gone = (CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED, None)
    assert session.driver.cuMemAlloc(4) == gone


def test_a_device_answers_what_it_is(session: Session) -> None:
    driver, attribute = session.driver, session.driver.CUdevice_attribute
    asked = {
        attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: 8,
        attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: 163 << 10,
        attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE: 32,
    }
    for what, wanted in asked.items():
        assert session.do(driver.cuDeviceGetAttribute(what, session.device)) == wanted
    assert (
        session.do(driver.cuDeviceGetName(64, session.device)).rstrip(b"\0") == b"PTX interpreter"
    )


def test_a_variable_of_a_module_has_an_address(session: Session) -> None:
    text = entry("", before=".global .align 4 .u32 table[3] = {4, 5, 6};")
    module = session.do(session.driver.cuModuleLoadData(text.encode() + b"\0"))
    address, size = session.do(session.driver.cuModuleGetGlobal(module, b"table"))
    found = np.zeros(3, "u4")
    session.do(session.driver.cuMemcpyDtoH(found, address, size))
    assert found.tolist() == [4, 5, 6]
