"""Logic, shifts and the fields of words (PTX ISA 9.7.1 and 9.7.8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.numerics import choose
from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.rules.rule import Compute, Rule, pointwise
from lamina.testing.ptx.scalars import SCALARS
from lamina.testing.ptx.syntax import Instruction

U8, U32 = SCALARS["u8"], SCALARS["u32"]


def _logic(compute: Compute) -> Rule:
    def rule(decoder: Decoder, op: Instruction) -> Step:
        scalar = decoder.scalar(op)
        return pointwise(decoder, op, compute, scalar, [scalar] * (len(op.operands) - 1))

    return rule


def _not_logical(a: Any) -> Any:
    return (a == 0).astype(a.dtype)


def shifted_left(a: Any, by: Any) -> Any:
    """Shift left; by the width or more gives 0."""
    width = a.dtype.itemsize * 8
    return choose(by < width, a << np.minimum(by, width - 1).astype(a.dtype), a.dtype.type(0))


def shifted_right(a: Any, by: Any) -> Any:
    """Shift right; by the width or more gives 0, or the sign."""
    width = a.dtype.itemsize * 8
    y = a >> np.minimum(by, width - 1).astype(a.dtype)
    return y if a.dtype.kind == "i" else choose(by < width, y, a.dtype.type(0))


def _shift(compute: Compute) -> Rule:
    def rule(decoder: Decoder, op: Instruction) -> Step:
        scalar = decoder.scalar(op)
        return pointwise(decoder, op, compute, scalar, [scalar, U32])

    return rule


def _funnel(decoder: Decoder, op: Instruction) -> Step:
    """`shf`: shift the 64 bits of b:a and keep the upper (left) or lower (right) half."""
    left, wraps = op.modifiers[0] == "l", "wrap" in op.modifiers

    def compute(a: Any, b: Any, c: Any) -> Any:
        by = (c & np.uint32(31) if wraps else np.minimum(c, 32)).astype(np.uint64)
        pair = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        y = (pair << by) >> np.uint64(32) if left else pair >> by
        return y.astype(np.uint32)

    return pointwise(decoder, op, compute, U32, [U32] * 3)


def _extract(decoder: Decoder, op: Instruction) -> Step:
    """`bfe`: the field of c bits of a, from bit b on."""
    scalar = decoder.scalar(op)

    def compute(a: Any, b: Any, c: Any) -> Any:
        start, length = (b & np.uint32(255)).astype(np.int64), (c & np.uint32(255)).astype(np.int64)
        if scalar.signed:
            top = np.clip(np.minimum(start + length - 1, scalar.bits - 1), 0, 63)
            sign = (a >> top.astype(a.dtype)) & a.dtype.type(1)
            field = shifted_right(a, start)
            kept = shifted_left(a.dtype.type(1), length) - a.dtype.type(1)
            filled = choose(sign != 0, field | ~kept, field & kept)
            long = length >= scalar.bits
            return choose(length == 0, 0, choose(long, field, filled)).astype(a.dtype)
        field = shifted_right(a, start)
        kept = choose(
            length >= scalar.bits, ~a.dtype.type(0), shifted_left(a.dtype.type(1), length) - 1
        )
        return field & kept.astype(a.dtype)

    return pointwise(decoder, op, compute, scalar, [scalar, U32, U32])


def _insert(decoder: Decoder, op: Instruction) -> Step:
    """`bfi`: b with its field of d bits from bit c on replaced by a."""
    scalar = decoder.scalar(op)
    one = scalar.dtype.type(1)

    def compute(a: Any, b: Any, c: Any, d: Any) -> Any:
        start, length = c & np.uint32(255), d & np.uint32(255)
        ones = choose(length >= scalar.bits, ~scalar.dtype.type(0), shifted_left(one, length) - 1)
        mask = shifted_left(ones.astype(scalar.dtype), start)
        return (b & ~mask) | (shifted_left(a, start) & mask)

    return pointwise(decoder, op, compute, scalar, [scalar, scalar, U32, U32])


def _reverse(decoder: Decoder, op: Instruction) -> Step:
    scalar = decoder.scalar(op)

    def compute(a: Any) -> Any:
        octets = np.ascontiguousarray(a).reshape(-1, 1).view(np.uint8)
        bits = np.unpackbits(octets, axis=1)
        swapped = np.packbits(bits, axis=1, bitorder="little")[:, ::-1]
        return np.ascontiguousarray(swapped).view(scalar.dtype).ravel()

    return pointwise(decoder, op, compute, scalar, [scalar])


def _highest(a: Array) -> Array:
    """Return the number of the highest bit that is set, -1 for none."""
    y: Array = np.full(np.shape(a), -1, np.int64)
    wide = np.asarray(a).astype(np.uint64)
    for shift in (32, 16, 8, 4, 2, 1):
        big = wide >> np.uint64(shift) != 0
        y = y + choose(big, shift, 0)
        wide = choose(big, wide >> np.uint64(shift), wide)
    return y + (wide != 0)


def _count(kind: str) -> Rule:
    def rule(decoder: Decoder, op: Instruction) -> Step:
        scalar = decoder.scalar(op)

        def compute(a: Any) -> Any:
            if kind == "popc":
                return np.bitwise_count(a).astype(np.uint32)
            return (scalar.bits - 1 - _highest(a)).astype(np.uint32)

        return pointwise(decoder, op, compute, U32, [scalar])

    return rule


def _find(decoder: Decoder, op: Instruction) -> Step:
    """`bfind`: the highest bit that differs from the sign; none is 0xffffffff."""
    scalar = decoder.scalar(op)
    distance = "shiftamt" in op.modifiers

    def compute(a: Any) -> Any:
        if scalar.signed:
            a = choose(a < 0, ~a, a).view(scalar.raw)
        bit = _highest(a)
        return choose(bit < 0, -1, scalar.bits - 1 - bit if distance else bit).astype(np.uint32)

    return pointwise(decoder, op, compute, U32, [scalar])


def _permute(decoder: Decoder, op: Instruction) -> Step:
    """`prmt.b32`: each byte of the result is one of the eight of b:a."""
    if op.modifiers != ("b32",):
        raise decoder.unknown(op)

    def compute(a: Any, b: Any, c: Any) -> Any:
        pair = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        y = np.uint64(0)
        for place in range(4):
            choice = (c >> np.uint32(4 * place)).astype(np.uint64)
            octet = pair >> (choice & np.uint64(7)) * np.uint64(8) & np.uint64(255)
            signs = choose(octet & np.uint64(128), np.uint64(255), np.uint64(0))
            octet = choose(choice & np.uint64(8), signs, octet)
            y = y | octet << np.uint64(8 * place)
        return y.astype(np.uint32)

    return pointwise(decoder, op, compute, U32, [U32] * 3)


def _look_up(decoder: Decoder, op: Instruction) -> Step:
    """`lop3.b32`: any function of three bits, given as its table."""
    if len(op.operands) != 5 or op.modifiers != ("b32",):
        raise decoder.unknown(op)

    def compute(a: Any, b: Any, c: Any, table: Any) -> Any:
        y = np.uint32(0)
        for term in range(8):
            if int(table) >> term & 1:
                y = y | (
                    (a if term & 4 else ~a) & (b if term & 2 else ~b) & (c if term & 1 else ~c)
                )
        return y

    return pointwise(decoder, op, compute, U32, [U32, U32, U32, U8])


def _mask(decoder: Decoder, op: Instruction) -> Step:
    """`bmsk`: b ones from bit a on."""
    if "clamp" not in op.modifiers:
        raise decoder.unknown(op)
    one = np.uint32(1)

    def compute(a: Any, b: Any) -> Any:
        ones = choose(b >= 32, ~np.uint32(0), shifted_left(one, b) - one)
        return shifted_left(ones.astype(np.uint32), a)

    return pointwise(decoder, op, compute, U32, [U32, U32])


RULES: dict[str, Rule] = {
    "and": _logic(np.bitwise_and),
    "or": _logic(np.bitwise_or),
    "xor": _logic(np.bitwise_xor),
    "not": _logic(np.invert),
    "cnot": _logic(_not_logical),
    "shl": _shift(shifted_left),
    "shr": _shift(shifted_right),
    "shf": _funnel,
    "bfe": _extract,
    "bfi": _insert,
    "brev": _reverse,
    "popc": _count("popc"),
    "clz": _count("clz"),
    "bfind": _find,
    "prmt": _permute,
    "lop3": _look_up,
    "bmsk": _mask,
}
"""Rules for instructions on bits."""
