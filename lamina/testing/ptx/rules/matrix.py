"""Matrices spread over the registers of a warp (PTX ISA 9.7.14)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx import fragments
from lamina.testing.ptx.access import gather, scatter, space_of
from lamina.testing.ptx.clocks import WARP
from lamina.testing.ptx.decoder import Decoder, Read, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.rounding import canonical
from lamina.testing.ptx.rules.rule import Rule
from lamina.testing.ptx.scalars import RAW, SCALARS, Scalar
from lamina.testing.ptx.schedule import whole_warps
from lamina.testing.ptx.syntax import Instruction, Operand, Vector
from lamina.testing.ptx.threads import Threads

B32 = SCALARS["b32"]

_SHAPES = {
    "f16": ("m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4",),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "e4m3": ("m16n8k16", "m16n8k32"),
    "e5m2": ("m16n8k16", "m16n8k32"),
}


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _over_warps(t: Threads, warps: Array, rows: Array) -> Array:
    """Return values (warps, 32) as an array over all threads."""
    if len(warps) * WARP == t.count:
        return rows.reshape(-1)
    found = np.zeros((t.count // WARP, WARP), rows.dtype)
    found[warps] = rows
    return found.reshape(-1)


def _by_warp(t: Threads, warps: Array, reads: list[Read], dtype: np.dtype[Any]) -> Array:
    """Return registers of whole warps as (warps, elements of all lanes)."""
    stacked = np.stack([np.broadcast_to(read(t), t.count) for read in reads], axis=1)
    return stacked.reshape(t.count // WARP, -1)[warps].view(dtype)


def _load(decoder: Decoder, op: Instruction) -> Step:
    count, transposed = _matrices(decoder, op)
    writes = [decoder.write(op, item, B32) for item in _items(op.operands[0])]
    address = decoder.address(op, op.operands[1])
    space = space_of(op.modifiers)

    def step(t: Threads, lanes: Lanes) -> None:
        warps = whole_warps(t, lanes)
        who = (warps[:, None] * WARP + np.arange(8 * count)).ravel()
        where = np.broadcast_to(address(t), t.count)[who]
        rows = gather(t, space, who, where, 4, 4).reshape(len(warps), count, 8, 4)
        if transposed:
            halves = rows.view(np.uint16).reshape(len(warps), count, 8, 8)
            rows = np.ascontiguousarray(halves.transpose(0, 1, 3, 2)).view(np.uint32)
        for matrix, write in enumerate(writes):
            words = np.ascontiguousarray(rows[:, matrix]).reshape(-1, WARP)
            write(t, lanes, _over_warps(t, warps, words))

    return step


def _store(decoder: Decoder, op: Instruction) -> Step:
    count, transposed = _matrices(decoder, op)
    address = decoder.address(op, op.operands[0])
    reads = [decoder.read(op, item, B32) for item in _items(op.operands[1])]
    space = space_of(op.modifiers)

    def step(t: Threads, lanes: Lanes) -> None:
        warps = whole_warps(t, lanes)
        words = _by_warp(t, warps, reads, B32.dtype).reshape(len(warps), 8, 4, count)
        rows = np.ascontiguousarray(words.transpose(0, 3, 1, 2))
        if transposed:
            halves = rows.view(np.uint16).transpose(0, 1, 3, 2)
            rows = np.ascontiguousarray(halves).view(np.uint32)
        who = (warps[:, None] * WARP + np.arange(8 * count)).ravel()
        where = np.broadcast_to(address(t), t.count)[who]
        scatter(t, space, who, where, rows.reshape(-1, 4))

    return step


def _matrices(decoder: Decoder, op: Instruction) -> tuple[int, bool]:
    count = next((int(word[1]) for word in op.modifiers if word in ("x1", "x2", "x4")), 0)
    if not count or "m8n8" not in op.modifiers or op.modifiers[-1] != "b16":
        raise decoder.unknown(op)
    return count, "trans" in op.modifiers


def _multiply(decoder: Decoder, op: Instruction) -> Step:
    """`mma.sync`: D = A · B + C, every element rounded once."""
    shape = next((word for word in op.modifiers if re.fullmatch(r"m\d+n\d+k\d+", word)), "")
    kind_d, kind_a, kind_b, kind_c = (decoder.scalar(op, at) for at in (-4, -3, -2, -1))
    if shape not in _SHAPES.get(kind_a.name, ()) or "row" not in op.modifiers:
        raise decoder.unknown(op)
    if kind_d.name not in ("f32", "s32", "f16", "f64") or {"and", "xor", "popc"} & {*op.modifiers}:
        raise decoder.unknown(op)
    m, n, k = map(int, re.findall(r"\d+", shape))
    left = _operand(decoder, op, 1, kind_a, fragments.left(m, k, _per(kind_a)), (m, k))
    right = _operand(decoder, op, 2, kind_b, fragments.right(k, n, _per(kind_b)), (k, n))
    elements, places = fragments.result(m, n)
    added = _operand(decoder, op, 3, kind_c, (elements // _per(kind_c), places), (m, n))
    order = np.argsort(places)
    finish = _finish(op, kind_d)
    written = SCALARS[f"b{max(kind_d.bits, 32)}"]
    writes = [decoder.write(op, item, written) for item in _items(op.operands[0])]

    def step(t: Threads, lanes: Lanes) -> None:
        warps = whole_warps(t, lanes)
        y = finish(left(t, warps) @ right(t, warps) + added(t, warps))
        held = np.ascontiguousarray(y.reshape(len(warps), -1)[:, order])
        words = held.view(written.dtype).reshape(len(warps), WARP, -1)
        for place, write in enumerate(writes):
            write(t, lanes, _over_warps(t, warps, np.ascontiguousarray(words[:, :, place])))

    return step


def _per(scalar: Scalar) -> int:
    return max(32 // scalar.bits, 1)


def _operand(
    decoder: Decoder,
    op: Instruction,
    at: int,
    kind: Scalar,
    fragment: tuple[int, Array],
    shape: tuple[int, int],
) -> Callable[[Threads, Array], Array]:
    """Return a function that gives an operand's matrices (warps, …) in float64."""
    registers, places = fragment
    items = _items(op.operands[at])
    if len(items) != registers:
        raise ValueError
    word = SCALARS[f"b{max(kind.bits, 32)}"]
    reads = [decoder.read(op, item, word) for item in items]

    def matrices(t: Threads, warps: Array) -> Array:
        held = _by_warp(t, warps, reads, word.dtype)
        if kind.name == "tf32":
            held = held & np.uint32(0xFFFFE000)
        elements = held.view(kind.dtype)[:, places].astype(np.float64)
        return elements.reshape(len(warps), *shape)

    return matrices


