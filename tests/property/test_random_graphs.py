"""Random graphs compute on the CPU what they compute in the reference, however they are fused."""

from collections.abc import Sequence
from itertools import combinations, cycle, permutations
from typing import Any, TypeVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.testing.case import Case
from lamina.testing.report import check
from lamina.testing.sheet import Sheet
from lamina.testing.values import gaps

T = TypeVar("T")

UNARY = (nn.NegOp, nn.AbsOp, nn.TanhOp, nn.ReluOp, nn.SiluOp, nn.GeluOp)
BINARY = (nn.AddOp, nn.SubOp, nn.MulOp, nn.MaxOp, nn.MinOp)
WIDTH, HEADS, ROWS = 12, 3, 16
LOOSE = 2e-4


class Grower:
    """A sheet under way: each step takes values made so far, as `choices` say, and adds one."""

    def __init__(self, sheet: Sheet, choices: Sequence[int]) -> None:
        self.sheet, self.choices = sheet, cycle(choices)
        shapes = (["N", WIDTH], [WIDTH], ["N"], ["N", HEADS, WIDTH // HEADS])
        self.given = [sheet.given(f"x{i}", f32, shape, gaps) for i, shape in enumerate(shapes)]
        self.values = list(self.given)
        weights = np.random.default_rng(0).normal(0, 0.3, (ROWS, WIDTH)).astype(np.float32)
        self.w = sheet.stored("w", weights)

    def one_of(self, options: Sequence[T]) -> T:
        return options[next(self.choices) % len(options)]

    def pick(self, like: SSAValue | None = None) -> SSAValue:
        fitting = [v for v in self.values if like is None or v.type == like.type]
        return self.one_of(fitting)

    def step(self) -> None:
        move = self.one_of(MOVES)
        op = move(self, self.pick())
        if op is not None:
            self.values.append(self.sheet.add(op))

    def finish(self) -> None:
        """Check what nothing uses, and one value that something does."""
        made = [value for value in self.values if value not in self.given]
        used = [value for value in made if value.uses]
        for i, value in enumerate([*(v for v in made if not v.uses), *used[:1]]):
            self.sheet.check(f"y{i}", value, rtol=LOOSE, atol=LOOSE)


def unary(grower: Grower, x: SSAValue) -> Any:
    return grower.one_of(UNARY)(x)


def binary(grower: Grower, x: SSAValue) -> Any:
    other = grower.pick(like=x)
    return grower.one_of(BINARY)(x, other)


def choice(grower: Grower, x: SSAValue) -> Any:
    other = grower.pick(like=x)
    less = grower.sheet.add(nn.CompareOp("lt", x, other))
    return nn.SelectOp(less, other, x)


def transpose(grower: Grower, x: SSAValue) -> Any:
    return nn.TransposeOp(x, grower.one_of(list(permutations(range(len(extents(x.type)))))))


def reduce(grower: Grower, x: SSAValue) -> Any:
    rank = len(extents(x.type))
    some = [dims for n in range(rank) for dims in combinations(range(rank), n + 1)]
    kind = grower.one_of(("add", "max", "min"))
    return nn.ReduceOp(x, kind, grower.one_of(some)) if rank else None


def softmax(grower: Grower, x: SSAValue) -> Any:
    rank = len(extents(x.type))
    return nn.SoftmaxOp(x, grower.one_of(range(rank))) if rank else None


def concat(grower: Grower, x: SSAValue) -> Any:
    rank = len(extents(x.type))
    other = grower.pick(like=x)
    return nn.ConcatOp([x, other], grower.one_of(range(rank))) if rank else None


def broadcast(grower: Grower, x: SSAValue) -> Any:
    wide = grower.pick()
    shape, own = extents(wide.type), extents(x.type)
    places = [d for d in range(len(shape)) if (*shape[:d], *shape[d + 1 :]) == own]
    dims = [d for d in range(len(shape)) if d != places[0]] if places else []
    return nn.BroadcastOp(x, dims, shape) if places else None


def product(grower: Grower, x: SSAValue) -> Any:
    fits = len(extents(x.type)) == 2 and extents(x.type)[1] == WIDTH
    return nn.DotGeneralOp(x, grower.w, [(1, 1)]) if fits else None


def narrow(grower: Grower, x: SSAValue) -> Any:
    shape = extents(x.type)
    fits = len(shape) == 2 and shape[1] == ROWS
    start = grower.one_of(range(ROWS - WIDTH + 1))
    return nn.SliceOp(x, [0, start], [shape[0], WIDTH]) if fits else None


def split(grower: Grower, x: SSAValue) -> Any:
    shape = extents(x.type)
    fits = len(shape) == 2 and shape[1].constant in (WIDTH, ROWS)
    return nn.ReshapeOp(x, [shape[0], shape[1] // 4, 4]) if fits else None


def merge(grower: Grower, x: SSAValue) -> Any:
    shape = extents(x.type)
    fits = len(shape) == 3 and shape[2] == 4
    return nn.ReshapeOp(x, [shape[0], shape[1] * 4]) if fits else None


MOVES = (
    *(unary, unary, binary, binary, product, product),
    *(choice, transpose, reduce, softmax, concat, broadcast, narrow, split, merge),
)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 2**16), min_size=60, max_size=160), st.integers(10, 40))
def test_a_random_graph_is_compiled_right(choices: list[int], steps: int) -> None:
    def build(sheet: Sheet) -> None:
        grower = Grower(sheet, choices)
        for _ in range(steps):
            grower.step()
        grower.finish()

    case = Case("random", build, (0, 1, 2, 33))
    if case.sheet().checks:
        check("cpu", case)
