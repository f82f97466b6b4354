"""The left operand of a dot: in memory where it can be, so that its elements are broadcast."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lamina.targets.cpu.elements import ELEMENTS, Element
from lamina.targets.cpu.emitter import Emitter
from lamina.targets.cpu.hidden import opaque, varying
from lamina.targets.cpu.integers import displace
from lamina.targets.cpu.shuffles import gather, splat
from lamina.targets.cpu.values import Tile

Index = npt.NDArray[np.int64]

FEW = 3
"""So many broadcasts from registers cost less than a trip through memory."""


class LeftOperand:
    """Gives, for a part of the accumulator and a step, the lanes of `a` that meet it.

    `places[part, lane, step]` are positions in `a`; a step covers `group` neighbours, which fill
    a lane of `group` times the element's bits. What is the same in every lane comes from memory:
    from where it was loaded, or from scratch memory if it was computed.
    """

    def __init__(self, emitter: Emitter, a: Tile, places: Index, group: int = 1) -> None:
        self._emitter = emitter
        self._a = a
        self._places = places
        self._group = group
        bits = a.element.bits * group
        self._lane = a.element if group == 1 else ELEMENTS[f"i{bits}"]
        self._same = (places == places[:, :1, :]).all(axis=1)
        self._known: dict[int, str] = {}

    @property
    def lane(self) -> Element:
        """The element of a lane."""
        return self._lane

    def owners(self) -> list[int]:
        """Return for each part the first part that meets the same lanes at every step."""
        first: dict[bytes, int] = {}
        return [first.setdefault(p.tobytes(), n) for n, p in enumerate(self._places)]

    def lanes(self, part: int, step: int) -> str:
        """Return the lanes for `part` at `step` (counted in groups), as vectors of `lane`."""
        first = step * self._group
        index = self._places[part, :, first : first + self._group]
        if bool(self._same[part, first : first + self._group].all()):
            start = int(index[0, 0])
            if start not in self._known:
                self._known[start] = self._broadcast(index[0], index.shape[0])
            return self._known[start]
        return self._cast(gather(self._emitter.builder, self._a, index.reshape(-1)), index.shape[0])

    def _broadcast(self, index: Index, lanes: int) -> str:
        builder, a = self._emitter.builder, self._a
        together = bool((np.diff(index) == 1).all())
        if together and a.memory is not None:
            name = a.memory.splat(int(index[0]), self._lane.bits, lanes)
            if name is not None:
                return name
        if together and self._worthwhile():
            pointer = displace(builder, self._copy(), int(index[0]) * a.element.size)
            align = a.element.size
            name = builder.value(f"load {self._lane.llvm}, ptr {pointer}, align {align}")
            return splat(builder, self._lane, name, lanes)
        return self._cast(gather(builder, a, np.tile(index, lanes)), lanes)

    def _cast(self, name: str, lanes: int) -> str:
        if self._group == 1:
            return name
        bytes_type = self._a.element.of(lanes * self._group)
        return self._emitter.builder.pure(
            f"bitcast {bytes_type} {name} to {self._lane.of(lanes)}", name
        )

    def _worthwhile(self) -> bool:
        starts = self._places[:, 0, :: self._group][self._same[:, :: self._group]]
        return self._a.width > 1 and len(np.unique(starts)) > FEW

    def _copy(self) -> str:
        builder, a = self._emitter.builder, self._a
        if a.copy is None:
            with builder.at(a.home):
                a.copy = self._emitter.scratch(None, a.element, [a.size])
                for part, name in enumerate(a.force()):
                    place = displace(builder, a.copy, part * a.width * a.element.size)
                    builder.effect(f"store {a.type} {name}, ptr {place}, align {a.element.size}")
        return varying(builder, opaque(builder, a.copy), a.home)
