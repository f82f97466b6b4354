"""`tile.cast`: saturating, NaN to 0, ties to even; integers wrap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xdsl.ir import Operation

from lamina.dialects import tile
from lamina.targets.cpu.elements import F32, F64, I1, I32, Element, element
from lamina.targets.cpu.emitter import Emitter, Rule
from lamina.targets.cpu.features import CpuFeatures
from lamina.targets.cpu.halves import narrow_half, round_to_odd, widen_half
from lamina.targets.cpu.lanes import Lanes
from lamina.targets.cpu.ranges import Range
from lamina.targets.cpu.rules_math import round_even
from lamina.targets.cpu.shuffles import rechunk
from lamina.targets.cpu.values import Tile


@dataclass(frozen=True)
class Cast:
    """A conversion of parts from one element to another; `unsigned` is about the integer side."""

    source: Element
    target: Element
    unsigned: bool
    features: CpuFeatures

    def write(self, lanes: Lanes, x: str) -> str:
        """Return the converted part; `lanes` are of the source."""
        if self.source.floating:
            return self._from_float(lanes, x)
        if self.target.floating:
            return self._to_float(lanes, x)
        return self._resize(lanes, x)

    def _resize(self, lanes: Lanes, x: str) -> str:
        if self.source.bits == self.target.bits:
            return x
        if self.target.bits < self.source.bits:
            return lanes.convert("trunc", x, self.target)
        extend = "zext" if self.unsigned or self.source is I1 else "sext"
        return lanes.convert(extend, x, self.target)

    def _to_float(self, lanes: Lanes, x: str) -> str:
        unsigned = self.unsigned or self.source is I1
        target = F64 if self.target is F64 else F32
        if self.target.half and self.source.bits >= 32:
            target = F64
        if not lanes.width or self.source.bits >= 32:
            number = lanes.convert("uitofp" if unsigned else "sitofp", x, target)
        else:
            # Every narrow integer is an i32, for which there is an instruction.
            wide = lanes.convert("zext" if unsigned else "sext", x, I32)
            number = lanes.to(I32).convert("sitofp", wide, target)
        return self._narrowed(lanes, number, target)

    def _from_float(self, lanes: Lanes, x: str) -> str:
        source = self.source
        if source.half:
            x, source = widen_half(lanes, x, native=self.features.half), F32
        floats = lanes.to(source)
        if not self.target.floating:
            return self._to_integer(floats, x)
        if self.target is F64:
            return x if source is F64 else floats.convert("fpext", x, F64)
        return self._narrowed(lanes, x, source)

    def _narrowed(self, lanes: Lanes, x: str, have: Element) -> str:
        if have is self.target:
            return x
        if self.target is F32:
            return lanes.to(F64).convert("fptrunc", x, F32)
        single = round_to_odd(lanes, x) if have is F64 else x
        return narrow_half(lanes.to(self.target), single, native=self.features.half)

    def _to_integer(self, lanes: Lanes, x: str) -> str:
        bits = self.target.bits
        unsigned = self.unsigned or self.target is I1
        low = 0 if unsigned else -(1 << (bits - 1))
        high = (1 << (bits if unsigned else bits - 1)) - 1
        rounded = round_even(lanes, x, native=self.features.rounding)
        mantissa = 24 if lanes.kind.bits == 32 else 53
        exact = bits < mantissa or (bits == 32 and mantissa == 53)
        # The greatest float that the integer holds: `high` itself may have no float.
        top = float(high) if exact else float(((high + 1) >> mantissa) * ((1 << mantissa) - 1))
        clamped = lanes.select(
            lanes.compare("ogt", rounded, lanes.constant(low)), rounded, lanes.constant(low)
        )
        clamped = lanes.select(
            lanes.compare("olt", clamped, lanes.constant(top)), clamped, lanes.constant(top)
        )
        ints = lanes.to(self._carrier(lanes))
        number = lanes.convert(
            "fptoui" if unsigned and bits >= 32 else "fptosi", clamped, ints.kind
        )
        if not exact:
            over = lanes.compare("ogt", rounded, lanes.constant(top))
            number = ints.select(over, ints.constant(high), number)
        number = ints.select(lanes.compare("uno", x, x), ints.constant(0), number)
        return number if ints.kind.bits == bits else ints.convert("trunc", number, self.target)

    def _carrier(self, lanes: Lanes) -> Element:
        return self.target if self.target.bits >= 32 else I32


def _cast(emitter: Emitter, op: tile.CastOp) -> None:
    source, target = element(op.x.type), element(op.y.type)
    cast = Cast(source, target, op.unsigned is not None, emitter.features)
    x = emitter.tile(op.x)
    wanted = emitter.width(op.y)
    width = min(x.width, wanted)
    cut = rechunk(emitter.builder, x, width)

    def make(part: int) -> str:
        return cast.write(Lanes(emitter.builder, source, width), cut.part(part))

    def lane(index: int) -> str:
        return cast.write(Lanes(emitter.builder, source, 0), x.lane(index))

    y = Tile(emitter.builder, target, x.shape, width, make, lane=lane if x.scalars else None)
    _bound(emitter, op, source, target)
    emitter.set(op.y, rechunk(emitter.builder, y, wanted))


def _bound(emitter: Emitter, op: tile.CastOp, source: Element, target: Element) -> None:
    if source.floating or target.floating or source is I1:
        return
    known = emitter.range(op.x)
    if source.bits < 64 and known.lo is None:
        half = 1 << (source.bits - 1)
        known = Range(-half, half - 1)
    if op.unsigned is not None and not known.natural:
        known = Range(0, (1 << source.bits) - 1) if source.bits < 64 else Range()
    emitter.bound(op.y, known)


RULES: Final[dict[type[Operation], Rule]] = {tile.CastOp: _cast}
