"""16-bit floats, held as bits, to and from f32, with or without instructions for it."""

from __future__ import annotations

from lamina.targets.cpu.elements import BF16, F16, F32, F64, I32, Element
from lamina.targets.cpu.lanes import Lanes

_SIGN, _INFINITY, _QUIET = 0x8000, 0x7C00, 0x7E00


def widen_half(lanes: Lanes, x: str, *, native: bool) -> str:
    """Return the f32 of 16-bit floats; `native` says that f16 has an instruction. Exact."""
    ints = lanes.to(I32)
    if lanes.kind is BF16:
        wide = lanes.convert("zext", x, I32)
        return ints.convert("bitcast", ints.op("shl", wide, ints.constant(16)), F32)
    if native:
        return _through_half(lanes, x)
    wide = lanes.convert("zext", x, I32)
    sign = ints.op("shl", ints.op("and", wide, ints.constant(_SIGN)), ints.constant(16))
    magnitude = ints.op("and", wide, ints.constant(_SIGN - 1))
    moved = ints.convert("bitcast", ints.op("shl", magnitude, ints.constant(13)), F32)
    floats = lanes.to(F32)
    scaled = floats.op("fmul", moved, floats.constant(2.0**112))
    bits = floats.convert("bitcast", scaled, I32)
    special = ints.compare("uge", magnitude, ints.constant(_INFINITY))
    bits = ints.select(special, ints.op("or", bits, ints.constant(0x7F800000)), bits)
    return ints.convert("bitcast", ints.op("or", bits, sign), F32)


def narrow_half(lanes: Lanes, x: str, *, native: bool) -> str:
    """Return the 16-bit floats (of the kind of `lanes`) nearest to f32 `x`, ties to even."""
    if lanes.kind is BF16:
        return _narrow_bfloat(lanes, x)
    if native:
        return _to_half(lanes, x)
    floats, ints = lanes.to(F32), lanes.to(I32)
    bits = floats.convert("bitcast", x, I32)
    magnitude = ints.op("and", bits, ints.constant(0x7FFFFFFF))
    odd = ints.op("and", ints.op("lshr", magnitude, ints.constant(13)), ints.constant(1))
    rebias = ((15 - 127) << 23) + 0xFFF
    rounded = ints.op("add", ints.op("add", magnitude, ints.constant(rebias)), odd)
    normal = ints.op("lshr", rounded, ints.constant(13))
    aligned = floats.op("fadd", ints.convert("bitcast", magnitude, F32), floats.constant(0.5))
    tiny = ints.op("sub", floats.convert("bitcast", aligned, I32), ints.constant(0x3F000000))
    small = ints.compare("ult", magnitude, ints.constant(0x38800000))
    large = ints.compare("uge", magnitude, ints.constant(0x47800000))
    nan = ints.compare("ugt", magnitude, ints.constant(0x7F800000))
    result = ints.select(small, tiny, normal)
    beyond = ints.select(nan, ints.constant(_QUIET), ints.constant(_INFINITY))
    result = ints.select(large, beyond, result)
    sign = ints.op("and", ints.op("lshr", bits, ints.constant(16)), ints.constant(_SIGN))
    return ints.convert("trunc", ints.op("or", result, sign), F16)


def round_to_odd(lanes: Lanes, x: str) -> str:
    """Return f64 `x` as f32, inexact results given an odd last bit, so that rounding again is safe.

    Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008.
    """
    doubles, floats, ints = lanes.to(F64), lanes.to(F32), lanes.to(I32)
    near = doubles.convert("fptrunc", x, F32)
    back = floats.convert("fpext", near, F64)
    over = doubles.compare("ogt", doubles.call("fabs", back), doubles.call("fabs", x))
    inexact = doubles.compare("one", back, x)
    bits = floats.convert("bitcast", near, I32)
    bits = ints.select(over, ints.op("sub", bits, ints.constant(1)), bits)
    bits = ints.select(inexact, ints.op("or", bits, ints.constant(1)), bits)
    return ints.convert("bitcast", bits, F32)


def _narrow_bfloat(lanes: Lanes, x: str) -> str:
    floats, ints = lanes.to(F32), lanes.to(I32)
    bits = floats.convert("bitcast", x, I32)
    top = ints.op("lshr", bits, ints.constant(16))
    bias = ints.op("add", ints.op("and", top, ints.constant(1)), ints.constant(0x7FFF))
    rounded = ints.op("lshr", ints.op("add", bits, bias), ints.constant(16))
    quiet = ints.op("or", top, ints.constant(0x40))
    nan = floats.compare("uno", x, x)
    return ints.convert("trunc", ints.select(nan, quiet, rounded), BF16)


def _through_half(lanes: Lanes, x: str) -> str:
    half = _HALF.of(lanes.width)
    bits = lanes.builder.pure(f"bitcast {lanes.type} {x} to {half}", x)
    return lanes.builder.pure(f"fpext {half} {bits} to {F32.of(lanes.width)}", bits)


def _to_half(lanes: Lanes, x: str) -> str:
    half = _HALF.of(lanes.width)
    rounded = lanes.builder.pure(f"fptrunc {F32.of(lanes.width)} {x} to {half}", x)
    return lanes.builder.pure(f"bitcast {half} {rounded} to {lanes.type}", rounded)


_HALF = Element("half", "half", 16)
