"""The limits of this machine that other figures are held against: reading memory, and f32 sums.

    python bench/limits.py [--threads 1 2] [--megabytes 512] [--rounds 5]

Reading adds up a block of memory, each thread its part; arithmetic keeps sixteen vectors of
fused multiply-adds going at once. The best of the rounds counts.
"""

import argparse
import ctypes
import threading
from collections.abc import Callable
from time import perf_counter

import numpy as np
from machine import describe

from lamina.targets.cpu.codegen import compile_text
from lamina.targets.cpu.features import CpuFeatures, detect
from lamina.targets.cpu.jit import load_object

CHAINS = 16
STEPS = 1 << 24


def sum_text(lanes: int) -> str:
    """Return `i64 read_sum(i64* data, i64 count)`: the sum, count a multiple of CHAINS * lanes."""
    vector = f"<{lanes} x i64>"
    loads = "\n".join(
        f"  %i{n} = add i64 %i, {n * lanes}\n"
        f"  %p{n} = getelementptr i64, ptr %data, i64 %i{n}\n"
        f"  %x{n} = load {vector}, ptr %p{n}, align 64\n"
        f"  %s{n} = add {vector} %a{n}, %x{n}"
        for n in range(CHAINS)
    )
    return f"""
define i64 @read_sum(ptr %data, i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{_phis(vector, "zeroinitializer")}
{loads}
  %next = add i64 %i, {CHAINS * lanes}
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{_joined(vector, "add")}
  %sum = call i64 @llvm.vector.reduce.add.v{lanes}i64({vector} %t{CHAINS - 1})
  ret i64 %sum
}}
declare i64 @llvm.vector.reduce.add.v{lanes}i64({vector})
"""


def fma_text(lanes: int) -> str:
    """Return `float multiply_add(float x, i64 count)`: CHAINS vectors, `count` steps of each."""
    vector = f"<{lanes} x float>"
    steps = "\n".join(
        f"  %s{n} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{n}, {vector} %v, {vector} %v)"
        for n in range(CHAINS)
    )
    return f"""
define float @multiply_add(float %x, i64 %count) {{
entry:
  %one = insertelement {vector} poison, float %x, i32 0
  %v = shufflevector {vector} %one, {vector} poison, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{_phis(vector, "%v")}
{steps}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{_joined(vector, "fadd")}
  %y = extractelement {vector} %t{CHAINS - 1}, i32 0
  ret float %y
}}
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
"""


def _phis(vector: str, initial: str) -> str:
    return "\n".join(
        f"  %a{n} = phi {vector} [{initial}, %entry], [%s{n}, %loop]" for n in range(CHAINS)
    )


def _joined(vector: str, add: str) -> str:
    lines = [f"  %t1 = {add} {vector} %s0, %s1"]
    lines += [f"  %t{n} = {add} {vector} %t{n - 1}, %s{n}" for n in range(2, CHAINS)]
    return "\n".join(lines)


def best(work: Callable[[int], object], threads: int, rounds: int) -> float:
    """Return the fewest seconds in which `threads` threads did `work(thread)`, all at once."""
    return min(_together(work, threads) for _ in range(rounds))


def _together(work: Callable[[int], object], threads: int) -> float:
    ready = threading.Barrier(threads + 1)

    def run(number: int) -> None:
        ready.wait()
        work(number)

    workers = [threading.Thread(target=run, args=[n]) for n in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    started = perf_counter()
    for worker in workers:
        worker.join()
    return perf_counter() - started


def read_speed(features: CpuFeatures, megabytes: int, threads: int, rounds: int) -> float:
    """Return the bytes a second that `threads` threads read together."""
    lanes = features.lanes(64)
    code = load_object(compile_text(sum_text(lanes), features), ["read_sum"])
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    read_sum = kind(code.addresses["read_sum"])
    grain = CHAINS * lanes
    count = (megabytes << 20) // 8 // threads // grain * grain
    block = np.ones(threads * count + 8, np.int64)
    start = block.ctypes.data + -block.ctypes.data % 64
    seconds = best(lambda n: read_sum(start + n * count * 8, count), threads, rounds)
    if read_sum(start, count) != count:
        raise SystemExit("the sum of what was read is wrong")
    return threads * count * 8 / seconds


def arithmetic_speed(features: CpuFeatures, threads: int, rounds: int) -> float:
    """Return the f32 operations a second, an addition and a multiplication each counted."""
    lanes = features.lanes(32)
    code = load_object(compile_text(fma_text(lanes), features), ["multiply_add"])
    kind = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_int64)
    multiply_add = kind(code.addresses["multiply_add"])
    seconds = best(lambda n: multiply_add(0.5, STEPS), threads, rounds)
    return threads * STEPS * CHAINS * lanes * 2 / seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    features = detect()
    print(f"on {describe()}")
    for threads in options.threads:
        speed = read_speed(features, options.megabytes, threads, options.rounds)
        print(f"reading, {threads} threads: {speed / 1e9:.1f} GB/s")
        if features.fma:
            speed = arithmetic_speed(features, threads, options.rounds)
            print(f"f32 multiply-adds, {threads} threads: {speed / 1e9:.0f} GFLOP/s")


if __name__ == "__main__":
    main()
