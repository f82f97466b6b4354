"""Kernels of `kernels.metal` with one thing broken in each, all of them in one text."""

from __future__ import annotations

import re
from dataclasses import dataclass

BARRIER = re.compile(r"(threadgroup|simdgroup)_barrier\(mem_flags::mem_threadgroup\);")
KERNEL = re.compile(r"(?:\[\[[^\]]*\]\]\s*)?kernel void (\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL)

ATOMIC = ("histogram",)
"""Kernels whose threads meet in atomic operations only, which are no races."""

SWAPS = (
    (
        "matmul",
        "bound of a row dropped",
        "row < size.m && column < size.n) c",
        "column < size.n) c",
    ),
    (
        "matmul",
        "bound of a column dropped",
        "row < size.m && column < size.n) c",
        "row < size.m) c",
    ),
    ("matmul", "bound of k dropped", "row < size.k && column < size.n", "column < size.n"),
    ("matmul", "factors swapped", "x[i], y[j], sums", "y[j], x[i], sums"),
    ("matmul", "rows of a matrix swapped", "x[i], y[j], sums", "x[1 - i], y[j], sums"),
    ("matmul", "matrix transposed", "+ k, 16)", "+ k, 16, 0, true)"),
    ("matmul", "origin turned", "ulong2(sub_column + 8 * i, k)", "ulong2(k, sub_column + 8 * i)"),
    ("transpose", "bound of a row dropped", "row < size.n && column < size.m", "column < size.m"),
    ("transpose", "bound of a column dropped", "row < size.n && column < size.m", "row < size.n"),
    (
        "row_sums",
        "bound of a lane dropped",
        "lane < simdgroups ? partial[lane] : 0.0f",
        "partial[lane]",
    ),
    ("row_sums", "store by every lane", "if (lane == 0) y[row]", "y[row]"),
    ("matvec_4bit", "halves of a byte swapped", "lane < 16", "lane >= 16"),
    ("turn_lanes", "lane turned wrongly", "+ 31 - lane", "+ 30 - lane"),
)


@dataclass(frozen=True)
class Mutant:
    """A kernel with one thing broken, and what its name is in the text of all mutants."""

    kernel: str
    broken: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.kernel}: {self.broken}"


def mutants_of(text: str) -> list[Mutant]:
    """Return mutants of each kernel of `text`: barriers removed or weakened, and `SWAPS`."""
    made: list[tuple[str, str, str]] = []
    for match in KERNEL.finditer(text):
        for number, barrier in enumerate(BARRIER.finditer(match[0]), 1):
            weak = barrier[0].replace("mem_threadgroup", "mem_none")
            for what, instead in (("removed", ";"), ("weakened", weak)):
                if match[1] in ATOMIC and what == "weakened":
                    continue
                broken = match[0][: barrier.start()] + instead + match[0][barrier.end() :]
                made.append((match[1], f"barrier {number} {what}", broken))
        for kernel, what, old, new in SWAPS:
            if kernel == match[1]:
                assert match[0].count(old) == 1, what
                made.append((kernel, what, match[0].replace(old, new)))
    return [_named(n, *each) for n, each in enumerate(made)]


def text_of(text: str, mutants: list[Mutant]) -> str:
    """Return `text` with the mutants in place of its kernels."""
    return "\n".join((KERNEL.sub("", text), *(mutant.text for mutant in mutants)))


def _named(number: int, kernel: str, broken: str, text: str) -> Mutant:
    name = f"{kernel}_{number}"
    return Mutant(kernel, broken, name, text.replace(f"void {kernel}(", f"void {name}("))
