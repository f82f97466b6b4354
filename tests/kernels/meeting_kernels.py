"""Programs whose threads meet, in one value or in one element, and what may come of it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.parser import Parser

from lamina.dialects import simt
from lamina.testing.kernels import context

THREADS, BLOCKS, ELEMENTS = 64, 2, 32
PLACES = BLOCKS * THREADS * 2
Run = Callable[[simt.KernelOp, Sequence[np.ndarray]], None]


def parse(name: str, arguments: str, access: str, body: str, subgroup: int) -> simt.KernelOp:
    words = ", ".join(f'"{word}"' for word in access.split())
    text = f"""simt.kernel @{name} attributes {{symbols = ["n"], grid = ["{BLOCKS}"],
        access = [{words}], threads = {THREADS} : i64, subgroup = {subgroup} : i64}} {{
    ^bb0({arguments}, %n: index):
      %t = simt.thread_id
      %b = tile.program_id {{dim = 0 : i64}}
      %c2 = arith.constant 2 : index
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      %threads = arith.constant {THREADS} : index
      %pair = arith.constant dense<[0, 1]> : vector<2xindex>
      %before = arith.muli %b, %threads : index
      %mine = arith.addi %before, %t : index
      %first = arith.muli %mine, %c2 : index
      %both = tile.splat %first : (index) -> vector<2xindex>
      %place = arith.addi %both, %pair : vector<2xindex>
      {body}
      tile.return
    }}"""
    module = Parser(context(), text).parse_module()
    module.verify()
    kernel = module.body.block.first_op
    assert isinstance(kernel, simt.KernelOp)
    return kernel


REDUCED = {"i1": ("max", "min", "and", "or"), "i32": simt.REDUCTIONS}


def reduction(element: str, subgroup: int) -> simt.KernelOp:
    """Reduce two registers by every kind, over clusters of 2, of 8, and of the whole subgroup."""
    pairs, kinds = f"vector<2x{element}>", REDUCED[element]
    lines: list[str] = []
    for n, (kind, size) in enumerate((k, s) for k in kinds for s in (2, 8, subgroup)):
        cluster = "" if size == subgroup else f", cluster = {size} : i64"
        lines.append(f"""
          %r{n} = simt.subgroup_reduce %v {{kind = "{kind}"{cluster}}} : ({pairs}) -> {pairs}
          %w{n} = tile.cast %r{n} : ({pairs}) -> vector<2xi32>
          %k{n} = arith.constant {n * PLACES} : index
          %s{n} = tile.splat %k{n} : (index) -> vector<2xindex>
          %o{n} = arith.addi %place, %s{n} : vector<2xindex>
          simt.store %w{n}, %y[%o{n}] : vector<2xi32>, memref<?xi32>, vector<2xindex>""")
    body = f"""
      %i = simt.load %x[%place] : memref<{PLACES}xi32>, vector<2xindex> -> vector<2xi32>
      %v = tile.cast %i : (vector<2xi32>) -> {pairs}
      {"".join(lines)}"""
    arguments = f"%x: memref<{PLACES}xi32>, %y: memref<?xi32>"
    return parse(f"reduce_{element}", arguments, "read write", body, subgroup)


def reduction_inputs(element: str) -> list[np.ndarray]:
    whole = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, PLACES).astype(np.int32)
    # A subgroup of ones, which as truth values are all true, one of zeros, and one of a single one.
    whole[:64], whole[64:128], whole[128:192] = 1, 0, np.arange(64) == 5
    return [whole, np.zeros(3 * len(REDUCED[element]) * PLACES, np.int32)]


CHANGES = [*((kind, "i32") for kind in simt.ATOMICS), ("add", "f32")]
SPACES = ("argument", "workgroup")


def change(kind: str, element: str, space: str, *, subgroup: int = 32) -> simt.KernelOp:
    """Let threads change elements of an argument, or of a copy of it that their block shares."""
    pairs, memory = f"vector<2x{element}>", f"memref<{ELEMENTS}x{element}"
    shared = f'{memory}, "workgroup">'
    arrived = f"""
      %few = arith.cmpi slt, %t, %c32 : index
      %start = simt.load %z[%t] mask %few : i1 : {memory}>, index -> {element}
      simt.store %start, %m[%t] mask %few : i1 : {element}, {shared}, index
      simt.barrier"""
    left = f"""
      simt.barrier
      %end = simt.load %m[%t] mask %few : i1 : {shared}, index -> {element}
      %own = arith.muli %b, %c32 : index
      %there = arith.addi %own, %t : index
      simt.store %end, %w[%there] mask %few : i1 : {element}, memref<64x{element}>, index"""
    expected = f"expected %e : {pairs}" if kind == "compare_exchange" else ""
    target, type = ("%m", shared) if space == "workgroup" else ("%z", f"{memory}>")
    body = f"""
      {f"%m = simt.memory : {shared}{arrived}" if space == "workgroup" else ""}
      %v = simt.load %x[%place] : memref<{PLACES}x{element}>, vector<2xindex> -> {pairs}
      %row = arith.remui %t, %c16 : index
      %start2 = arith.muli %row, %c2 : index
      %spread = tile.splat %start2 : (index) -> vector<2xindex>
      %at = arith.addi %spread, %pair : vector<2xindex>
      %e = tile.cast %at : (vector<2xindex>) -> {pairs}
      %less = tile.compare %v, %e {{kind = "ne"}} : ({pairs}, {pairs}) -> vector<2xi1>
      %old = simt.atomic %v, {target}[%at] {expected} mask %less : vector<2xi1>
        {{kind = "{kind}"}} : {pairs}, {type}, vector<2xindex> -> {pairs}
      simt.store %old, %y[%place] : {pairs}, memref<{PLACES}x{element}>, vector<2xindex>
      {left if space == "workgroup" else ""}"""
    every = f"memref<{PLACES}x{element}>"
    arguments = f"%x: {every}, %y: {every}, %z: {memory}>, %w: memref<64x{element}>"
    name = f"{kind}_{element}_{space}"
    access = "read write update write" if space == "argument" else "read write read write"
    return parse(name, arguments, access, body, subgroup)


def change_inputs(element: str) -> list[np.ndarray]:
    dtype = np.int32 if element == "i32" else np.float32
    x = np.random.default_rng(1).integers(-40, 40, PLACES).astype(dtype)
    z = np.arange(ELEMENTS).astype(dtype)
    return [x, np.full(PLACES, -1, dtype), z, np.zeros(BLOCKS * ELEMENTS, dtype)]


AFTER: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda old, v, start: old + v,
    "max": lambda old, v, start: max(old, v),
    "min": lambda old, v, start: min(old, v),
    "and": lambda old, v, start: old & v,
    "or": lambda old, v, start: old | v,
    "xor": lambda old, v, start: old ^ v,
    "exchange": lambda old, v, start: v,
    "compare_exchange": lambda old, v, start: v if old == start else old,
}
Change = tuple[Any, Any]
"""What was there before, and the operand."""


def possible(kind: str, start: Any, changes: Sequence[Change], end: Any) -> bool:
    """Tell whether threads that take turns in some order find and leave this."""

    def some_order(now: Any, left: Sequence[Change]) -> bool:
        if not left:
            return bool(now == end)
        following = [n for n, (old, _) in enumerate(left) if old == now]
        return any(
            some_order(AFTER[kind](now, left[n][1], start), [*left[:n], *left[n + 1 :]])
            for n in following
        )

    return some_order(start, changes)


def wrong_elements(kind: str, space: str, given: list[np.ndarray], found: list[np.ndarray]) -> int:
    """Return in how many elements no order of turns gives what was found."""
    x, y, z, w = found
    thread, register = np.divmod(np.arange(PLACES), 2)
    at = thread % 16 * 2 + register
    taken = x != at
    assert (y[~taken] == 0).all(), "a thread that is masked off gives 0"
    wrong = 0
    for block in range(BLOCKS) if space == "workgroup" else (slice(None),):
        for n in range(ELEMENTS):
            here = taken & (at == n) & ((thread // THREADS == block) | (space == "argument"))
            end = w[block * ELEMENTS + n] if space == "workgroup" else z[n]
            changes = list(zip(y[here].tolist(), x[here].tolist(), strict=True))
            wrong += not possible(kind, given[2][n].item(), changes, end.item())
    return wrong
