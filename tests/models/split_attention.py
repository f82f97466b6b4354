"""Steps of attention alone, as a decoder has them: a module, batches with a long past, and NumPy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass

import lamina
from lamina.passes.choose_splits import ChooseSplitsPass
from lamina.plugins import manager
from lamina.targets.base import Executable, Target
from lamina.targets.plans.dispatches import Dispatch, dispatches_of
from lamina.targets.shading.pipeline import KEYS_ABREAST

TEXT = """
!k = !cache.pages<{element}, "pages", {groups} : i64, {page} : i64, {size} : i64, {tile} : i64>
!v = !cache.pages<{element}, "pages", {groups} : i64, {page} : i64, {size} : i64, 0 : i64>
!ids = tensor<?xi32, #nn.dims<["T"]>>
!start = tensor<?xi32, #nn.dims<["S + 1"]>>
!table = tensor<?x?xi32, #nn.dims<["S", "B"]>>
!work = tensor<?x2xi32, #nn.dims<["W"]>>
!q = tensor<?x{heads}x{size}xf32, #nn.dims<["T"]>>
nn.group @attention attributes {{anchor = "attention"}} {{
^bb0(%q: !q, %k: !k, %v: !v, %positions: !ids, %start: !start, %table: !table, %work: !work):
  %y = cache.attention %q, %k, %v, %positions, %start, %table, %work {{scale = {scale} : f32, block = {block} : i64}} : (!q, !k, !v, !ids, !start, !table, !work) -> !q
  nn.yield %y : !q
}}
func.func @forward(%q: !q {{lamina.input = "q"}}, %positions: !ids {{lamina.input = "positions"}}, %start: !start {{lamina.input = "query_start"}}, %table: !table {{lamina.input = "table"}}, %work: !work {{lamina.input = "work"}}, %k: !k {{lamina.state = "k"}}, %v: !v {{lamina.state = "v"}}) -> (!q {{lamina.output = "y"}}, !k {{lamina.state = "k"}}, !v {{lamina.state = "v"}}) {{
  %y = nn.switch {{value = "T", bounds = array<i64: {few}>}} : !q {{
    %a = nn.call @attention(%q, %k, %v, %positions, %start, %table, %work) : (!q, !k, !v, !ids, !start, !table, !work) -> !q
    nn.yield %a : !q
  }}, {{
    %b = nn.call @attention(%q, %k, %v, %positions, %start, %table, %work) : (!q, !k, !v, !ids, !start, !table, !work) -> !q
    nn.yield %b : !q
  }}
  func.return %y, %k, %v : !q, !k, !v
}}
"""
FEW, SPAN = 6, 256
PAST = (0, 1, 31, 257, 1000)


@dataclass(frozen=True)
class Attention:
    """Attention of `groups * shared` heads of `size` over pages of f32, by entries of `block`."""

    size: int = 64
    groups: int = 3
    shared: int = 3
    block: int = 1
    page: int = 64

    @property
    def heads(self) -> int:
        return self.groups * self.shared

    @property
    def tile(self) -> int:
        """Keys that lie side by side."""
        return gcd(self.page, KEYS_ABREAST)

    @property
    def scale(self) -> float:
        return float(np.float32(self.size**-0.5))

    def call(self, past: Sequence[int], new: Sequence[int]) -> dict[str, np.ndarray]:
        """Inputs and pools of sequences; what lies behind their tokens is no number."""
        rng, lengths = np.random.default_rng(7), np.add(past, new)
        blocks = max(-(-lengths // self.page))
        table = rng.permutation(len(past) * blocks).reshape(len(past), blocks).astype(np.int32)
        k, v = (
            rng.normal(0, 1, (table.size, self.groups, self.page, self.size)).astype(np.float32)
            for _ in "kv"
        )
        for pages, length in zip(table, lengths, strict=True):
            for pool in (k, v):
                pool[pages[length // self.page :], :, length % self.page :] = np.nan
        return {
            "q": self.queries(sum(new)),
            "positions": np.concatenate(
                [np.arange(p, p + n, dtype=np.int32) for p, n in zip(past, new, strict=True)]
            ),
            "query_start": np.int32([0, *np.cumsum(new)]),
            "table": table,
            "work": np.int32(
                [(s, b) for s, n in enumerate(new) for b in range(-(-n // self.block))]
            ),
            "k": _in_tiles(k, self.tile),
            "v": v,
        }

    def queries(self, tokens: int) -> np.ndarray:
        rng = np.random.default_rng(1)
        return rng.normal(0, 1, (tokens, self.heads, self.size)).astype(np.float32)

    def module(self) -> ModuleOp:
        names = ("size", "groups", "block", "page", "tile")
        facts = {name: getattr(self, name) for name in names}
        text = TEXT.format(
            **facts, element="f32", heads=self.heads, scale=repr(self.scale), few=FEW
        )
        return Parser(manager.context(), text).parse_module()


CASES = {"64 wide": Attention(block=8), "80 wide": Attention(size=80, page=16, block=2)}
"""What is looked at on each target."""


def compiled(attention: Attention, target: Target) -> Executable:
    """The module by the passes of a target, ready to be called."""
    steps = passes_from_splits(target, SPAN)
    return lamina.compile(attention.module(), target, pipeline=steps, weights={})


def passes_from_splits(target: Target, span: int) -> list[ModulePass]:
    """What a target does with groups, where few rows are those up to `FEW`."""
    passes = list(target.passes())
    (at,) = (n for n, each in enumerate(passes) if isinstance(each, ChooseSplitsPass))
    return [ChooseSplitsPass(span, FEW), *passes[at + 1 :]]


def blocks(executable: Any, **symbols: int) -> list[int]:
    """The blocks of threads of each dispatch of a call."""
    tasks = dispatches_of(executable.plan, symbols, 1).tasks
    return [prod(each.grid) for each in tasks if isinstance(each, Dispatch)]


def steps_of(call: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """The first sequences of a call, which have one token each, as a call of their own."""
    sizes = {"q": count, "positions": count, "query_start": count + 1, "table": count}
    return {**call, **{name: call[name][:size] for name, size in {**sizes, "work": count}.items()}}


def token_of(call: Mapping[str, np.ndarray], sequence: int, token: int) -> dict[str, np.ndarray]:
    """One token of a call, which is of a sequence, as a call of its own."""
    one = slice(token, token + 1)
    alone = {"query_start": np.int32([0, 1]), "work": np.int32([[0, 0]])}
    own = {name: call[name][one] for name in ("q", "positions")}
    return {**call, **alone, **own, "table": call["table"][sequence : sequence + 1]}


def _in_tiles(keys: np.ndarray, tile: int) -> np.ndarray:
    """Keys as their pages have them, `tile` positions side by side."""
    count, heads, page, size = keys.shape
    tiles = keys.reshape(count, heads, page // tile, tile, size)
    return np.ascontiguousarray(tiles.transpose(0, 1, 2, 4, 3))
