import ctypes
from collections.abc import Callable
from time import process_time

import numpy as np
import pytest

from lamina.measure.limits import Limits, measure_limits
from lamina.measure.probes import copy_text, float_text, grain, integer_text, read_text
from lamina.progress import listening
from lamina.targets.cpu.codegen import assembly, compile_text
from lamina.targets.cpu.features import CpuFeatures, detect, emittable, levels
from lamina.targets.cpu.jit import load_object
from lamina.targets.cpu.threads import default_threads
from lamina.targets.memory import allocate


@pytest.mark.parametrize("level", levels())
def test_every_level_of_this_machine_has_limits(level: str) -> None:
    features = detect(level)
    limits = measure_limits(2, megabytes=1, rounds=1, features=features)
    assert limits.threads == 2
    assert min(limits.read, limits.copy) > 0
    assert (limits.float_ops > 0) == features.fma
    assert (limits.integer_ops > 0) == bool(features.vnni or features.madd)


def test_little_memory_is_enough_for_many_threads() -> None:
    limits = measure_limits(40, megabytes=0, rounds=1)
    assert min(limits.read, limits.copy) > 0


def test_threads_that_take_turns_share_the_work() -> None:
    few, many = (_busy(count * default_threads()) for count in (1, 16))
    assert many < 5 * few


def _busy(threads: int) -> float:
    began = process_time()
    measure_limits(threads, megabytes=1, rounds=1)
    return process_time() - began


def test_machines_with_dots_of_bytes_are_measured_by_them() -> None:
    features = emittable("neondot")
    assert "sdot" in assembly(integer_text(features), features)
    assert "ldp\tq" in assembly(read_text(features, 512), features)


@pytest.mark.parametrize("level", [level for level in levels() if detect(level).fma])
@pytest.mark.parametrize("probe", [float_text, integer_text])
def test_sums_of_the_probes_of_arithmetic_stay_in_registers(
    level: str, probe: Callable[[CpuFeatures], str]
) -> None:
    features = detect(level)
    loop = assembly(probe(features), features).split("LBB0_1:")[1].split("\tj")[0]
    assert "rsp" not in loop


@pytest.mark.parametrize("streaming", [False, True])
def test_the_probe_of_copying_copies(streaming: bool) -> None:
    features = detect()
    code = load_object(compile_text(copy_text(features, streaming=streaming), features), ["probe"])
    count = 3 * grain(features)
    source, target = (allocate(8 * count).view(np.int64) for _ in range(2))
    source[:] = np.arange(count)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    copy = ctypes.CFUNCTYPE(number, pointer, number, pointer)(code.addresses["probe"])
    copy(source.ctypes.data, count, target.ctypes.data)
    assert np.array_equal(source, target)


def test_measuring_says_how_far_it_has_come() -> None:
    heard: list[tuple[int, int]] = []
    with listening(lambda work, done, total: heard.append((done, total))):
        measure_limits(1, megabytes=1, rounds=1)
    assert heard[-1] == (len(heard), len(heard))


def test_limits_leave_out_what_the_machine_has_no_instruction_for() -> None:
    limits = Limits(threads=1, read=2e9, copy=3e9, float_ops=0.0, integer_ops=4e9)
    assert str(limits) == "reading 2.0 GB/s, copying 3.0 GB/s, 8-bit 4 GOP/s with 1 thread"
