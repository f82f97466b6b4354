"""The functions by which threads exchange values in WGSL, which depend on what a device can do."""

from __future__ import annotations

from typing import Final

from lamina.targets.webgpu.elements import ELEMENTS

LANES: Final = "lanes"
"""The variable with the threads of a subgroup, which may be more than a kernel takes it for."""

SHUFFLE: Final = "shuffle_"
REDUCE: Final = "reduce_"
"""How the names of the functions begin."""

_REDUCTIONS: Final = {
    "add": ("subgroupAdd(x)", "a + b"),
    "mul": ("subgroupMul(x)", "a * b"),
    "max": ("subgroupMax(x)", "max(a, b)"),
    "min": ("subgroupMin(x)", "min(a, b)"),
    "and": ("subgroupAnd(x)", "a & b"),
    "or": ("subgroupOr(x)", "a | b"),
}
"""What a whole subgroup becomes one by, and two."""


def exchange_text(name: str, threads: int, *, subgroups: bool) -> str:
    """Return a function: `shuffle_<element>`, or `reduce_<kind>_<element>_<threads>`.

    A shuffle is what the thread whose number differs in the bits `xor` holds. A reduction makes one
    of what so many neighbours hold, each bit of an i1 being a word that is 0 or 1. Without
    subgroups they go through memory that the block's threads share.
    """
    if name.startswith(SHUFFLE):
        return _shuffle(name, threads, subgroups=subgroups)
    _, kind, element, size = name.split("_")
    type, (whole, two) = ELEMENTS[element].shared, _REDUCTIONS[kind]
    head = f"fn {name}(x: {type}, thread: u32) -> {type} {{"
    if not subgroups:
        return _through_memory(name, type, threads, f"{head}", two, int(size))
    lines = [head, f"  if ({LANES} == {size}u) {{ return {whole}; }}", "  var a = x;"]
    xor = 1
    while xor < int(size):
        lines.append(f"  {{ let b = subgroupShuffleXor(a, {xor}u); a = {two}; }}")
        xor *= 2
    return "\n".join([*lines, "  return a;", "}"])


def _shuffle(name: str, threads: int, *, subgroups: bool) -> str:
    element = name.removeprefix(SHUFFLE)
    kind, shared = ELEMENTS[element].shared, f"shuffled_{element}"
    head = f"fn {name}(x: {kind}, xor: u32, thread: u32) -> {kind} {{"
    if subgroups:
        return f"{head}\n  return subgroupShuffleXor(x, xor);\n}}"
    return f"""var<workgroup> {shared}: array<{kind}, {threads}>;
{head}
  {shared}[thread] = x;
  workgroupBarrier();
  let y = {shared}[thread ^ xor];
  workgroupBarrier();
  return y;
}}"""


def _through_memory(name: str, type: str, threads: int, head: str, two: str, size: int) -> str:
    shared = f"shared_{name}"
    return f"""var<workgroup> {shared}: array<{type}, {threads}>;
{head}
  {shared}[thread] = x;
  workgroupBarrier();
  let first = thread - thread % {size}u;
  var a = {shared}[first];
  for (var n = 1u; n < {size}u; n += 1u) {{ let b = {shared}[first + n]; a = {two}; }}
  workgroupBarrier();
  return a;
}}"""
