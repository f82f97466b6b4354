"""Random programs of a block under way: what there is to take, and where tiles begin.

All sums are exact, so that their order does not show: values are brought back to [-8, 8] after each
step, and no product has more than a few hundred terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from random import Random
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    f32,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from lamina.dialects import tile
from lamina.dialects.tile import element_of, shape_of

Shape = tuple[int, ...]
Move = Callable[["Program"], None]
"""Adds an operation or a few, if there are values that fit."""

ACCESS = ("read", "read", "update", "update")
"""Of a program's arguments."""

SMALL, LARGE = (1, 2, 3, 4, 5, 8, 16, 16, 31, 32), (1, 2, 7, 16, 32, 48, 64)
MOST_ELEMENTS, MOST_PRODUCTS, DEEPEST = 4096, 1 << 16, 2
WIDEST = 8.0
RECENT = 6
"""As many of the last values are mostly taken."""


class Program:
    """A program under way: the block that is open, and what it knows by now."""

    def __init__(self, seed: int, moves: Mapping[Move, int]) -> None:
        """Make a program; `moves` says how often each is made, the first of them comes first."""
        self.random = Random(seed)
        self.sizes = self.random.choices((SMALL, LARGE), (2, 1))[0]
        self.shapes = [self.shape() for _ in ACCESS]
        types = [MemRefType(f32, shape) for shape in self.shapes]
        self.block = self.entry = Block(arg_types=[*types, IndexType()])
        self.read = list(zip(self.entry.args[:2], self.shapes[:2], strict=True))
        self.written = list(zip(self.entry.args[2:4], self.shapes[2:], strict=True))
        self.values: list[SSAValue] = []
        self.scalars: list[SSAValue] = []
        self.counters: list[SSAValue] = []
        self.depth = 0
        self._moves = moves
        self.module = self._finish()

    @property
    def symbol(self) -> SSAValue:
        return self.entry.args[-1]

    def _finish(self) -> ModuleOp:
        self.steps(self.random.randint(4, 14))
        for memory, shape in zip(self.entry.args[2:4], self.shapes[2:], strict=True):
            value = self.value()
            row = (*(1 for _ in shape[1:]), prod(shape_of(value.type)))
            flat = self.add(tile.ReshapeOp(value, row))
            self.add(tile.StoreOp(flat, memory, [self.index(0)] * len(shape), row))
        self.add(tile.ReturnOp())
        properties = {
            "sym_name": StringAttr("random"),
            "symbols": ArrayAttr([StringAttr("n")]),
            "grid": ArrayAttr([StringAttr("1")]),
            "access": ArrayAttr([StringAttr(each) for each in ACCESS]),
        }
        kernel = tile.KernelOp.create(properties=properties, regions=[Region(self.entry)])
        module = ModuleOp([kernel])
        module.verify()
        return module

    def steps(self, count: int) -> None:
        """Make moves in the block that is open."""
        if not self.values:
            next(iter(self._moves))(self)
        for _ in range(count):
            self.random.choices(list(self._moves), list(self._moves.values()))[0](self)

    def add(self, op: Operation) -> Any:
        """Append an operation; return its first result."""
        self.block.add_op(op)
        return op.results[0] if op.results else None

    def keep(self, value: SSAValue) -> None:
        """Let later moves take a value."""
        self.values.append(value)

    def index(self, number: int) -> SSAValue:
        return self.add(arith.ConstantOp(IntegerAttr(number, IndexType())))

    def number(self, number: float) -> SSAValue:
        return self.add(arith.ConstantOp(FloatAttr(float(number), f32)))

    def small(self, value: SSAValue) -> SSAValue:
        """Return a value between the widest numbers."""
        for kind, bound in ((arith.MaximumfOp, -WIDEST), (arith.MinimumfOp, WIDEST)):
            value = self.add(kind(value, self.full(bound, shape_of(value.type))))
        return value

    def full(self, number: float, shape: Shape) -> SSAValue:
        return self.add(tile.SplatOp(self.number(number), shape))

    def floats(self, value: SSAValue) -> SSAValue:
        """Return a value as f32."""
        same = element_of(value.type) == f32
        return value if same else self.add(tile.CastOp(value, f32))

    def likely(self, chance: float) -> bool:
        return self.random.random() < chance

    def size(self) -> int:
        return self.random.choice(self.sizes)

    def shape(self) -> Shape:
        shape = tuple(self.size() for _ in range(self.random.choice((1, 2, 2, 3))))
        return shape if prod(shape) <= MOST_ELEMENTS // 2 else self.shape()

    def find(self, fits: Callable[[Shape], bool]) -> SSAValue | None:
        """Return a tile whose shape fits, mostly one of the last."""
        found = [value for value in self.values if fits(shape_of(value.type))]
        if not found:
            return None
        return self.random.choice(found[-RECENT:] if self.likely(0.7) else found)

    def value(self) -> SSAValue:
        found = self.find(lambda shape: True)
        assert found is not None
        return found

    def alike(self, value: SSAValue) -> SSAValue:
        """Return a value of the same shape, which may be the same one."""
        found = self.find(lambda shape: shape == shape_of(value.type))
        return value if found is None else found

    def start(self, extent: int, size: int) -> SSAValue:
        """Return where a tile begins in a dimension: somewhere, or further each time round."""
        if not self.counters or self.likely(0.4):
            return self.index(self.random.choice((0, 0, self.random.randint(-2, extent))))
        step = self.index(self.random.choice((0, 1, 1, 2, size)))
        further = self.add(arith.MuliOp(self.random.choice(self.counters), step))
        first = self.index(self.random.randint(-1, max(0, extent - size)))
        return self.add(arith.AddiOp(further, first))

    def places(self, count: int) -> SSAValue:
        """Return indices, one for each element of a dimension."""
        found = self.find(lambda shape: shape == (count,)) if self.likely(0.4) else None
        if found is not None:
            return self.add(tile.CastOp(found, IndexType()))
        first = self.full_index(self.random.randint(-1, 2), count)
        return self.add(arith.AddiOp(self.add(tile.IotaOp(IndexType(), count)), first))

    def full_index(self, number: int, count: int) -> SSAValue:
        return self.add(tile.SplatOp(self.index(number), (count,)))

    def subscripts(self, extents: Shape, shape: Sequence[int], chance: float) -> list[SSAValue]:
        """Return where a tile begins, or by some chance which indices it has in a dimension."""
        at = [self.start(n, size) for n, size in zip(extents, shape, strict=True)]
        if self.likely(chance):
            d = self.random.randrange(len(shape))
            at[d] = self.places(shape[d])
        return at

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Open a block; what is found in it is out of sight afterwards."""
        kept = (self.block, list(self.values), list(self.scalars), list(self.counters))
        self.block, self.depth = block, self.depth + 1
        yield
        self.block, self.values, self.scalars, self.counters = kept
        self.depth -= 1


def arrays(program: Program, seed: int) -> list[np.ndarray]:
    """Return what a program is given."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, shape).astype(np.float32) for shape in program.shapes]
