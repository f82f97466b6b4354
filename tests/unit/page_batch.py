"""Ragged batches over pages of keys and values, as arguments of a group and as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from group_module import ELEMENTS, Body
from xdsl.ir import SSAValue

from lamina.dialects import cache, nn
from lamina.dialects.cache import PagesType

PAGE, LONG, COUNT = 16, 64, 9
POOLS = {
    "f32 rows": ("f32", 0),
    "f16 rows": ("f16", 0),
    "f16 tiles": ("f16", 16),
    "f32 in 4": ("f32", 4),
}


def pool(kind: str, heads: int = 2, size: int = 32, page: int = PAGE) -> PagesType:
    element, grain = POOLS[kind]
    return PagesType.of(ELEMENTS[element], "pages", heads, page, size, grain)


@dataclass(frozen=True)
class Batch:
    """Sequences of `past` tokens, each with `new` ones; their pages in some order."""

    past: Sequence[int]
    new: Sequence[int]
    page: int = PAGE

    @property
    def starts(self) -> np.ndarray:
        return np.int32([0, *np.cumsum(self.new)])

    @property
    def positions(self) -> np.ndarray:
        parts = [np.arange(p, p + n) for p, n in zip(self.past, self.new, strict=True)]
        return np.concatenate(parts).astype(np.int32)

    @property
    def sequence(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.new)), self.new).astype(np.int32)

    @property
    def table(self) -> np.ndarray:
        blocks = max(-(-(p + n) // self.page) for p, n in zip(self.past, self.new, strict=True))
        pages = np.random.default_rng(3).permutation(COUNT)
        return np.resize(pages, (len(self.new), blocks)).astype(np.int32)

    def work(self, block: int) -> np.ndarray:
        entries = [(s, b) for s, n in enumerate(self.new) for b in range(-(-n // block))]
        return np.int32(entries).reshape(-1, 2)

    def numbers(self, *shape: int) -> np.ndarray:
        return np.random.default_rng(0).normal(0, 1, (sum(self.new), *shape)).astype(np.float32)


BATCHES = {
    "one token": Batch([20], [1]),
    "a prompt": Batch([0], [33]),
    "a first token": Batch([0], [1]),
    "a mixture": Batch([17, 0, 31], [1, 3, 5]),
}


def contents(kind: PagesType, seed: int = 1) -> np.ndarray:
    shape = [dim.evaluate({"pages": COUNT}) for dim in nn.extents(kind.storage)]
    dtype = np.float16 if kind.element == ELEMENTS["f16"] else np.float32
    return np.random.default_rng(seed).normal(0, 1, shape).astype(dtype)


def batch_arguments(body: Body, *names: str) -> list[SSAValue]:
    types = {"positions": "i32[T]", "sequence": "i32[T]", "starts": "i32[S + 1]"}
    types |= {"table": "i32[S, B]", "work": "i32[W, 2]"}
    return [body.arg(types[name]) for name in names]


def attention(body: Body, kinds: tuple[PagesType, PagesType], heads: int, block: int) -> Any:
    size = kinds[0].dim.value.data
    q, k, v = body.arg(f"f32[T, {heads}, {size}]"), body.arg(kinds[0]), body.arg(kinds[1])
    rest = batch_arguments(body, "positions", "starts", "table", "work")
    return body.add(cache.AttentionOp(q, k, v, tuple(rest), scale=0.25, block=block))
