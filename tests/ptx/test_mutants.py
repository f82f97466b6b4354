"""Kernels with one thing broken: each has to be caught, by a fault or by its numbers."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import compiled_kernels
import hopper
import lowered_boxes
import lowered_kernels
import ml_dtypes
import numpy as np
import pytest
from launching import launch
from nvptx import ptx

from lamina.testing.ptx import Device, KernelFault

BF16 = np.dtype(ml_dtypes.bfloat16)
HERE = Path(__file__).parent


def softmax(text: str) -> bool:
    x = np.random.default_rng(1).standard_normal((3, 100)).astype("f4")
    kernel = "softmax"
    y = launch(text, 3, 128, x, np.zeros_like(x), np.int32(100), kernel=kernel)[1]
    e = np.exp(x.astype("f8"))
    return np.allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-4)


def gemm(tile: int) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        rng = np.random.default_rng(2)
        m, n, k = 130, 70, 136
        a, b = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((n, k)).astype(BF16)
        sizes = [np.int32(extent) for extent in (m, n, k)]
        grid = (-(-n // tile), -(-m // tile))
        arrays = (a.view("u2"), b.view("u2"), np.zeros((m, n), "f4"))
        c = launch(text, grid, 2 * tile, *arrays, *sizes, shared=384 * tile)[2]
        return np.allclose(c, a.astype("f8") @ b.astype("f8").T, atol=1e-3)

    return run


def histogram(text: str) -> bool:
    x = np.random.default_rng(3).integers(0, 1 << 20, 1000).astype("u4")
    out, total = np.zeros(18, "u4"), np.zeros(1, "f4")
    y = launch(text, 8, 128, x, out, total, 1000, kernel="histogram")[1]
    return bool((y[:16] == np.bincount(x & 15, minlength=16)).all())


def hopper_product(text: str) -> bool:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((70, 456)).astype(BF16), rng.standard_normal((64, 456)).astype(BF16)
    c = hopper.product(text, a, b)
    return np.allclose(c, a.astype("f8") @ b.astype("f8").T, atol=1e-3)


def lowered_product(text: str) -> bool:
    rng = np.random.default_rng(5)
    n, wanted = 70, (lowered_kernels.DEPTH, lowered_kernels.COLUMNS)
    x, w = (
        rng.standard_normal((n, wanted[0])).astype("f2"),
        rng.standard_normal(wanted).astype("f2"),
    )
    y, error = np.zeros((n, wanted[1]), "f4"), np.zeros(1, "i4")
    device = Device()
    places = [device.put(array) for array in (x, w, y, error)]
    kernel = device.load(text).kernel("product")
    grid = (-(-n // lowered_kernels.ROWS),)
    device.launch(kernel, grid, (lowered_kernels.THREADS,), [*places[:3], n, n, n, 2, places[3]])
    exact = x.astype("f8") @ w.astype("f8")
    return np.allclose(device.get(places[2], "f4", y.shape), exact, atol=1e-3)


def kernel_of(name: str) -> str:
    """The text of one kernel of the file, with what stands before all of them."""
    text = (HERE / "nvcc_kernels.ptx").read_text(encoding="utf-8")
    start = text.index(f".visible .entry {name}(")
    end = text.find(".visible .entry", start + 1)
    return text[: text.index(".visible .entry")] + text[start : end if end > 0 else None]


KERNELS: dict[str, tuple[Callable[[], str], Callable[[str], bool]]] = {
    "softmax": (lambda: ptx(compiled_kernels.softmax()), softmax),
    "gemm": (lambda: ptx(compiled_kernels.gemm()), gemm(64)),
    "nvcc softmax": (lambda: kernel_of("softmax"), softmax),
    "nvcc histogram": (lambda: kernel_of("histogram"), histogram),
    "lowered product": (lowered_kernels.product, lowered_product),
    "lowered boxes": (lowered_boxes.product, lowered_boxes.right),
    "nvcc hopper": (lambda: hopper.TEXT, hopper_product),
    "nvcc gemm": (lambda: (HERE / "nvcc_gemm.ptx").read_text(encoding="utf-8"), gemm(128)),
}


@dataclass(frozen=True)
class Mutant:
    """Which match of a pattern in which kernel becomes what, and how that is to show."""

    kernel: str
    pattern: str
    becomes: str
    caught: str
    which: int = 0

    def text(self) -> str:
        text = KERNELS[self.kernel][0]()
        match = list(re.finditer(self.pattern, text))[self.which]
        return text[: match.start()] + match.expand(self.becomes) + text[match.end() :]


BARRIER = r"(bar|barrier)\.sync\s+0;"
GUARD = r"@%p\d+ bra\s+\S+;(?=\s+st\.global)"
SIZE = r"selp\.b32\s+(%r\d+), (%r\d+), 0, %p\d+;"
WORDS = r"\{%r\d+, %r\d+, %r\d+, %r\d+\}"
MMA = rf"(mma\S+\s+{WORDS},\s+)\{{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}},\s+\{{(%r\d+), (%r\d+)\}},"
WAIT = r"\{ \.reg \.pred done;[^}]*\}"
LOAD = r"(ldmatrix\S+\s+)\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}"

MUTANTS = {
    "barrier removed between partial sums and their sum": Mutant("softmax", BARRIER, "", "race"),
    "barrier removed from the pipeline": Mutant("gemm", BARRIER, "", "pending race"),
    "barrier removed after the maxima": Mutant("nvcc softmax", BARRIER, "", "race", 0),
    "barrier removed before the sums reuse the maxima": Mutant(
        "nvcc softmax", BARRIER, "", "race", 1
    ),
    "barrier removed after the sums": Mutant("nvcc softmax", BARRIER, "", "race", 2),
    "barrier removed after clearing the bins": Mutant("nvcc histogram", BARRIER, "", "race", 0),
    "barrier removed before flushing the bins": Mutant("nvcc histogram", BARRIER, "", "race", 1),
    "barrier removed from the pipeline of nvcc": Mutant("nvcc gemm", BARRIER, "", "pending race"),
    "wait weakened by one group": Mutant("gemm", r"wait_group\s+1", "wait_group 2", "pending"),
    "wait removed": Mutant("gemm", r"cp\.async\.wait_group\s+1;", "", "pending"),
    "wait weakened in the kernel of nvcc": Mutant(
        "nvcc gemm", r"wait_group\s+1", "wait_group 3", "pending"
    ),
    "commit removed from the first stage": Mutant(
        "gemm", r"cp\.async\.commit_group;", "", "pending", 0
    ),
    "commit removed from the loop": Mutant("gemm", r"cp\.async\.commit_group;", "", "pending", 2),
    "barrier removed from a lowered pipeline": Mutant(
        "lowered product", BARRIER, "", "pending race"
    ),
    "wait weakened in a lowered pipeline": Mutant(
        "lowered product", r"wait_group\s+1", "wait_group 2", "pending"
    ),
    "wait removed from a lowered pipeline": Mutant(
        "lowered product", r"cp\.async\.wait_group\s+1;", "", "pending"
    ),
    "commit removed from a lowered pipeline": Mutant(
        "lowered product", r"cp\.async\.commit_group;", "", "pending", 2
    ),
    "rows of a lowered tile brought together": Mutant(
        "lowered product",
        r"(mad\.lo\.s64\s+%rd\d+, %rd\d+, )48",
        r"\g<1>32",
        "numbers race pending",
    ),
    "stages of a lowered pipeline brought together": Mutant(
        "lowered product",
        r"(mad\.lo\.s64\s+%rd\d+, %rd\d+, )1536",
        r"\g<1>768",
        "race pending numbers",
    ),
    "fragment registers of a lowered A swapped": Mutant(
        "lowered product", MMA, r"\1{\3, \2, \4, \5}, {\6, \7},", "numbers"
    ),
    "fragment registers of a lowered B swapped": Mutant(
        "lowered product", MMA, r"\1{\2, \3, \4, \5}, {\7, \6},", "numbers", 2
    ),
    "fragment registers of a lowered load swapped": Mutant(
        "lowered product", LOAD, r"\1{\2, \4, \3, \5}", "numbers", 1
    ),
    "bound dropped where a lowered result is stored": Mutant(
        "lowered product", r"@%p\d+ bra\s+\S+;(?=\s+(?:or|shl|add)[^@]*st\.global)", "", "bounds", 1
    ),
    "bound dropped where a lowered operand is copied": Mutant(
        "lowered product", r"selp\.b32\s+(%r\d+), 16, 0, %p\d+;", r"mov.b32 \1, 16;", "bounds", 0
    ),
    "fewer bytes expected than boxes bring": Mutant(
        "lowered boxes",
        r"(expect_tx\.shared::cta\.b64 _, \[%r\d+\],) \d+;",
        r"\1 8192;",
        "barrier",
        -1,
    ),
    "wait for boxes removed": Mutant("lowered boxes", WAIT, "", "pending race barrier"),
    "wait for boxes of the other parity": Mutant(
        "lowered boxes",
        r"(try_wait\.parity\S+ done, \[%r\d+\],) %r\d+;",
        r"\1 1;",
        "pending race barrier",
    ),
    "barrier removed from a pipeline of boxes": Mutant(
        "lowered boxes", BARRIER, "", "race pending barrier", -1
    ),
    "barrier removed before boxes are asked for": Mutant(
        "lowered boxes", BARRIER, "", "race pending barrier", 0
    ),
    "swizzle dropped from a descriptor": Mutant(
        "lowered boxes", r"4611686293338849280", "274911461376", "numbers pending", 0
    ),
    "wait for products of boxes weakened": Mutant(
        "lowered boxes",
        r"wait_group\.sync\.aligned\s+1;",
        "wait_group.sync.aligned 3;",
        "race numbers",
    ),
    "wait for the last products removed": Mutant(
        "lowered boxes", r"wgmma\.wait_group\.sync\.aligned\s+0;", "", "numbers"
    ),
    "boxes of two rounds on one place": Mutant(
        "lowered boxes",
        r"shl\.b64(\s+%rd\d+, %rd\d+), 13;",
        r"shl.b64\1, 12;",
        "race pending numbers",
        1,
    ),
    "wait for a free stage removed": Mutant("nvcc hopper", WAIT, "", "pending race barrier", 0),
    "wait for a full stage removed": Mutant("nvcc hopper", WAIT, "", "pending race", 1),
    "wait for a product removed": Mutant(
        "nvcc hopper", r"wgmma\.wait_group\.sync\.aligned 0;", "", "numbers race"
    ),
    "arrival after a product removed": Mutant(
        "nvcc hopper", r"mbarrier\.arrive\.shared\.b64 _, [^;]*;", "", "barrier"
    ),
    "swizzle of a copy broken": Mutant("nvcc hopper", r"4611686[0-9]+", "0", "numbers"),
    "swizzle broken where tiles are written": Mutant(
        "gemm", r"xor\.b32(\s+%r\d+), %r\d+, (%r\d+);", r"mov.b32\1, \2;", "numbers race", 0
    ),
    "swizzle broken where A is read": Mutant(
        "gemm", r"xor\.b32(\s+%r\d+), (%r\d+), %r\d+;", r"mov.b32\1, \2;", "numbers", 1
    ),
    "swizzle broken where B is read": Mutant(
        "gemm", r"xor\.b32(\s+%r\d+), (%r\d+), %r\d+;", r"mov.b32\1, \2;", "numbers", 2
    ),
    "two stages on one place": Mutant("gemm", r"(%rd\d+)\+8192\]", r"\1]", "race pending"),
    "the tile of B over that of A": Mutant(
        "gemm", r"(%rd\d+)\+4096\], \[", r"\1], [", "race pending"
    ),
    "fragment registers of A swapped": Mutant(
        "gemm", MMA, r"\1{\3, \2, \4, \5}, {\6, \7},", "numbers"
    ),
    "fragment registers of A swapped across columns": Mutant(
        "gemm", MMA, r"\1{\2, \5, \4, \3}, {\6, \7},", "numbers", 3
    ),
    "fragment registers of B swapped": Mutant(
        "gemm", MMA, r"\1{\2, \3, \4, \5}, {\7, \6},", "numbers", 1
    ),
    "fragment registers of a load swapped": Mutant("gemm", LOAD, r"\1{\2, \4, \3, \5}", "numbers"),
    "fragment loaded transposed": Mutant("gemm", r"x4\.shared", "x4.trans.shared", "numbers", 2),
    "bound dropped where rows of C are stored": Mutant(
        "gemm", GUARD, "", "bounds conflict numbers", 4
    ),
    "bound dropped where A is copied": Mutant("gemm", SIZE, r"mov.b32 \1, \2;", "bounds", 0),
    "bound dropped where B is copied": Mutant("gemm", SIZE, r"mov.b32 \1, \2;", "bounds", 2),
    "bound dropped from a row": Mutant("softmax", r"@%p1 bra\s+\S+;", "", "numbers bounds", 0),
    "bound dropped from the bins": Mutant(
        "nvcc histogram", r"@%p\d+ bra\s+\S+;(?=\s+(cvta|mul\.wide|ld\.param))", "", "bounds"
    ),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_kernel_itself_is_right(kernel: str) -> None:
    text, right = KERNELS[kernel]
    assert right(text())


def verdict(mutant: Mutant) -> str:
    try:
        right = KERNELS[mutant.kernel][1](mutant.text())
    except KernelFault as fault:
        return fault.kind
    return "nobody noticed" if right else "numbers"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    assert verdict(MUTANTS[name]) in MUTANTS[name].caught.split()
