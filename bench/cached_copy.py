"""What copying reaches where both ends stay in the caches."""

import ctypes

from lamina.measure.limits import together
from lamina.measure.probes import copy_text, grain
from lamina.targets.cpu.codegen import compile_text
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.jit import load_object
from lamina.targets.memory import allocate

SECONDS = 0.02
REPEAT = """
define i64 @repeat(ptr %data, i64 %count, ptr %to, i64 %times) {
entry:
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  call i64 @probe(ptr %data, i64 %count, ptr %to)
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}
"""


def cached_copy(size: int, threads: int, rounds: int) -> float:
    """Return the bytes a second, read and written, of copying `size` bytes again and again.

    Each thread copies its part; the best of the rounds counts.
    """
    features = detect()
    text = copy_text(features, streaming=False) + REPEAT
    code = load_object(compile_text(text, features), ["repeat"])
    word, place = ctypes.c_int64, ctypes.c_void_p
    repeat = ctypes.CFUNCTYPE(word, place, word, place, word)(code.addresses["repeat"])
    step = 8 * grain(features)
    part = -(-size // threads // step) * step
    block = allocate(2 * threads * part)
    data = block.ctypes.data
    times = 1

    def work(number: int) -> None:
        start = data + 2 * number * part
        repeat(start, part // 8, start + part, times)

    while together(work, threads) < SECONDS:
        times *= 2
    seconds = min(together(work, threads) for _ in range(rounds)) / times
    del block
    return 2 * threads * part / seconds
