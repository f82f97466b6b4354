"""Dots of 8-bit integers, exact: by fours, by pairs of 16-bit products, or one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lamina.targets.cpu.elements import I8, I16, I32
from lamina.targets.cpu.emitter import Emitter
from lamina.targets.cpu.lanes import Lanes
from lamina.targets.cpu.left_operand import LeftOperand
from lamina.targets.cpu.shuffles import gather
from lamina.targets.cpu.values import Tile

Index = npt.NDArray[np.int64]
Signs = tuple[int, int]
"""Whether a and b are unsigned."""

QUAD = 4
"""Products that one lane of an instruction sums."""

_VPDPBUSD: dict[int, str] = {16: "512", 8: "256", 4: "128"}


def sums(
    emitter: Emitter, a: Tile, b: Tile, acc: Tile, places: tuple[Index, Index], unsigned: Signs
) -> list[str]:
    """Return the parts of `acc` plus the products at `places` (a's, b's: part, lane, step)."""
    names = acc.force()
    steps = places[0].shape[2]
    by_fours = emitter.features.vnni or emitter.features.dotprod
    whole = steps - steps % QUAD if acc.width in _MADD else 0
    if not (by_fours or emitter.features.madd):
        whole = 0
    if whole:
        head = (places[0][:, :, :whole], places[1][:, :, :whole])
        quads = _Quads(emitter, a, b, head, unsigned, acc.width)
        names = quads.fours(names) if by_fours else quads.pairs(names)
    if whole < steps:
        rest = (places[0][:, :, whole:], places[1][:, :, whole:])
        names = _plain(emitter, a, b, names, rest, unsigned, acc.width)
    return names


class _Quads:
    """Four steps of the contraction at a time."""

    def __init__(
        self,
        emitter: Emitter,
        a: Tile,
        b: Tile,
        places: tuple[Index, Index],
        unsigned: Signs,
        width: int,
    ) -> None:
        self._emitter = emitter
        self._left = LeftOperand(emitter, a, places[0], QUAD)
        self._b, self._places = b, places[1]
        self._unsigned = unsigned
        self._width = width
        self._steps = places[0].shape[2] // QUAD

    def fours(self, names: list[str]) -> list[str]:
        """Return the sums by `vpdpbusd`, of unsigned by signed, or `udot` and `sdot`.

        Where the operands are not such, b is moved by 128, and what that adds to each sum, 128
        times the sum of a, is summed beside and taken off.
        """
        mixed = self._unsigned[0] != self._unsigned[1]
        if mixed == self._emitter.features.vnni:
            for step in range(self._steps):
                for part, name in enumerate(names):
                    x, y = self._left.lanes(part, step), self._right(part, step)
                    names[part] = self._fused(name, x, y)
            return names
        owners = self._left.owners()
        extra = dict.fromkeys(owners, "zeroinitializer")
        for step in range(self._steps):
            for part, name in enumerate(names):
                x, y = self._left.lanes(part, step), self._right(part, step)
                if part in extra:
                    extra[part] = self._fused(extra[part], x, self._bias)
                names[part] = self._fused(name, x, self._lanes.op("xor", y, self._bias))
        return [
            self._lanes.op("sub", name, extra[owner])
            for name, owner in zip(names, owners, strict=True)
        ]

    def pairs(self, names: list[str]) -> list[str]:
        """Return the sums by products of 16-bit lanes, even and odd bytes apart."""
        for step in range(self._steps):
            for part in range(len(names)):
                x, y = self._left.lanes(part, step), self._right(part, step)
                for odd in (False, True):
                    product = self._multiplied(
                        self._half(x, odd, self._unsigned[0]), self._half(y, odd, self._unsigned[1])
                    )
                    names[part] = self._lanes.op("add", names[part], product)
        return names

    @property
    def _lanes(self) -> Lanes:
        return Lanes(self._emitter.builder, I32, self._width)

    @property
    def _bias(self) -> str:
        return self._lanes.constant(-0x7F7F7F80)

    def _right(self, part: int, step: int) -> str:
        index = self._places[part, :, step * QUAD : (step + 1) * QUAD].reshape(-1)
        name = gather(self._emitter.builder, self._b, index)
        text = f"bitcast {I8.of(self._width * QUAD)} {name} to {self._lanes.type}"
        return self._emitter.builder.pure(text, name)

    def _fused(self, total: str, x: str, y: str) -> str:
        builder, quads = self._emitter.builder, I8.of(self._width * QUAD)
        kind = self._lanes.type
        if self._emitter.features.vnni:
            call = f"@llvm.x86.avx512.vpdpbusd.{_VPDPBUSD[self._width]}"
            x, y = (x, y) if self._unsigned[0] else (y, x)
        else:
            call = f"@llvm.aarch64.neon.{'u' if self._unsigned[0] else 's'}dot.v4i32.v16i8"
        builder.declare(f"{kind} {call}({kind}, {quads}, {quads})")
        a, b = self._bytes(x), self._bytes(y)
        return builder.pure(
            f"call {kind} {call}({kind} {total}, {quads} {a}, {quads} {b})", total, a, b
        )

    def _bytes(self, name: str) -> str:
        if not name.startswith("%"):
            return "splat (i8 -128)"
        text = f"bitcast {self._lanes.type} {name} to {I8.of(self._width * QUAD)}"
        return self._emitter.builder.pure(text, name)

    def _half(self, name: str, odd: bool, unsigned: int) -> str:
        words = Lanes(self._emitter.builder, I16, self._width * 2)
        text = f"bitcast {self._lanes.type} {name} to {words.type}"
        x = self._emitter.builder.pure(text, name)
        eight = words.constant(8)
        if unsigned:
            return words.op("lshr", x, eight) if odd else words.op("and", x, words.constant(255))
        return words.op("ashr", x if odd else words.op("shl", x, eight), eight)

    def _multiplied(self, x: str, y: str) -> str:
        builder, name = self._emitter.builder, f"@{_MADD[self._width]}"
        words = I16.of(self._width * 2)
        builder.declare(f"{self._lanes.type} {name}({words}, {words})")
        return builder.pure(f"call {self._lanes.type} {name}({words} {x}, {words} {y})", x, y)


_MADD: dict[int, str] = {
    16: "llvm.x86.avx512.pmaddw.d.512",
    8: "llvm.x86.avx2.pmadd.wd",
    4: "llvm.x86.sse2.pmadd.wd",
}


def _plain(
    emitter: Emitter,
    a: Tile,
    b: Tile,
    names: list[str],
    places: tuple[Index, Index],
    unsigned: Signs,
    width: int,
) -> list[str]:
    left = LeftOperand(emitter, a, places[0])
    bytes_, lanes = Lanes(emitter.builder, I8, width), Lanes(emitter.builder, I32, width)
    for step in range(places[0].shape[2]):
        for part in range(len(names)):
            y = gather(emitter.builder, b, places[1][part, :, step])
            x, y = (
                bytes_.convert("zext" if sign else "sext", v, I32)
                for v, sign in ((left.lanes(part, step), unsigned[0]), (y, unsigned[1]))
            )
            names[part] = lanes.op("add", names[part], lanes.op("mul", x, y))
    return names
