"""The loops that find a machine's limits, as LLVM IR for the features of a CPU."""

from collections.abc import Sequence
from typing import Final

from lamina.targets.cpu.features import CpuFeatures

CHAINS: Final = 16
"""Accumulators that a loop keeps going at once: more than any CPU's latency times its ports."""

OPERANDS: Final = 4
"""Registers of a loop of arithmetic that accumulators leave to what they are made of."""

LINE: Final = 64
"""Bytes that one prefetch brings."""


def read_text(features: CpuFeatures, distance: int) -> str:
    """Return `i64 probe(i64* data, i64 count)`: the sum of the data.

    `count` is a multiple of `grain(features)`. `distance` is how many bytes ahead the loop
    prefetches; 0: not at all.
    """
    lanes = features.lanes(64)
    vector = f"<{lanes} x i64>"
    body = [_element("i64", "data", n * lanes, n) for n in range(CHAINS)]
    body += [
        f"  %x{n} = load {vector}, ptr %data{n}, align 64\n  %s{n} = add {vector} %a{n}, %x{n}"
        for n in range(CHAINS)
    ]
    if distance:
        for n in range(CHAINS * features.vector_bytes // LINE):
            body.append(_element("i64", "data", (distance + n * LINE) // 8, CHAINS + n))
            body.append(
                f"  call void @llvm.prefetch.p0(ptr %data{CHAINS + n}, i32 0, i32 3, i32 1)"
            )
    sums = f"@llvm.vector.reduce.add.v{lanes}i64"
    end = f"  %sum = call i64 {sums}({vector} %t{CHAINS - 1})\n  ret i64 %sum"
    return _function(
        "i64 @probe(ptr %data, i64 %count)",
        _loop([(vector, "zeroinitializer")] * CHAINS, body, CHAINS * lanes, "add", end),
        [f"i64 {sums}({vector})", "void @llvm.prefetch.p0(ptr, i32, i32, i32)"],
    )


def copy_text(features: CpuFeatures, *, streaming: bool) -> str:
    """Return `i64 probe(i64* data, i64 count, i64* to)`: copies; `streaming` past the caches."""
    lanes = features.lanes(64)
    vector = f"<{lanes} x i64>"
    hint = ", !nontemporal !0" if streaming else ""
    body: list[str] = []
    for n in range(CHAINS):
        body.append(_element("i64", "data", n * lanes, n))
        body.append(_element("i64", "to", n * lanes, n))
        body.append(f"  %x{n} = load {vector}, ptr %data{n}, align 64")
        body.append(f"  store {vector} %x{n}, ptr %to{n}, align 64{hint}")
    text = _function(
        "i64 @probe(ptr %data, i64 %count, ptr %to)",
        _loop([], body, CHAINS * lanes, "", "  ret i64 0"),
        [],
    )
    return f"{text}\n!0 = !{{i32 1}}\n"


def float_text(features: CpuFeatures) -> str:
    """Return `float probe(float x, i64 count)`: `count` multiply-adds of each of `chains`."""
    lanes, count = features.lanes(32), chains(features)
    vector, fma = f"<{lanes} x float>", f"@llvm.fma.v{lanes}f32"
    body = [
        f"  %s{n} = call {vector} {fma}({vector} %a{n}, {vector} %v, {vector} %v)"
        for n in range(count)
    ]
    starts = [(vector, f"splat (float {n}.0)") for n in range(count)]
    return _function(
        "float @probe(float %x, i64 %count)",
        _splat("float", lanes) + _loop(starts, body, 1, "fadd", _first(vector, "float", count)),
        [f"{vector} {fma}({vector}, {vector}, {vector})"],
    )


def integer_text(features: CpuFeatures) -> str:
    """Return `i32 probe(i32 x, i64 count)`: `count` dots of 8-bit (or 16-bit) lanes a chain."""
    lanes, count = features.lanes(32), chains(features)
    vector = f"<{lanes} x i32>"
    parts = integer_step(features)
    narrow = f"<{lanes * parts} x i{32 // parts}>"
    head = _splat("i32", lanes) + f"\n  %w = bitcast {vector} %v to {narrow}"
    if features.vnni or features.dotprod:
        call = f"@llvm.x86.avx512.vpdpbusd.{features.vector_bytes * 8}"
        if features.dotprod:
            call = f"@llvm.aarch64.neon.sdot.v{lanes}i32.v{lanes * parts}i8"
        declared = f"{vector} {call}({vector}, {narrow}, {narrow})"
        body = [
            f"  %s{n} = call {vector} {call}({vector} %a{n}, {narrow} %w, {narrow} %w)"
            for n in range(count)
        ]
    else:
        call = f"@{features.madd}"
        declared = f"{vector} {call}({narrow}, {narrow})"
        body = [
            f"  %n{n} = bitcast {vector} %a{n} to {narrow}\n"
            f"  %p{n} = call {vector} {call}({narrow} %n{n}, {narrow} %w)\n"
            f"  %s{n} = add {vector} %a{n}, %p{n}"
            for n in range(count)
        ]
    starts = [(vector, f"splat (i32 {n})") for n in range(count)]
    loop = _loop(starts, body, 1, "add", _first(vector, "i32", count))
    return _function("i32 @probe(i32 %x, i64 %count)", head + loop, [declared])


def integer_step(features: CpuFeatures) -> int:
    """Return the multiply-adds that a 32-bit lane does in a step of `integer_text`; 0: no way."""
    if features.vnni or features.dotprod:
        return 4
    return 2 if features.madd else 0


def chains(features: CpuFeatures) -> int:
    """Return how many chains the loops of arithmetic have: none of them goes through memory."""
    return min(CHAINS, features.registers - OPERANDS)


def grain(features: CpuFeatures) -> int:
    """Return the 64-bit elements that a step of reading or copying takes."""
    return CHAINS * features.lanes(64)


def _element(kind: str, base: str, offset: int, name: int) -> str:
    return (
        f"  %{base}.i{name} = add i64 %i, {offset}\n"
        f"  %{base}{name} = getelementptr {kind}, ptr %{base}, i64 %{base}.i{name}"
    )


def _splat(kind: str, lanes: int) -> str:
    vector = f"<{lanes} x {kind}>"
    return (
        f"  %one = insertelement {vector} poison, {kind} %x, i32 0\n"
        f"  %v = shufflevector {vector} %one, {vector} poison, <{lanes} x i32> zeroinitializer"
    )


def _first(vector: str, kind: str, count: int) -> str:
    return f"  %y = extractelement {vector} %t{count - 1}, i32 0\n  ret {kind} %y"


def _loop(
    starts: Sequence[tuple[str, str]], body: Sequence[str], step: int, join: str, end: str
) -> str:
    """Return a loop to `%count` of accumulators %a to %s, which `join` makes one, and `end`."""
    phis = [
        f"  %a{n} = phi {kind} [{start}, %entry], [%s{n}, %loop]"
        for n, (kind, start) in enumerate(starts)
    ]
    joins = [
        f"  %t{n} = {join} {kind} %{'t' if n > 1 else 's'}{n - 1}, %s{n}"
        for n, (kind, _) in enumerate(starts)
        if n
    ]
    lines = [
        "\n  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *phis,
        *body,
        f"  %next = add i64 %i, {step}",
        "  %more = icmp ult i64 %next, %count",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *joins,
        end,
    ]
    return "\n".join(lines)


def _function(head: str, body: str, declared: Sequence[str]) -> str:
    declarations = "".join(f"declare {each}\n" for each in declared)
    return f"define {head} {{\nentry:\n{body}\n}}\n{declarations}"