def _finish(op: Instruction, kind: Scalar) -> Callable[[Array], Array]:
    if kind.is_float:
        return lambda y: canonical(numerics.narrow(y, kind.dtype))
    info = np.iinfo(kind.dtype)
    if "satfinite" in op.modifiers:
        return lambda y: np.clip(y, info.min, info.max).astype(kind.dtype)
    return lambda y: y.astype(np.int64).astype(kind.dtype)


def _transpose(decoder: Decoder, op: Instruction) -> Step:
    """`movmatrix`: the transpose of an 8 by 8 matrix of 16-bit elements."""
    write = decoder.write(op, op.operands[0], B32)
    read = decoder.read(op, op.operands[1], B32)

    def step(t: Threads, lanes: Lanes) -> None:
        warps = whole_warps(t, lanes)
        halves = _by_warp(t, warps, [read], RAW[16]).reshape(-1, 8, 8)
        words = np.ascontiguousarray(halves.transpose(0, 2, 1)).view(np.uint32)
        write(t, lanes, _over_warps(t, warps, words.reshape(-1, WARP)))

    return step


RULES: dict[str, Rule] = {
    "ldmatrix": _load,
    "stmatrix": _store,
    "mma": _multiply,
    "movmatrix": _transpose,
}
"""Rules for matrices."""
