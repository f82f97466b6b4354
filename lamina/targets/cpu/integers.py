"""Scalar i64 arithmetic in LLVM text, folded where the operands are literals."""

from __future__ import annotations

from lamina.targets.cpu.builder import Builder

_MASK = (1 << 64) - 1


def constant(text: str) -> int | None:
    """Return the value of a literal, None for a name."""
    return None if text.startswith("%") else int(text)


def wrap(value: int) -> int:
    """Return `value` as a two's complement i64."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def add(builder: Builder, a: str, b: str) -> str:
    """Return a + b."""
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return str(wrap(x + y))
    if x == 0:
        return b
    if y == 0:
        return a
    return builder.pure(f"add i64 {a}, {b}", a, b)


def subtract(builder: Builder, a: str, b: str) -> str:
    """Return a - b."""
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return str(wrap(x - y))
    return a if y == 0 else builder.pure(f"sub i64 {a}, {b}", a, b)


def multiply(builder: Builder, a: str, b: str) -> str:
    """Return a * b."""
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return str(wrap(x * y))
    if 0 in (x, y):
        return "0"
    if x == 1:
        return b
    return a if y == 1 else builder.pure(f"mul i64 {a}, {b}", a, b)


def smallest(builder: Builder, a: str, b: str) -> str:
    """Return the signed minimum."""
    return _extreme(builder, "smin", a, b)


def largest(builder: Builder, a: str, b: str) -> str:
    """Return the signed maximum."""
    return _extreme(builder, "smax", a, b)


def offset(builder: Builder, pointer: str, index: str, scale: int) -> str:
    """Return `pointer` plus `index` times `scale` bytes."""
    steps = constant(index)
    if steps is not None:
        return displace(builder, pointer, steps * scale)
    unit = "i8" if scale == 1 else f"[{scale} x i8]"
    return builder.pure(f"getelementptr {unit}, ptr {pointer}, i64 {index}", pointer, index)


def displace(builder: Builder, pointer: str, count: int) -> str:
    """Return `pointer` plus `count` bytes."""
    if count == 0:
        return pointer
    return builder.pure(f"getelementptr i8, ptr {pointer}, i64 {count}", pointer)


def _extreme(builder: Builder, kind: str, a: str, b: str) -> str:
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return str(min(x, y) if kind == "smin" else max(x, y))
    if a == b:
        return a
    builder.declare(f"i64 @llvm.{kind}.i64(i64, i64)")
    return builder.pure(f"call i64 @llvm.{kind}.i64(i64 {a}, i64 {b})", a, b)
